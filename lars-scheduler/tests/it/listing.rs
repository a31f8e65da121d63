//! What is pending, listed while the scheduler runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use lars_scheduler::listing::{Listing, TimerKind, TimerQuery};
use lars_scheduler::{Handle, LightArrayRevolverScheduler, Periodic, Task, VirtualTime};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn virtual_time() -> VirtualTime {
    LightArrayRevolverScheduler::builder().build_virtual().unwrap()
}

fn scheduler() -> LightArrayRevolverScheduler {
    LightArrayRevolverScheduler::new().unwrap()
}

fn named(timers: &Handle, delay: Duration, name: &'static str) {
    timers.schedule_once(delay, Task::new(|| ()).named(name)).unwrap();
}

fn names(listing: &Listing) -> Vec<&'static str> {
    listing.timers.iter().map(|timer| timer.identity.label()).collect()
}

/// How many timers of this name there are, by the counts.
fn count(listing: &Listing, name: &str) -> u64 {
    let of_name = listing.groups.iter().filter(|group| group.identity.label() == name);
    of_name.map(|group| group.count).sum()
}

#[test]
fn a_listing_has_what_is_pending_in_the_order_of_the_deadlines() {
    let time = virtual_time();
    named(&time, 3 * HOUR, "third");
    named(&time, SECOND, "first");
    named(&time, 3 * SECOND, "second");
    named(&time, Duration::MAX, "never");
    let cancelled = time.schedule_once(SECOND, Task::new(|| ()).named("cancelled")).unwrap();
    assert!(cancelled.cancel());
    let listing = time.list(TimerQuery::new()).wait();
    assert_eq!(names(&listing), ["first", "second", "third", "never"]);
    assert_eq!((listing.matched, listing.unseen), (4, 0));
    assert_eq!(listing.taken_at, Some(time.now()));
    let [first, .., never] = &*listing.timers else { panic!() };
    assert_eq!((first.due, first.remaining), (Some(time.now() + SECOND), Some(SECOND)));
    assert_eq!((never.due, never.remaining), (None, None));
    time.advance(2 * SECOND);
    assert_eq!(names(&time.list(TimerQuery::new()).wait()), ["second", "third", "never"]);
}

#[test]
fn a_listing_says_of_each_timer_whose_it_is_and_what_kind() {
    let time = virtual_time();
    let line = line!() + 1;
    time.schedule_once(SECOND, Task::new(|| ()).inline()).unwrap();
    let series = Periodic::new(|| ()).named("beat");
    time.schedule_with_fixed_delay(2 * SECOND, SECOND, series).unwrap();
    let listing = time.list(TimerQuery::new()).wait();
    let [once, beat] = &*listing.timers else { panic!("{listing:?}") };
    assert_eq!((once.kind, beat.kind), (TimerKind::Once, TimerKind::Repeat));
    assert!(!once.on_default_executor && beat.on_default_executor);
    assert_eq!(once.identity.place().unwrap().line(), line);
    assert_eq!(beat.identity.name(), Some("beat"));
    time.advance(10 * SECOND);
    assert_eq!(names(&time.list(TimerQuery::new()).wait()), ["beat"]);
}

#[test]
fn names_that_begin_at_one_address_are_told_apart_by_their_lengths() {
    const LONG: &str = "session-timeout";
    let time = virtual_time();
    // One type of task, scheduled at one place.
    for (second, name) in (1..).zip([LONG, &LONG[..7], LONG]) {
        named(&time, second * SECOND, name);
    }
    let listing = time.list(TimerQuery::new()).wait();
    assert_eq!(names(&listing), [LONG, "session", LONG]);
    assert_eq!((count(&listing, LONG), count(&listing, "session")), (2, 1));
}

#[test]
fn a_query_limits_what_is_listed_and_not_what_is_counted() {
    let time = virtual_time();
    for second in 1..=1_000 {
        named(&time, (1_001 - second) * SECOND, "many");
    }
    named(&time, 500 * SECOND, "one");
    let listing = time.list(TimerQuery::new().limit(3)).wait();
    let remaining: Vec<_> = listing.timers.iter().map(|timer| timer.remaining.unwrap()).collect();
    assert_eq!(remaining, [SECOND, 2 * SECOND, 3 * SECOND]);
    assert_eq!(listing.matched, 1_001);
    let groups: Vec<_> =
        listing.groups.iter().map(|group| (group.count, group.first_due)).collect();
    assert_eq!(groups, [(1_000, Some(time.now() + SECOND)), (1, Some(time.now() + 500 * SECOND))]);
    assert!(time.list(TimerQuery::new().limit(0)).wait().timers.is_empty());
}

