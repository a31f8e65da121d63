//! Wall-clock times: by which clock a task runs, what becomes of it when that clock jumps, and how
//! it ends.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;
mod cron;

use std::cell::Cell;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use common::{ByHand, Captive, Notes, PATIENCE, ms, ns, scaled, secs, virtual_time};
use lars_jobs::wall_clock::{
    Calendar, MissedRuns, RecheckError, VirtualWallClock, WallClock, WallClockScheduler,
    WallClockTimer,
};
use lars_scheduler::{LightArrayRevolverScheduler, Refusal, VirtualTime};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A midnight, far from the epoch.
fn midnight() -> SystemTime {
    SystemTime::UNIX_EPOCH + 20_000 * DAY
}

/// Virtual time, and a wall clock that shows midnight when it begins.
struct World {
    time: VirtualTime,
    clock: VirtualWallClock,
    wall: WallClockScheduler,
}

impl World {
    fn new() -> Self {
        Self::on(virtual_time())
    }

    fn on(time: VirtualTime) -> Self {
        let clock = VirtualWallClock::new(time.handle(), midnight());
        let wall = WallClockScheduler::with_clock(time.handle(), clock.clone());
        Self { time, clock, wall }
    }

    /// What the clock shows, since midnight.
    fn shows(&self) -> Duration {
        self.clock.now().duration_since(midnight()).unwrap()
    }

    /// A task that notes what the clock shows.
    fn note(&self, notes: &Notes<Duration>) -> impl FnMut() + Send + 'static + use<> {
        let (clock, notes) = (self.clock.clone(), notes.clone());
        move || notes.add(clock.now().duration_since(midnight()).unwrap())
    }

    /// A one-shot at that time after midnight.
    fn at(&self, after: Duration, notes: &Notes<Duration>) -> WallClockTimer {
        self.wall.schedule_at_system_time(midnight() + after, self.note(notes)).unwrap()
    }

    /// Moves time until the wall clock shows this.
    fn until(&self, after: Duration) {
        self.time.advance(after - self.shows());
    }
}

/// Every full `period` since the epoch.
fn every(period: Duration) -> impl Fn(SystemTime) -> Option<SystemTime> + Send + 'static {
    move |after| {
        let since = after.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
        let next = (since / period.as_nanos() + 1) * period.as_nanos();
        Some(SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(next).ok()?))
    }
}

/// The first time that a [`SystemTime`] can express.
fn first_time() -> SystemTime {
    let (mut first, mut step) = (SystemTime::UNIX_EPOCH, Duration::MAX);
    while !step.is_zero() {
        match first.checked_sub(step) {
            Some(earlier) if earlier < first => first = earlier,
            _ => step /= 2,
        }
    }
    first
}

#[test]
fn a_virtual_wall_clock_jumps_back_to_the_first_time_there_is_and_not_beyond() {
    let (time, first) = (virtual_time(), first_time());
    let clock = VirtualWallClock::new(time.handle(), first);
    time.advance(2 * HOUR);
    clock.jump_back(HOUR);
    assert_eq!(clock.now(), first + HOUR);
    time.advance(HOUR);
    clock.jump_back(2 * HOUR);
    assert_eq!(clock.now(), first);
    time.advance(HOUR);
    let beyond = catch_unwind(AssertUnwindSafe(|| clock.jump_back(2 * HOUR))).unwrap_err();
    let message = beyond.downcast_ref::<String>().unwrap();
    assert_eq!(*message, "the clock cannot jump beyond what a SystemTime can express");
    assert_eq!(clock.now(), first + HOUR, "it goes on as before");
}

#[test]
fn a_one_shot_runs_when_the_wall_clock_shows_its_time_and_not_a_nanosecond_before() {
    let world = World::new();
    let notes = Notes::new();
    let timer = world.at(9 * HOUR, &notes);
    assert_eq!(timer.next_run(), Some(midnight() + 9 * HOUR));
    world.time.advance(9 * HOUR - ns(1));
    assert!(timer.is_pending());
    assert_eq!(notes.len(), 0);
    world.time.advance(ns(1));
    assert_eq!(notes.take(), [9 * HOUR]);
    assert!(!timer.is_pending());
    assert_eq!(timer.next_run(), None);
    assert_eq!(world.time.pending(), 0);
}

#[test]
fn a_time_that_has_passed_is_now_but_not_on_the_callers_stack() {
    let world = World::new();
    let notes = Notes::new();
    let past = SystemTime::UNIX_EPOCH;
    world.wall.schedule_at_system_time(past, world.note(&notes)).unwrap();
    world.at(Duration::ZERO, &notes);
    assert_eq!(notes.len(), 0);
    world.time.advance(Duration::ZERO);
    assert_eq!(notes.take(), [Duration::ZERO; 2]);
}

#[test]
fn a_clock_set_forwards_past_the_time_is_noticed_within_the_recheck() {
    let world = World::new();
    let notes = Notes::new();
    world.at(9 * HOUR, &notes);
    world.time.advance(30 * MINUTE + secs(1));
    world.clock.jump_forward(12 * HOUR);
    world.time.advance(secs(58));
    assert_eq!(notes.len(), 0);
    world.time.advance(secs(1));
    assert_eq!(notes.take(), [12 * HOUR + 31 * MINUTE]);
}

#[test]
fn a_clock_set_forwards_before_the_time_shortens_the_wait_to_the_nanosecond() {
    let world = World::new();
    let notes = Notes::new();
    world.at(9 * HOUR, &notes);
    world.time.advance(HOUR);
    world.clock.jump_forward(2 * HOUR);
    world.time.advance(6 * HOUR - ns(1));
    assert_eq!(notes.len(), 0);
    world.time.advance(ns(1));
    assert_eq!(notes.take(), [9 * HOUR]);
}

#[test]
fn a_clock_set_back_in_the_last_second_before_the_run_is_waited_for_again() {
    let world = World::new();
    let notes = Notes::new();
    world.at(9 * HOUR, &notes);
    world.time.advance(9 * HOUR - ns(1));
    world.clock.jump_back(5 * HOUR);
    world.time.advance(5 * HOUR);
    assert_eq!(notes.len(), 0);
    world.time.advance(ns(1));
    assert_eq!(notes.take(), [9 * HOUR]);
}

#[test]
fn a_one_shot_that_has_run_does_not_run_again_when_the_clock_is_set_back() {
    let world = World::new();
    let notes = Notes::new();
    let timer = world.at(9 * HOUR, &notes);
    world.time.advance(10 * HOUR);
    world.clock.jump_back(10 * HOUR);
    world.time.advance(DAY);
    assert_eq!(notes.take(), [9 * HOUR]);
    assert!(!timer.is_pending());
}

#[test]
fn by_a_wall_clock_at_half_speed_nothing_is_early() {
    let time = virtual_time();
    let (handle, start) = (time.handle(), time.now());
    let wall = WallClockScheduler::with_clock(time.handle(), move || {
        midnight() + (handle.now() - start) / 2
    });
    let notes = Notes::new();
    let (handle, note) = (time.handle(), notes.clone());
    wall.schedule_at_system_time(midnight() + HOUR, move || note.add(handle.now() - start))
        .unwrap();
    time.advance(2 * HOUR - ns(2));
    assert_eq!(notes.len(), 0);
    time.advance(MINUTE);
    assert!(notes.take()[0] >= 2 * HOUR);
}

#[test]
fn a_time_in_the_far_future_is_accepted_and_waits() {
    let world = World::new();
    let notes = Notes::new();
    let timer = world.at(5_000 * 365 * DAY, &notes);
    world.time.advance(10 * DAY);
    assert!(timer.is_pending());
    assert_eq!(notes.len(), 0);
    assert!(timer.cancel());
    assert_eq!(world.time.run_until_idle(10), Ok(0));
}