#[test]
fn a_query_asks_for_a_name_a_place_a_kind_or_a_time() {
    let time = virtual_time();
    named(&time, SECOND, "one");
    named(&time, 2 * SECOND, "two");
    time.schedule_with_fixed_delay(HOUR, HOUR, Periodic::new(|| ()).named("beat")).unwrap();
    let line = line!() + 1;
    time.schedule_once(2 * HOUR, || ()).unwrap();
    let list = |query: TimerQuery| {
        let listing = time.list(query).wait();
        assert_eq!(listing.matched as usize, listing.timers.len());
        listing.timers.iter().map(|timer| timer.remaining.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(list(TimerQuery::new().label("tw")), [2 * SECOND]);
    assert_eq!(list(TimerQuery::new().label("{{closure}}")), [2 * HOUR]);
    assert_eq!(list(TimerQuery::new().place(format!("listing.rs:{line}:"))), [2 * HOUR]);
    assert_eq!(list(TimerQuery::new().place("nowhere.rs")), []);
    assert_eq!(list(TimerQuery::new().kind(TimerKind::Repeat)), [HOUR]);
    assert_eq!(list(TimerQuery::new().kind(TimerKind::Once).label("e")), [SECOND, 2 * HOUR]);
    assert_eq!(list(TimerQuery::new().due_within(2 * SECOND)), [SECOND, 2 * SECOND]);
}

#[test]
fn after_a_stop_a_listing_is_empty_and_those_under_way_resolve() {
    let time = virtual_time();
    named(&time, SECOND, "left");
    let under_way = time.handle().list(TimerQuery::new()); // nobody moves time
    drop(time.stop().wait());
    assert_eq!(under_way.wait().matched, 0);
    assert_eq!(time.list(TimerQuery::new()).wait().matched, 0);
    let scheduler = scheduler();
    let timers = scheduler.handle();
    drop(scheduler);
    assert_eq!(timers.list(TimerQuery::new()).wait().taken_at, None);
}

#[test]
fn a_listing_asked_for_by_a_task_in_virtual_time_resolves_when_the_movement_ends() {
    let time = virtual_time();
    let (sender, receiver) = mpsc::channel();
    let timers = time.handle();
    let ask = move || sender.send(timers.list(TimerQuery::new())).unwrap();
    time.schedule_once(SECOND, ask).unwrap();
    named(&time, HOUR, "later");
    time.advance(2 * SECOND);
    assert_eq!(names(&receiver.recv().unwrap().wait()), ["later"]);
}

#[test]
fn a_listing_wakes_a_timer_thread_that_sleeps_and_one_that_nobody_waits_for_holds_nothing_up() {
    let scheduler = scheduler();
    named(&scheduler, HOUR, "far");
    std::thread::sleep(Duration::from_millis(5));
    drop(scheduler.list(TimerQuery::new()));
    assert_eq!(names(&scheduler.list(TimerQuery::new()).wait()), ["far"]);
    let listing = futures::executor::block_on(scheduler.list(TimerQuery::new()));
    assert_eq!(names(&listing), ["far"]);
}

#[test]
fn a_listing_that_an_inline_task_holds_up_can_be_waited_for_again() {
    let scheduler = scheduler();
    let (release, hold) = mpsc::channel::<()>();
    let (begun, inside) = mpsc::channel();
    let block = Task::new(move || {
        begun.send(()).unwrap();
        let _ = hold.recv();
    });
    scheduler.schedule_once(Duration::ZERO, block.inline()).unwrap();
    named(&scheduler, HOUR, "far");
    inside.recv().unwrap();
    let listing = scheduler.list(TimerQuery::new());
    let listing = listing.wait_timeout(Duration::from_millis(5)).unwrap_err();
    drop(release);
    assert_eq!(names(&listing.wait()), ["far"]);
}

#[test]
fn timers_in_the_wheels_of_all_threads_are_listed_exactly_once() {
    const THREADS: u64 = 3;
    const EACH: u64 = if cfg!(miri) { 100 } else { 5_000 };
    let scheduler = scheduler();
    let (all_have, done) = (Barrier::new(THREADS as usize + 1), Barrier::new(THREADS as usize + 1));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for number in 0..EACH {
                    named(&scheduler, HOUR + Duration::from_micros(number), "stays");
                }
                all_have.wait();
                done.wait();
            });
        }
        named(&scheduler, HOUR, "stays");
        all_have.wait();
        let listing = scheduler.list(TimerQuery::new().limit(usize::MAX)).wait();
        assert_eq!((listing.matched, listing.unseen), (THREADS * EACH + 1, 0));
        assert_eq!(listing.timers.len() as u64, listing.matched);
        assert!(listing.timers.windows(2).all(|pair| pair[0].due <= pair[1].due));
        done.wait();
    });
    // The threads are gone, their timers are not.
    assert_eq!(scheduler.list(TimerQuery::new()).wait().matched, THREADS * EACH + 1);
}