#[test]
fn a_virtual_wall_clock_stands_still_at_the_last_time_that_can_be_expressed() {
    let world = World::new();
    let (mut last, mut step) = (midnight(), Duration::MAX);
    while !step.is_zero() {
        match last.checked_add(step).filter(|later| *later > last) {
            Some(later) => last = later,
            None => step /= 2,
        }
    }
    world.clock.set(last - HOUR);
    let ran = Notes::new();
    let note = ran.clone();
    world.wall.schedule_at_system_time(last, move || note.add(())).unwrap();
    world.time.advance(HOUR / 2);
    assert_eq!(world.clock.now(), last - HOUR / 2);
    assert_eq!(ran.take(), []);
    world.time.advance(DAY);
    assert_eq!(world.clock.now(), last);
    assert_eq!(ran.take(), [()]);
    world.clock.jump_back(HOUR);
    assert_eq!(world.clock.now(), last - HOUR);
    world.time.advance(MINUTE);
    assert_eq!(world.clock.now(), last - HOUR + MINUTE);
}

#[test]
fn a_recheck_below_the_limit_is_refused_with_both_values() {
    let wall = WallClockScheduler::new(virtual_time().handle());
    let error: RecheckError = wall.clone().recheck(Duration::ZERO).unwrap_err();
    assert_eq!((error.given, error.min), (Duration::ZERO, ms(1)));
    assert_eq!(error.to_string(), "the recheck is 0ns, but it must be at least 1ms");
    assert!(wall.recheck(ms(1)).is_ok());
}

#[test]
fn without_rechecks_a_timer_looks_once_and_is_not_early_for_it() {
    let world = World::new();
    let wall = world.wall.clone().recheck(Duration::MAX).unwrap();
    let notes = Notes::new();
    wall.schedule_at_system_time(midnight() + 9 * HOUR, world.note(&notes)).unwrap();
    assert_eq!(world.time.advance(8 * HOUR), 0, "it looked before the time had come");
    world.clock.jump_back(HOUR);
    assert_eq!(world.time.advance(HOUR), 1);
    assert_eq!(notes.len(), 0);
    assert_eq!(world.time.advance(HOUR), 1);
    assert_eq!(notes.take(), [9 * HOUR]);
}

#[test]
fn a_cancelled_one_shot_never_runs_and_its_captures_are_dropped_inside_the_cancel() {
    let world = World::new();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "dropped");
    let at = midnight() + 9 * HOUR;
    let timer = world.wall.schedule_at_system_time(at, move || drop(captive)).unwrap();
    world.time.advance(HOUR);
    assert_eq!(notes.len(), 0);
    assert!(timer.cancel());
    assert_eq!(notes.take(), ["dropped"]);
    assert!(timer.is_cancelled() && !timer.is_pending());
    assert_eq!(timer.next_run(), None);
    assert!(!timer.cancel());
    assert_eq!(world.time.run_until_idle(10), Ok(0));
}

#[test]
fn a_one_shot_that_runs_cannot_be_cancelled_any_more_not_even_by_itself() {
    let world = World::new();
    let (own, answers) = (Arc::new(Mutex::new(None::<WallClockTimer>)), Notes::new());
    let timer = {
        let (own, answers) = (Arc::clone(&own), answers.clone());
        let task = move || {
            let own = own.lock().unwrap();
            let own = own.as_ref().unwrap();
            answers.add((own.cancel(), own.is_pending(), own.next_run()));
        };
        world.wall.schedule_at_system_time(midnight() + HOUR, task).unwrap()
    };
    *own.lock().unwrap() = Some(timer);
    world.time.advance(HOUR);
    assert_eq!(answers.take(), [(false, false, None)]);
    assert!(!own.lock().unwrap().as_ref().unwrap().is_cancelled());
}

#[test]
fn a_cancel_while_the_last_look_waits_in_its_executor_prevents_the_run() {
    let by_hand = ByHand::default();
    let builder = LightArrayRevolverScheduler::builder().executor(by_hand.clone());
    let world = World::on(builder.build_virtual().unwrap());
    let notes = Notes::new();
    let timer = world.at(secs(5), &notes);
    world.time.advance(secs(5));
    assert_eq!(by_hand.waiting(), 1);
    assert!(timer.is_pending());
    assert!(timer.cancel());
    assert!(by_hand.run_next());
    assert_eq!(notes.len(), 0);
}

/// A clock that stands, and when it is told to, cancels what is in the slot while it is read.
#[derive(Clone, Default)]
struct Canceller {
    shows: Arc<Mutex<Duration>>,
    cancels: Arc<Mutex<Option<WallClockTimer>>>,
    cancelled: Arc<Mutex<Option<WallClockTimer>>>,
}

impl WallClock for Canceller {
    fn now(&self) -> SystemTime {
        if let Some(timer) = self.cancels.lock().unwrap().take() {
            assert!(timer.cancel());
            *self.cancelled.lock().unwrap() = Some(timer);
        }
        midnight() + *self.shows.lock().unwrap()
    }
}

#[test]
fn a_cancel_in_the_middle_of_a_look_prevents_the_run_and_the_next_look() {
    for due in [true, false] {
        for repeats in [true, false] {
            let time = virtual_time();
            let clock = Canceller::default();
            let wall = WallClockScheduler::with_clock(time.handle(), clock.clone());
            let notes = Notes::new();
            let captive = Captive::new(&notes, "dropped");
            let runs = notes.clone();
            let task = move || {
                let _ = &captive;
                runs.add("run");
            };
            let timer = if repeats {
                wall.schedule_by_calendar(every(HOUR), task)
            } else {
                wall.schedule_at_system_time(midnight() + HOUR, task)
            };
            *clock.cancels.lock().unwrap() = Some(timer.unwrap());
            if due {
                *clock.shows.lock().unwrap() = HOUR;
            }
            time.advance(2 * MINUTE);
            assert_eq!(notes.take(), ["dropped"], "due: {due}, repeats: {repeats}");
            let timer = clock.cancelled.lock().unwrap().take().expect("a look has cancelled it");
            assert!(timer.is_cancelled() && !timer.is_pending() && !timer.cancel());
            assert_eq!(timer.next_run(), None);
            assert_eq!(time.pending(), 0);
        }
    }
}

#[test]
fn in_races_a_one_shot_runs_exactly_when_its_cancel_says_no() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let wall = WallClockScheduler::new(scheduler.handle());
    for round in 0..scaled(2_000, 10) {
        let (sender, receiver) = mpsc::channel();
        let at = SystemTime::now() + ns((round as u64 % 20) * 100_000);
        let timer = wall.schedule_at_system_time(at, move || sender.send(()).unwrap()).unwrap();
        if round % 2 == 0 {
            thread::yield_now();
        } else {
            thread::sleep(Duration::from_micros(round as u64 % 1_000));
        }
        let cancelled = timer.cancel();
        // The sender goes with the task, whether that runs or not.
        let ran = receiver.recv_timeout(PATIENCE);
        assert_eq!(ran.is_ok(), !cancelled);
        if cancelled {
            assert_eq!(ran, Err(mpsc::RecvTimeoutError::Disconnected), "captures were kept");
        }
    }
}

thread_local! {
    /// What the clock showed when this thread read it last.
    static LAST_READ: Cell<Option<SystemTime>> = const { Cell::new(None) };
}