#[test]
fn levels_count_each_timer_once_in_the_slot_that_its_deadline_belongs_in() {
    let tick = Duration::from_millis(1);
    let builder = LightArrayRevolverScheduler::builder().tick_duration(tick).ticks_per_wheel(256);
    let time = builder.build_virtual().unwrap();
    time.advance(1_000 * tick);
    assert!(time.list(TimerQuery::new()).wait().levels.is_empty());
    for (number, delay) in
        [(1, tick), (2, 9 * tick), (3, 200 * tick), (4, SECOND), (5, HOUR), (6, Duration::MAX)]
    {
        (0..number).for_each(|_| named(&time, delay, "t"));
    }
    let listing = time.list(TimerQuery::new().levels().limit(0)).wait();
    let levels = &listing.levels;
    assert_eq!(levels.iter().flat_map(|level| &level.slots).sum::<u64>(), listing.matched);
    // 256 slots of a tick are counted in 64 groups of four; above them, slots of half a turn.
    assert_eq!((levels[0].span, levels[0].slots.len()), (4 * tick, 64));
    assert_eq!((levels[1].span, levels[1].slots.len()), (128 * tick, 64));
    assert_eq!(levels[2].span, 32 * levels[1].span);
    assert_eq!((levels[0].hand, levels[1].hand), (1_000 / 4 % 64, 1_000 / 128));
    let at = |level: usize, tick: usize| levels[level].slots[tick];
    assert_eq!(at(0, 1_001 / 4 % 64), 1);
    assert_eq!(at(0, 1_009 / 4 % 64), 2);
    assert_eq!(at(0, 1_200 / 4 % 64), 3);
    assert_eq!(at(1, 2_000 / 128), 4);
    // The filter holds for them, too.
    let soon = time.list(TimerQuery::new().levels().due_within(9 * tick)).wait();
    assert_eq!(soon.levels.iter().flat_map(|level| &level.slots).sum::<u64>(), 3);
}

#[test]
fn a_timer_that_is_pending_throughout_is_listed_once_whatever_others_do_meanwhile() {
    const STAY: u64 = if cfg!(miri) { 40 } else { 4_000 };
    const LISTINGS: u32 = if cfg!(miri) { 3 } else { 50 };
    let scheduler = scheduler();
    let end = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // Those that stay lie between others that come and go.
                let mut go = Vec::new();
                for _ in 0..STAY {
                    named(&scheduler, HOUR, "stays");
                    go.push(scheduler.schedule_once(HOUR, Task::new(|| ()).named("goes")).unwrap());
                }
                sender.send(()).unwrap();
                let (mut turn, words) = (0, [0_u8; 20]);
                while !end.load(Ordering::Relaxed) {
                    let place = turn % go.len();
                    // Cancelled here, and its memory used again, sometimes by another type.
                    go[place].cancel();
                    let task = move || assert_eq!(words[0], 0);
                    go[place] = match turn % 3 {
                        0 => scheduler.schedule_once(HOUR, Task::new(task).named("goes")),
                        1 => scheduler
                            .schedule_once(HOUR, Task::new(|| ()).named("goes"))
                            .map_err(|_| panic!()),
                        _ => scheduler
                            .schedule_once(Duration::ZERO, Task::new(|| ()).inline().named("fires"))
                            .map_err(|_| panic!()),
                    }
                    .unwrap();
                    if turn % 5 == 0 {
                        go[place].reset(HOUR * 2);
                    }
                    turn += 1;
                }
            });
        }
        for _ in 0..2 {
            receiver.recv().unwrap();
        }
        for _ in 0..LISTINGS {
            let listing = scheduler.list(TimerQuery::new()).wait();
            // (A thread that the system takes the processor from in the middle of a call may hide
            // some.)
            let stay = count(&listing, "stays");
            assert!(
                stay <= 2 * STAY && stay + listing.unseen >= 2 * STAY,
                "{stay}, and {} unseen",
                listing.unseen
            );
        }
        end.store(true, Ordering::Relaxed);
    });
}