#[test]
fn in_real_time_no_task_runs_before_the_clock_has_shown_its_time() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let wall = WallClockScheduler::with_clock(scheduler.handle(), || {
        let now = SystemTime::now();
        LAST_READ.set(Some(now));
        now
    });
    let (sender, receiver) = mpsc::channel();
    let count = scaled(50, 5);
    for number in 0..count {
        let (at, sender) = (SystemTime::now() + ns(number as u64 * 700_001), sender.clone());
        wall.schedule_at_system_time(at, move || sender.send((at, LAST_READ.get())).unwrap())
            .unwrap();
    }
    for _ in 0..count {
        let (at, read) = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(read.unwrap() >= at, "{read:?} is before {at:?}");
    }
}

#[test]
fn a_repeat_runs_at_each_occurrence_and_tells_the_next_one() {
    let world = World::new();
    let notes = Notes::new();
    let timer = world.wall.schedule_by_calendar(every(HOUR), world.note(&notes)).unwrap();
    assert_eq!(timer.next_run(), Some(midnight() + HOUR), "the first is after now");
    world.time.advance(3 * HOUR);
    assert_eq!(notes.take(), [HOUR, 2 * HOUR, 3 * HOUR]);
    assert!(timer.is_pending());
    assert_eq!(timer.next_run(), Some(midnight() + 4 * HOUR));
    assert!(timer.cancel());
    assert!(!timer.cancel());
    world.time.advance(DAY);
    assert_eq!(notes.len(), 0);
}

/// The picture in the documentation of `MissedRuns`: hourly, asleep from 9:30 to 12:10, then to
/// 13:00.
fn asleep_over_three_hours(missed: MissedRuns) -> Vec<u64> {
    let world = World::new();
    let notes = Notes::new();
    world.time.advance(8 * HOUR + 30 * MINUTE);
    let wall = world.wall.clone().missed_runs(missed);
    wall.schedule_by_calendar(every(HOUR), world.note(&notes)).unwrap();
    world.time.advance(HOUR);
    world.clock.set(midnight() + 12 * HOUR + 10 * MINUTE);
    // Noticed by the next look, which comes with the re-check and so within this minute.
    world.until(13 * HOUR);
    notes.take().iter().map(|at| at.as_secs() / 60).collect()
}

#[test]
fn missed_occurrences_get_one_run_or_each_their_own_or_none_that_is_too_late() {
    let (nine, noticed, one) = (9 * 60, 12 * 60 + 11, 13 * 60);
    assert_eq!(asleep_over_three_hours(MissedRuns::Once), [nine, noticed, one]);
    assert_eq!(asleep_over_three_hours(MissedRuns::Burst), [nine, noticed, noticed, noticed, one]);
    assert_eq!(asleep_over_three_hours(MissedRuns::Skip(5 * MINUTE)), [nine, one]);
    assert_eq!(asleep_over_three_hours(MissedRuns::Skip(15 * MINUTE)), [nine, noticed, one]);
    assert_eq!(MissedRuns::default(), MissedRuns::Once);
}

#[test]
fn an_occurrence_during_a_long_run_is_made_up_for_once_and_runs_do_not_overlap() {
    let by_hand = ByHand::default();
    let builder = LightArrayRevolverScheduler::builder().executor(by_hand.clone());
    let world = Arc::new(World::on(builder.build_virtual().unwrap()));
    let notes = Notes::new();
    let mut note = world.note(&notes);
    let long = Arc::downgrade(&world);
    let first = AtomicBool::new(true);
    let task = move || {
        note();
        if first.swap(false, Ordering::Relaxed) {
            // The first run takes two hours and a half; the test moves the time from inside it.
            long.upgrade().unwrap().time.advance(2 * HOUR + 30 * MINUTE);
        }
    };
    world.wall.schedule_by_calendar(every(HOUR), task).unwrap();
    while world.shows() < 5 * HOUR {
        if world.time.advance_to_next().is_some() {
            while by_hand.run_next() {}
        }
    }
    assert_eq!(notes.take(), [HOUR, 3 * HOUR + 30 * MINUTE, 4 * HOUR, 5 * HOUR]);
}

#[test]
fn set_back_a_little_the_clock_does_not_make_an_occurrence_run_twice() {
    let world = World::new();
    let notes = Notes::new();
    world.wall.schedule_by_calendar(every(HOUR), world.note(&notes)).unwrap();
    world.time.advance(4 * HOUR + 5 * MINUTE);
    world.clock.jump_back(3 * HOUR - ns(1) - 5 * MINUTE); // to 1:10
    world.until(5 * HOUR);
    let hours = [1, 2, 3, 4, 5].map(|hours| hours * HOUR);
    assert_eq!(notes.take(), hours);
}

#[test]
fn set_back_by_three_hours_the_clock_is_believed_and_the_series_starts_anew() {
    let world = World::new();
    let notes = Notes::new();
    let timer = world.wall.schedule_by_calendar(every(HOUR), world.note(&notes)).unwrap();
    world.time.advance(5 * HOUR);
    notes.take();
    world.clock.jump_back(3 * HOUR + MINUTE); // to 1:59
    world.until(2 * HOUR);
    world.until(3 * HOUR);
    assert_eq!(notes.take(), [2 * HOUR, 3 * HOUR]);
    assert_eq!(timer.next_run(), Some(midnight() + 4 * HOUR));
    // And when the year was wrong, the series does not wait a year to go on.
    world.clock.jump_forward(365 * DAY);
    world.time.advance(MINUTE);
    assert_eq!(notes.take().len(), 1, "one run for a year that was skipped");
    world.clock.jump_back(365 * DAY);
    world.until(4 * HOUR);
    assert_eq!(notes.take(), [4 * HOUR]);
}

#[test]
fn set_back_by_half_a_day_the_clock_is_believed_however_little_of_that_has_run() {
    let world = World::new();
    let notes = Notes::new();
    let nine = |after| every(DAY)(after - 9 * HOUR).map(|midnight| midnight + 9 * HOUR);
    let timer = world.wall.schedule_by_calendar(nine, world.note(&notes)).unwrap();
    world.until(20 * HOUR);
    assert_eq!(notes.take(), [9 * HOUR]);
    world.clock.jump_back(12 * HOUR); // to an hour before it ran
    world.time.advance(MINUTE);
    assert_eq!(timer.next_run(), Some(midnight() + 9 * HOUR));
    world.until(20 * HOUR);
    assert_eq!(notes.take(), [9 * HOUR]);
    world.clock.jump_back(12 * HOUR - ns(1));
    world.clock.jump_forward(10 * HOUR - ns(1)); // two hours, to 18:00
    world.until(DAY);
    assert_eq!(notes.len(), 0, "of a little that it was set back");
}

/// Like `every`, for those that want the hours again.
struct Chimes;

impl Calendar for Chimes {
    fn next_after(&self, instant: SystemTime) -> Option<SystemTime> {
        every(HOUR)(instant)
    }
    fn runs_again_when_set_back(&self) -> bool {
        true
    }
}

#[test]
fn a_calendar_that_says_so_runs_again_what_the_clock_comes_to_again() {
    let world = World::new();
    let notes = Notes::new();
    world.wall.schedule_by_calendar(Chimes, world.note(&notes)).unwrap();
    world.time.advance(2 * HOUR + MINUTE);
    world.clock.jump_back(HOUR);
    world.until(3 * HOUR);
    assert_eq!(notes.take(), [HOUR, 2 * HOUR, 2 * HOUR, 3 * HOUR]);
}

#[test]
fn a_calendar_that_comes_to_its_end_ends_the_series_and_drops_the_task() {
    let world = World::new();
    let notes = Notes::new();
    let last = midnight() + 2 * HOUR;
    let calendar = move |after| every(HOUR)(after).filter(|next| *next <= last);
    let captive = Captive::new(&notes, "dropped");
    let runs = notes.clone();
    let task = move || {
        let _ = &captive;
        runs.add("run");
    };
    let timer = world.wall.schedule_by_calendar(calendar, task).unwrap();
    world.time.advance(3 * HOUR);
    assert_eq!(notes.take(), ["run", "run", "dropped"]);
    assert!(!timer.is_pending() && !timer.is_cancelled() && !timer.cancel());

    let task = || -> () { panic!("without an occurrence") };
    let nothing = world.wall.schedule_by_calendar(|_| None, task);
    let nothing = nothing.unwrap();
    assert_eq!(nothing.next_run(), None);
    world.time.advance(Duration::ZERO);
    assert!(!nothing.is_pending());
    assert_eq!((world.time.pending(), world.time.metrics().panicked), (0, 0));
}

#[test]
fn a_run_that_breaks_or_cancels_its_own_timer_is_the_last() {
    let world = World::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let breaks = move || match count.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let timer = world.wall.schedule_by_calendar(every(HOUR), breaks).unwrap();
    world.time.advance(DAY);
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    assert!(!timer.is_pending() && !timer.cancel());

    let own = Arc::new(Mutex::new(None::<WallClockTimer>));
    let answers = Notes::new();
    let timer = {
        let (own, answers) = (Arc::clone(&own), answers.clone());
        let task = move || answers.add(own.lock().unwrap().as_ref().unwrap().cancel());
        world.wall.schedule_by_calendar(every(HOUR), task).unwrap()
    };
    *own.lock().unwrap() = Some(timer);
    world.time.advance(DAY);
    assert_eq!(answers.take(), [true]);
    assert_eq!(world.time.pending(), 0);
}

#[test]
fn a_panicking_task_is_reported_and_its_timer_has_ended_and_the_others_go_on() {
    let reports = Notes::new();
    let note = reports.clone();
    let builder = LightArrayRevolverScheduler::builder()
        .on_panic(move |report| note.add(report.message.to_owned()));
    let world = World::on(builder.build_virtual().unwrap());
    let notes = Notes::new();
    let once =
        world.wall.schedule_at_system_time(midnight() + HOUR, || panic!("expected: once")).unwrap();
    let series = world
        .wall
        .schedule_by_calendar(every(HOUR), || -> () { panic!("expected: series") })
        .unwrap();
    world.wall.schedule_by_calendar(every(HOUR), world.note(&notes)).unwrap();
    world.time.advance(2 * HOUR);
    let mut reports = reports.take();
    reports.sort();
    assert_eq!(reports, ["expected: once", "expected: series"]);
    for timer in [once, series] {
        assert!(!timer.is_pending() && !timer.is_cancelled() && !timer.cancel());
    }
    assert_eq!(notes.take(), [HOUR, 2 * HOUR]);
}

#[test]
fn a_wall_clock_or_a_calendar_that_panics_is_contained_and_ends_its_timer() {
    let time = virtual_time();
    let broken = Arc::new(AtomicBool::new(false));
    let is_broken = Arc::clone(&broken);
    let wall = WallClockScheduler::with_clock(time.handle(), move || {
        assert!(!is_broken.load(Ordering::Relaxed), "expected: the clock is broken");
        midnight()
    });
    let by_clock = wall.schedule_at_system_time(midnight() + HOUR, || {}).unwrap();

    let world = World::on(time);
    let calls = AtomicU64::new(0);
    let calendar = move |after| {
        assert_eq!(calls.fetch_add(1, Ordering::Relaxed), 0, "expected: no calendar");
        every(HOUR)(after)
    };
    let by_calendar = world.wall.schedule_by_calendar(calendar, || {}).unwrap();

    broken.store(true, Ordering::Relaxed);
    world.time.advance(DAY);
    assert_eq!(world.time.metrics().panicked, 2);
    assert!(!by_clock.is_pending() && !by_calendar.is_pending());
    assert_eq!(world.time.pending(), 0);
}

#[test]
fn a_refused_task_is_given_back_and_never_runs() {
    let builder = LightArrayRevolverScheduler::builder().max_pending(1);
    let world = World::on(builder.build_virtual().unwrap());
    let notes = Notes::new();
    let kept = world.at(HOUR, &notes);

    let at = midnight() + HOUR;
    let error = world.wall.schedule_at_system_time(at, world.note(&notes)).unwrap_err();
    assert_eq!(error.refusal(), &Refusal::Full { limit: 1 });
    let mut task = error.into_task();
    task();
    assert_eq!(notes.take(), [Duration::ZERO]);

    assert!(kept.cancel());
    let stopped = world.time.stop();
    assert!(stopped.wait().is_empty());
    let error = world.wall.schedule_by_calendar(every(HOUR), task).unwrap_err();
    assert_eq!(error.refusal(), &Refusal::Stopped);
    error.into_task()();
    assert_eq!(notes.take(), [Duration::ZERO]);
}

#[test]
fn stop_hands_back_a_look_that_runs_the_task_only_if_its_time_has_come() {
    let world = World::new();
    let notes = Notes::new();
    let (soon, late) = (world.at(30 * MINUTE, &notes), world.at(9 * HOUR, &notes));
    let series = world.wall.schedule_by_calendar(every(HOUR), world.note(&notes)).unwrap();
    let pending = world.time.stop().wait();
    assert_eq!(pending.len(), 3);
    assert!(pending.iter().all(lars_scheduler::PendingTask::is_repeat));
    assert!(soon.is_pending() && late.is_pending() && series.is_pending());
    world.clock.jump_forward(2 * HOUR);
    for task in pending {
        assert!(task.run());
    }
    assert_eq!(notes.take(), [2 * HOUR; 2], "the one-shot of 0:30, and the series' of 1:00");
    for timer in [soon, late, series] {
        assert!(!timer.is_pending() && !timer.cancel());
        assert_eq!(timer.next_run(), None);
    }
}

#[test]
fn a_timer_that_was_handed_back_can_still_be_cancelled_and_then_does_not_run() {
    let world = World::new();
    let notes = Notes::new();
    let timer = world.at(HOUR, &notes);
    let pending = world.time.stop().wait();
    assert!(timer.cancel());
    world.clock.jump_forward(2 * HOUR);
    for task in pending {
        task.run();
    }
    assert_eq!(notes.len(), 0);
    assert!(timer.is_cancelled());
}

#[test]
fn close_runs_nothing_before_its_time_and_the_timers_have_ended() {
    let world = World::new();
    let notes = Notes::new();
    let once = world.at(HOUR, &notes);
    let series = world.wall.schedule_by_calendar(every(HOUR), world.note(&notes)).unwrap();
    let report = world.time.close().unwrap();
    assert_eq!((report.ran, report.repeats_ended), (0, 2));
    assert_eq!(notes.len(), 0);
    assert!(!once.is_pending() && !series.is_pending() && !once.cancel() && !series.cancel());
}

#[test]
fn dropping_the_scheduler_drops_the_captures_and_the_timer_outlives_it() {
    let notes = Notes::new();
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let wall = WallClockScheduler::new(scheduler.handle());
    let captive = Captive::new(&notes, "dropped");
    let at = SystemTime::now() + DAY;
    let timer = wall.schedule_at_system_time(at, move || drop(captive)).unwrap();
    assert!(timer.is_pending());
    drop(scheduler);
    assert_eq!(notes.take(), ["dropped"]);
    assert!(!timer.is_pending() && !timer.cancel());
}

#[test]
fn a_task_may_schedule_on_its_own_scheduler() {
    let world = World::new();
    let notes = Notes::new();
    let (wall, mut note) = (world.wall.clone(), world.note(&notes));
    let chain = move || {
        note();
        wall.schedule_at_system_time(midnight() + 3 * HOUR, note).unwrap();
    };
    world.wall.schedule_at_system_time(midnight() + HOUR, chain).unwrap();
    world.time.advance(DAY);
    assert_eq!(notes.take(), [HOUR, 3 * HOUR]);
}
