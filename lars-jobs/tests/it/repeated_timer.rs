//! Repeated timers: one chain of triggers, whatever is called, from wherever. (JRaft's lists are J1
//! to J5.)
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    ByHand, Captive, Notes, PATIENCE, Xorshift, assert_same, eventually, ms, ns, scaled, secs,
    virtual_time,
};
use lars_jobs::repeated_timer::{RepeatedTimer, StopWaitError};
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{Backpressure, LightArrayRevolverScheduler, Refusal, Task, VirtualTime};

/// How often something happened.
#[derive(Debug, Clone, Default)]
struct Count(Arc<AtomicU32>);

impl Count {
    fn up(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
    fn take(&self) -> u32 {
        self.0.swap(0, Ordering::SeqCst)
    }
}

/// A timer of 50 ms that counts its triggers.
fn counting(time: &VirtualTime) -> (RepeatedTimer, Count) {
    let count = Count::default();
    let counter = count.clone();
    let timer = RepeatedTimer::new(time, ms(50), move |_| counter.up()).unwrap();
    (timer, count)
}

/// A timer of 50 ms that notes the milliseconds at which it triggers.
fn noting(time: &VirtualTime) -> (RepeatedTimer, Notes<u128>) {
    let notes = Notes::new();
    let (clock, start, note) = (time.handle(), time.now() - time.elapsed(), notes.clone());
    let timer =
        RepeatedTimer::new(time, ms(50), move |_| note.add((clock.now() - start).as_millis()));
    (timer.unwrap(), notes)
}

/// Time whose triggers wait for the test to run them.
fn time_by_hand() -> (VirtualTime, ByHand) {
    let by_hand = ByHand::default();
    let builder = LightArrayRevolverScheduler::builder().executor(by_hand.clone());
    (builder.build_virtual().unwrap(), by_hand)
}

#[test]
fn a_new_timer_is_stopped_until_it_is_started() {
    let time = virtual_time();
    let (timer, count) = counting(&time);
    assert!(!timer.is_started());
    time.advance(ms(1_000));
    assert_eq!(count.get(), 0);
    assert_eq!((time.pending(), timer.due()), (0, None));
}

/// J1
#[test]
fn a_started_timer_triggers_after_each_period() {
    let time = virtual_time();
    let (timer, notes) = noting(&time);
    timer.start().unwrap();
    time.advance(ms(1_000));
    assert_eq!(notes.take(), (1..=20).map(|n| n * 50).collect::<Vec<_>>());
}

#[test]
fn starting_twice_starts_one_chain_and_does_not_push_it_back() {
    let time = virtual_time();
    let (timer, notes) = noting(&time);
    timer.start().unwrap();
    time.advance(ms(20));
    timer.start().unwrap();
    time.advance(ms(80));
    assert_eq!(notes.take(), [50, 100]);
    assert_eq!(time.pending(), 1);
}

#[test]
fn a_stopped_timer_does_not_trigger_and_leaves_nothing_pending() {
    let time = virtual_time();
    let (timer, notes) = noting(&time);
    timer.start().unwrap();
    time.advance(ms(120));
    assert!(timer.stop());
    assert!(!timer.stop());
    assert_eq!(time.pending(), 0);
    time.advance(ms(1_000));
    assert_eq!(notes.take(), [50, 100]);
    timer.start().unwrap();
    time.advance(ms(100));
    assert_eq!(notes.take(), [1170, 1220]);
}

#[test]
fn restart_arms_anew_whether_the_timer_is_started_or_not() {
    let time = virtual_time();
    let (timer, notes) = noting(&time);
    timer.restart().unwrap();
    time.advance(ms(30));
    timer.restart().unwrap();
    time.advance(ms(70));
    assert_eq!(notes.take(), [80]);
    assert_eq!(time.pending(), 1);
}

#[test]
fn the_next_trigger_is_armed_by_the_end_of_the_last_one() {
    let (time, by_hand) = time_by_hand();
    let (time, notes) = (Arc::new(time), Notes::new());
    let (clock, note, start) = (Arc::downgrade(&time), notes.clone(), time.now());
    let timer = RepeatedTimer::new(&time, ms(50), move |_| {
        let clock = clock.upgrade().unwrap();
        note.add((clock.now() - start).as_millis());
        clock.advance(ms(100)); // the run takes that long
    })
    .unwrap();
    timer.start().unwrap();
    for _ in 0..3 {
        time.advance(ms(50));
        assert!(by_hand.run_next());
    }
    assert_eq!(notes.take(), [50, 200, 350]);
}

#[test]
fn a_reset_pushes_the_trigger_back_and_costs_no_timer() {
    let time = virtual_time();
    let (timer, notes) = noting(&time);
    timer.start().unwrap();
    let scheduled = time.metrics().scheduled;
    for _ in 0..100 {
        time.advance(ms(40));
        timer.reset().unwrap();
    }
    assert!(notes.take().is_empty());
    // Looks are runs of the series; they come when a trigger that was pushed back would have been
    // due.
    assert!(time.metrics().scheduled - scheduled <= 100);
    assert_eq!(time.metrics().cancelled, 0);
    assert_eq!(timer.due(), Some(time.now() + ms(50)));
    time.advance(ms(49));
    assert!(notes.take().is_empty());
    time.advance(ms(1));
    assert_eq!(notes.take(), [4_050]);
}

#[test]
fn a_new_period_holds_from_the_reset_on_nearer_or_further_out() {
    let time = virtual_time();
    let (timer, notes) = noting(&time);
    timer.start().unwrap();
    time.advance(ms(10));
    timer.reset_to(ms(20)).unwrap(); // nearer
    assert_eq!(timer.period(), ms(20));
    time.advance(ms(40));
    assert_eq!(notes.take(), [30, 50]);
    timer.reset_to(ms(100)).unwrap(); // further out
    time.advance(ms(200));
    assert_eq!(notes.take(), [150, 250]);
    assert_eq!(time.pending(), 1);
}

#[test]
fn a_reset_of_a_stopped_timer_keeps_the_period_and_starts_nothing() {
    let time = virtual_time();
    let (timer, notes) = noting(&time);
    timer.reset().unwrap();
    timer.reset_to(ms(10)).unwrap();
    time.advance(ms(100));
    assert_eq!((notes.take(), time.pending()), (vec![], 0));
    timer.start().unwrap();
    time.advance(ms(20));
    assert_eq!(notes.take(), [110, 120]);
}

/// J3
#[test]
fn run_once_now_triggers_at_once_on_this_thread_and_the_next_comes_a_period_later() {
    let time = virtual_time();
    let notes = Notes::new();
    let note = notes.clone();
    let timer = RepeatedTimer::new(&time, ms(50), move |_| note.add(thread::current().id()));
    let timer = timer.unwrap();
    timer.start().unwrap();
    time.advance(ms(30));
    assert!(timer.run_once_now().unwrap());
    assert_eq!(notes.take(), [thread::current().id()]);
    time.advance(ms(49)); // over the time of the trigger that this one replaced
    assert_eq!(notes.len(), 0);
    time.advance(ms(1_000 - 49));
    assert_eq!(notes.len(), 20);
    assert_eq!(time.pending(), 1);
}

#[test]
fn run_once_now_replaces_a_trigger_that_waits_in_its_executor() {
    let (time, by_hand) = time_by_hand();
    let (timer, count) = counting(&time);
    timer.start().unwrap();
    time.advance(ms(50));
    assert_eq!(by_hand.waiting(), 1);
    assert!(timer.run_once_now().unwrap());
    assert!(by_hand.run_next());
    assert_eq!(count.get(), 1);
    time.advance(ms(50));
    while by_hand.run_next() {}
    assert_eq!(count.get(), 2);
    time.advance(ms(50));
    while by_hand.run_next() {}
    assert_eq!(count.get(), 3);
}

#[test]
fn run_once_now_does_nothing_on_a_stopped_timer_and_inside_a_trigger() {
    let time = virtual_time();
    let answers = Notes::new();
    let note = answers.clone();
    let timer = RepeatedTimer::new(&time, ms(50), move |timer| note.add(timer.run_once_now()));
    let timer = timer.unwrap();
    assert_eq!(timer.run_once_now(), Ok(false));
    timer.start().unwrap();
    time.advance(ms(50));
    assert_eq!(timer.run_once_now(), Ok(true));
    assert_eq!(answers.take(), [Ok(false), Ok(false)]);
}

#[test]
fn a_look_that_comes_during_run_once_now_starts_no_second_trigger() {
    let (time, by_hand) = time_by_hand();
    let time = Arc::new(time);
    let count = Count::default();
    let (counter, clock, hand) = (count.clone(), Arc::downgrade(&time), by_hand.clone());
    let timer = RepeatedTimer::new(&time, ms(50), move |_| {
        counter.up();
        if counter.get() == 1 {
            clock.upgrade().unwrap().advance(ms(50)); // the armed trigger is due meanwhile
            assert!(hand.run_next());
        }
    })
    .unwrap();
    timer.start().unwrap();
    assert!(timer.run_once_now().unwrap());
    assert_eq!(count.get(), 1);
    for round in 2..10 {
        time.advance(ms(50));
        while by_hand.run_next() {}
        assert_eq!(count.get(), round);
    }
    assert_eq!(time.metrics().panicked, 0);
}

#[test]
fn run_once_now_of_a_thread_that_has_no_share_left_does_not_end_the_chain() {
    let builder = LightArrayRevolverScheduler::builder().backpressure(Backpressure::Refuse);
    let scheduler = builder.build().unwrap();
    let rounds = AtomicU32::new(0);
    // Each timeout is shorter than the last one, so that it needs another alarm.
    let timer = RepeatedTimer::builder(&scheduler, secs(1 << 30))
        .adjust_timeout(move |period| period - secs(rounds.fetch_add(1, Ordering::Relaxed).into()))
        .build(|_| ())
        .unwrap();
    timer.start().unwrap();
    let (release, hold) = mpsc::channel::<()>();
    let stuck = Task::new(move || hold.recv().unwrap_or(())).inline();
    let _ = scheduler.schedule_once(Duration::ZERO, stuck).unwrap();
    // Now and then the thread earns a little, so it has to ask at the right moment.
    let refused = loop {
        while scheduler.schedule_once(secs(1 << 30), || ()).is_ok() {}
        if let Err(refused) = timer.run_once_now() {
            break refused;
        }
    };
    drop(release);
    assert_eq!(refused, Refusal::Overloaded);
    assert!(timer.is_started() && timer.due().is_some());
    drop(scheduler.stop());
}

/// J4
#[test]
fn destroying_a_timer_ends_it_and_calls_the_hook_once() {
    let time = virtual_time();
    let (count, destroyed) = (Count::default(), Count::default());
    let (counter, hook) = (count.clone(), destroyed.clone());
    let timer = RepeatedTimer::builder(&time, ms(50))
        .on_destroy(move || hook.up())
        .build(move |_| counter.up())
        .unwrap();
    timer.start().unwrap();
    time.advance(ms(100));
    assert_eq!((count.get(), destroyed.get()), (2, 0));
    assert!(timer.destroy());
    assert_eq!(destroyed.get(), 1);
    assert!(!timer.destroy());
    drop(timer);
    time.advance(ms(1_000));
    assert_eq!((count.get(), destroyed.get(), time.pending()), (2, 1, 0));
}

#[test]
fn a_destroyed_timer_refuses_every_call_that_would_arm_it() {
    let time = virtual_time();
    let (timer, count) = counting(&time);
    timer.destroy();
    assert!(timer.is_destroyed());
    for refused in [
        timer.start(),
        timer.restart(),
        timer.reset(),
        timer.reset_to(ms(10)),
        timer.run_once_now().map(drop),
    ] {
        assert_eq!(refused, Err(Refusal::Destroyed));
    }
    assert!(!timer.stop());
    assert_eq!(timer.stop_within(PATIENCE), Ok(()));
    assert_eq!(timer.period(), ms(50));
    time.advance(ms(1_000));
    assert_eq!(count.get(), 0);
    assert_eq!(
        Refusal::Destroyed.to_string(),
        "the repeated timer has been destroyed; it cannot be started any more"
    );
}

/// In JRaft this leaves the thread of the timer behind.
#[test]
fn a_timer_destroyed_by_its_own_trigger_calls_the_hook_after_that_run() {
    let time = virtual_time();
    let notes = Notes::new();
    let (note, hook, captive) = (notes.clone(), notes.clone(), Captive::new(&notes, "dropped"));
    let timer = RepeatedTimer::builder(&time, ms(50))
        .on_destroy(move || hook.add("destroyed"))
        .build(move |timer| {
            let _ = &captive;
            assert!(timer.destroy());
            assert!(!timer.destroy());
            note.add("end of the run");
        })
        .unwrap();
    timer.start().unwrap();
    time.advance(ms(1_000));
    assert_eq!(notes.take(), ["end of the run", "dropped", "destroyed"]);
    assert_eq!(time.pending(), 0);
    assert!(!timer.is_triggering());
}

#[test]
fn dropping_the_last_clone_destroys_the_timer() {
    let time = virtual_time();
    let notes = Notes::new();
    let (note, hook, captive) = (notes.clone(), notes.clone(), Captive::new(&notes, "dropped"));
    let timer = RepeatedTimer::builder(&time, ms(50))
        .on_destroy(move || hook.add("destroyed"))
        .build(move |_| {
            let _ = &captive;
            note.add("trigger");
        })
        .unwrap();
    timer.start().unwrap();
    let clone = timer.clone();
    drop(timer);
    time.advance(ms(50));
    assert_eq!(notes.take(), ["trigger"]);
    drop(clone);
    assert_eq!(notes.take(), ["dropped", "destroyed"]);
    assert_eq!(time.pending(), 0);
}

#[test]
fn a_timer_whose_last_clone_its_own_trigger_drops_ends_after_that_run() {
    let time = virtual_time();
    let notes = Notes::new();
    let own: Arc<Mutex<Option<RepeatedTimer>>> = Arc::default();
    let (note, hook, last) = (notes.clone(), notes.clone(), Arc::clone(&own));
    let timer = RepeatedTimer::builder(&time, ms(50))
        .on_destroy(move || hook.add("destroyed"))
        .build(move |_| {
            drop(last.lock().unwrap().take());
            note.add("end of the run");
        })
        .unwrap();
    timer.start().unwrap();
    *own.lock().unwrap() = Some(timer);
    time.advance(ms(1_000));
    assert_eq!(notes.take(), ["end of the run", "destroyed"]);
    assert_eq!(time.pending(), 0);
}

/// J5
#[test]
fn the_timeout_is_adjusted_before_every_arming_and_never_else() {
    let time = virtual_time();
    let (count, adjusted) = (Count::default(), Notes::new());
    let (counter, note) = (count.clone(), adjusted.clone());
    let timer = RepeatedTimer::builder(&time, ms(50))
        .adjust_timeout(move |period| {
            note.add(period.as_millis());
            ms(100)
        })
        .build(move |_| counter.up())
        .unwrap();
    timer.reset_to(ms(60)).unwrap(); // stopped: nothing is armed
    timer.reset_to(ms(50)).unwrap();
    assert_eq!(adjusted.len(), 0);
    timer.start().unwrap();
    timer.start().unwrap();
    assert_eq!(adjusted.take(), [50]);
    time.advance(ms(1_000));
    assert_eq!(count.take(), 10);
    assert_eq!(adjusted.take(), [50; 10]);
    timer.reset().unwrap();
    timer.restart().unwrap();
    timer.reset_to(ms(70)).unwrap();
    assert_eq!(adjusted.take(), [50, 50, 70]);
    timer.run_once_now().unwrap();
    assert_eq!(adjusted.take(), [70]);
    timer.stop();
    assert_eq!(adjusted.len(), 0);
    assert_eq!(timer.period(), ms(70));
}

#[test]
fn random_timeouts_are_each_exact() {
    let time = virtual_time();
    let (timeouts, triggers) = (Notes::new(), Notes::new());
    let (note, trigger, clock, start) =
        (timeouts.clone(), triggers.clone(), time.handle(), time.now());
    let random = Mutex::new(Xorshift(42));
    let timer = RepeatedTimer::builder(&time, ms(150))
        .adjust_timeout(move |period| {
            let timeout = period + ms(random.lock().unwrap().below(150));
            note.add(timeout);
            timeout
        })
        .build(move |_| trigger.add(clock.now() - start))
        .unwrap();
    timer.start().unwrap();
    time.advance(ms(60_000));
    let mut due = Duration::ZERO;
    let expected: Vec<_> = timeouts
        .take()
        .into_iter()
        .map(|timeout| {
            due += timeout;
            due
        })
        .filter(|&due| due <= ms(60_000))
        .collect();
    assert!(expected.len() > 200);
    assert_same(triggers.take(), expected);
}

#[test]
fn the_hooks_may_call_the_timer() {
    let time = virtual_time();
    let own: Arc<Mutex<Option<RepeatedTimer>>> = Arc::default();
    let notes = Notes::new();
    let (adjusting, adjusted) = (Arc::clone(&own), notes.clone());
    let (ending, ended) = (Arc::clone(&own), notes.clone());
    let timer = RepeatedTimer::builder(&time, ms(50))
        .adjust_timeout(move |period| {
            if let Some(own) = &*adjusting.lock().unwrap() {
                adjusted.add((own.is_started(), own.stop(), own.due().is_some()));
            }
            period
        })
        .on_destroy(move || {
            let own = ending.lock().unwrap();
            let own = own.as_ref().unwrap();
            assert_eq!(own.start(), Err(Refusal::Destroyed));
            ended.add((own.is_started(), own.destroy(), own.is_destroyed()));
        })
        .build(|_| ())
        .unwrap();
    timer.start().unwrap();
    *own.lock().unwrap() = Some(timer.clone());
    time.advance(ms(50));
    // Stopped by the hook at the end of the run: nothing was armed.
    assert_eq!(notes.take(), [(true, true, false)]);
    assert_eq!((timer.is_started(), time.pending()), (false, 0));
    timer.destroy();
    assert_eq!(notes.take(), [(false, false, true)]);
    own.lock().unwrap().take();
    assert_eq!(time.metrics().panicked, 0);
}

#[test]
fn no_trigger_is_early_in_real_time() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let period = Duration::from_micros(2_300);
    let (sender, receiver) = mpsc::channel();
    let timer = RepeatedTimer::new(&scheduler, period, move |_| {
        let _ = sender.send(Instant::now());
    })
    .unwrap();
    let mut armed = Instant::now();
    timer.start().unwrap();
    for _ in 0..scaled(50, 3) {
        let trigger = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(trigger - armed >= period);
        armed = trigger;
    }
    timer.stop_within(PATIENCE).unwrap();
    while receiver.try_recv().is_ok() {}
    for _ in 0..scaled(50, 3) {
        let begin = Instant::now();
        timer.start().unwrap();
        let pushed_back = Instant::now();
        timer.reset().unwrap();
        // Where the machine stood still meanwhile the trigger may have come before the reset.
        let in_time = begin.elapsed() < period;
        let trigger = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(!in_time || trigger - pushed_back >= period);
        timer.stop_within(PATIENCE).unwrap();
        while receiver.try_recv().is_ok() {}
    }
}

#[test]
fn a_timer_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<RepeatedTimer>();
}

type Call = fn(&RepeatedTimer);

/// What may be called on a timer while its trigger runs, and forked a second chain in JRaft: 70 to
/// 75 triggers in two seconds instead of 40, and one after `stop`.
const DURING_A_RUN: [(&str, Call); 6] = [
    ("reset", |timer| timer.reset().unwrap()),
    ("reset_to", |timer| timer.reset_to(ms(50)).unwrap()),
    ("restart", |timer| timer.restart().unwrap()),
    ("stop and start", |timer| {
        timer.stop();
        timer.start().unwrap();
    }),
    ("stop and restart and reset", |timer| {
        timer.stop();
        timer.restart().unwrap();
        timer.reset().unwrap();
    }),
    ("start", |timer| timer.start().unwrap()),
];

#[test]
fn calls_from_inside_the_trigger_never_fork_a_second_chain() {
    for (name, call) in DURING_A_RUN {
        // With room for one timer: a chain goes on in its own.
        let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap();
        let (count, armed) = (Count::default(), Count::default());
        let (counter, arming) = (count.clone(), armed.clone());
        let timer = RepeatedTimer::builder(&time, ms(50))
            .adjust_timeout(move |period| {
                arming.up();
                period
            })
            .build(move |timer| {
                counter.up();
                call(timer);
            })
            .unwrap();
        timer.start().unwrap();
        time.advance(ms(2_000));
        assert_eq!((count.take(), armed.take()), (40, 41), "{name}");
        assert_eq!(time.pending(), 1, "{name}");
        timer.stop();
        time.advance(ms(2_000));
        assert_eq!(count.take(), 0, "{name}");
    }
}

#[test]
fn calls_from_other_threads_during_a_run_never_fork_a_second_chain() {
    for (name, call) in DURING_A_RUN {
        let time = virtual_time();
        let count = Count::default();
        let counter = count.clone();
        let timer = RepeatedTimer::new(&time, ms(50), move |timer| {
            counter.up();
            thread::scope(|scope| {
                scope.spawn(|| call(timer));
            });
        })
        .unwrap();
        timer.start().unwrap();
        time.advance(ms(2_000));
        assert_eq!(count.take(), 40, "{name}");
        timer.stop();
        time.advance(ms(2_000));
        assert_eq!(count.take(), 0, "{name}");
    }
}

#[test]
fn calls_during_run_once_now_never_fork_a_second_chain() {
    for (name, call) in DURING_A_RUN {
        let time = virtual_time();
        let (count, first) = (Count::default(), AtomicBool::new(true));
        let counter = count.clone();
        let timer = RepeatedTimer::new(&time, ms(50), move |timer| {
            counter.up();
            if first.swap(false, Ordering::SeqCst) {
                call(timer);
            }
        })
        .unwrap();
        timer.start().unwrap();
        time.advance(ms(10));
        assert!(timer.run_once_now().unwrap());
        assert_eq!(count.take(), 1);
        time.advance(ms(2_000));
        assert_eq!(count.take(), 40, "{name}");
        timer.stop();
        time.advance(ms(2_000));
        assert_eq!(count.take(), 0, "{name}");
    }
}

#[test]
fn a_timer_stopped_by_its_own_trigger_stays_stopped() {
    let time = virtual_time();
    let count = Count::default();
    let counter = count.clone();
    let timer = RepeatedTimer::new(&time, ms(50), move |timer| {
        counter.up();
        assert!(timer.stop());
    })
    .unwrap();
    timer.start().unwrap();
    time.advance(ms(1_000));
    assert_eq!((count.get(), timer.is_started(), time.pending()), (1, false, 0));
    timer.start().unwrap();
    time.advance(ms(1_000));
    assert_eq!(count.get(), 2);
}

#[test]
fn a_period_set_by_the_trigger_holds_for_the_next_one() {
    let time = virtual_time();
    let (timer, notes) = {
        let notes = Notes::new();
        let (note, clock, start) = (notes.clone(), time.handle(), time.now());
        let timer = RepeatedTimer::new(&time, ms(10), move |timer| {
            note.add((clock.now() - start).as_millis());
            timer.reset_to(timer.period() * 2).unwrap();
        });
        (timer.unwrap(), notes)
    };
    timer.start().unwrap();
    time.advance(ms(310));
    assert_eq!(notes.take(), [10, 30, 70, 150, 310]);
}

#[test]
fn a_trigger_that_waits_in_its_executor_does_not_start_after_a_stop() {
    let (time, by_hand) = time_by_hand();
    let (timer, count) = counting(&time);
    timer.start().unwrap();
    time.advance(ms(50));
    assert_eq!(by_hand.waiting(), 1);
    timer.stop();
    while by_hand.run_next() {}
    assert_eq!(count.get(), 0);

    // Started again, there is one chain and not the old one beside it.
    timer.start().unwrap();
    time.advance(ms(50));
    timer.restart().unwrap();
    while by_hand.run_next() {}
    assert_eq!(count.get(), 0);
    time.advance(ms(50));
    while by_hand.run_next() {}
    assert_eq!(count.get(), 1);
}

#[test]
fn a_trigger_that_panics_is_reported_and_the_chain_goes_on() {
    let reports = Notes::new();
    let note = reports.clone();
    let time = LightArrayRevolverScheduler::builder()
        .on_panic(move |report| note.add((report.place, report.message.to_owned())))
        .build_virtual()
        .unwrap();
    let count = Count::default();
    let counter = count.clone();
    let timer = RepeatedTimer::new(&time, ms(50), move |_| {
        counter.up();
        assert!(counter.get() != 2, "expected by this test");
    })
    .unwrap();
    timer.start().unwrap();
    time.advance(ms(500));
    assert_eq!(count.get(), 10);
    assert_eq!(reports.take(), [(PanicIn::Task, "expected by this test".to_owned())]);
    assert_eq!(time.metrics().panicked, 1);
}

#[test]
fn hooks_that_panic_are_reported_and_harm_nothing() {
    let time = virtual_time();
    let count = Count::default();
    let counter = count.clone();
    let timer = RepeatedTimer::builder(&time, ms(50))
        .adjust_timeout(|_| panic!("expected by this test"))
        .on_destroy(|| panic!("expected by this test"))
        .build(move |_| counter.up())
        .unwrap();
    timer.start().unwrap();
    time.advance(ms(500));
    assert_eq!(count.get(), 10); // of the period as it is
    assert_eq!(time.metrics().panicked, 11);
    timer.destroy();
    assert_eq!(time.metrics().panicked, 12);
    assert!(!timer.is_triggering());
}

#[test]
fn a_period_of_zero_is_refused_with_a_clear_error() {
    let time = virtual_time();
    let refused = RepeatedTimer::new(&time, Duration::ZERO, |_| ()).unwrap_err();
    assert_eq!(refused.to_string(), "the period is 0ns, but it must be at least 1ns");
    let (timer, count) = counting(&time);
    timer.start().unwrap();
    let refused = timer.reset_to(Duration::ZERO).unwrap_err();
    assert_eq!(refused, Refusal::Period { given: Duration::ZERO, min: ns(1) });
    time.advance(ms(500));
    assert_eq!((count.get(), timer.period()), (10, ms(50)));
}

#[test]
fn a_timeout_that_no_clock_reaches_never_triggers_and_can_be_moved_back() {
    let time = virtual_time();
    let (timer, count) = counting(&time);
    timer.reset_to(Duration::MAX).unwrap();
    timer.start().unwrap();
    assert!(timer.is_started());
    assert_eq!(timer.due(), None);
    time.advance(Duration::from_secs(100 * 365 * 24 * 3600));
    assert_eq!(count.get(), 0);
    timer.reset_to(ms(50)).unwrap();
    time.advance(ms(100));
    assert_eq!(count.get(), 2);
    timer.reset_to(Duration::MAX).unwrap(); // pushed back beyond the end of time
    time.advance(Duration::from_secs(365 * 24 * 3600));
    assert_eq!(count.get(), 2);
    timer.stop();
    assert_eq!(time.pending(), 0);
}

#[test]
fn at_max_pending_a_chain_goes_on_and_can_be_pushed_back() {
    let time = LightArrayRevolverScheduler::builder().max_pending(2).build_virtual().unwrap();
    let (timer, count) = counting(&time);
    timer.start().unwrap();
    let filler = time.schedule_once(Duration::MAX, || ()).unwrap();
    time.advance(ms(500));
    assert_eq!(count.take(), 10);
    for _ in 0..10 {
        time.advance(ms(40));
        timer.reset().unwrap();
    }
    assert_eq!(count.take(), 0);
    assert!(timer.run_once_now().unwrap());
    time.advance(ms(500));
    assert_eq!(count.take(), 11);

    // What needs a second timer for a moment is refused, and changes nothing.
    assert_eq!(timer.reset_to(ms(10)), Err(Refusal::Full { limit: 2 }));
    assert_eq!(timer.period(), ms(50));
    time.advance(ms(500));
    assert_eq!(count.take(), 10);
    assert!(filler.cancel());
    timer.reset_to(ms(10)).unwrap();
    time.advance(ms(100));
    assert_eq!(count.take(), 10);

    let others = [counting(&time).0, counting(&time).0];
    others[0].start().unwrap();
    assert_eq!(others[1].start(), Err(Refusal::Full { limit: 2 }));
    assert!(!others[1].is_started());
}

#[test]
fn a_full_scheduler_does_not_end_a_chain_whose_trigger_runs_by_run_once_now() {
    let time =
        Arc::new(LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap());
    let (moves, runs) = (Arc::clone(&time), Count::default());
    let count = runs.clone();
    let timer = RepeatedTimer::new(&time, secs(1), move |_| {
        count.up();
        if count.get() == 1 {
            moves.advance(ms(2_500)); // the run is longer than the period
            let refused = moves.schedule_once(secs(60), || ()).unwrap_err();
            assert_eq!(*refused.refusal(), Refusal::Full { limit: 1 }, "the timer kept its place");
        }
    })
    .unwrap();
    timer.start().unwrap();
    assert_eq!((timer.run_once_now(), timer.is_started()), (Ok(true), true));
    time.advance(ms(999));
    assert_eq!(runs.get(), 1);
    time.advance(ms(1));
    assert_eq!(runs.get(), 2, "a period after the end of that run");
    assert_eq!(time.metrics().panicked, 0);
}

#[test]
fn a_shorter_period_that_a_full_scheduler_refuses_after_run_once_now_does_not_end_the_chain() {
    let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap();
    let runs = Count::default();
    let count = runs.clone();
    let timer = RepeatedTimer::new(&time, secs(10), move |timer| {
        count.up();
        timer.reset_to(secs(1)).unwrap();
    })
    .unwrap();
    timer.start().unwrap();
    assert_eq!(timer.run_once_now(), Err(Refusal::Full { limit: 1 }));
    assert!(timer.is_started());
    time.advance(secs(10) - ns(1));
    assert_eq!(runs.get(), 1);
    time.advance(ns(1));
    assert_eq!(runs.get(), 2, "when the alarm looks that was there");
    time.advance(secs(1));
    assert_eq!(runs.get(), 3, "and by the new period from then on");
}

#[test]
fn when_the_scheduler_stops_its_timers_are_stopped_and_none_triggers_early() {
    let time = virtual_time();
    let (timer, count) = counting(&time);
    timer.start().unwrap();
    let report = time.close().unwrap();
    assert_eq!((report.ran, report.repeats_ended), (0, 1));
    assert_eq!((count.get(), timer.is_started()), (0, false));
    assert_eq!(timer.start(), Err(Refusal::Stopped));
    assert_eq!(timer.restart(), Err(Refusal::Stopped));
    assert!(!timer.is_started());
    assert_eq!(timer.run_once_now(), Ok(false));
    assert!(timer.destroy());
}

#[test]
fn a_look_that_was_handed_back_by_stop_triggers_nothing() {
    let time = virtual_time();
    let (timer, count) = counting(&time);
    timer.start().unwrap();
    let pending = time.stop().wait();
    assert_eq!(pending.len(), 1);
    for task in pending {
        task.run();
    }
    assert_eq!((count.get(), timer.is_started()), (0, false));
}

#[test]
fn a_timer_whose_trigger_outlives_the_scheduler_is_stopped_after_it() {
    let time = Arc::new(virtual_time());
    let (count, stopper) = (Count::default(), Arc::downgrade(&time));
    let counter = count.clone();
    let timer = RepeatedTimer::new(&time, ms(50), move |_| {
        counter.up();
        drop(stopper.upgrade().unwrap().stop());
    })
    .unwrap();
    timer.start().unwrap();
    time.advance(ms(1_000));
    assert_eq!((count.get(), timer.is_started(), timer.is_triggering()), (1, false, false));
}

#[test]
fn a_timer_whose_executor_loses_a_trigger_is_seen_to_be_stopped_and_can_be_started() {
    let (time, by_hand) = time_by_hand();
    let (timer, count) = counting(&time);
    timer.start().unwrap();
    time.advance(ms(50));
    assert_eq!(by_hand.abandon(), 1);
    assert!(!timer.is_started());
    timer.start().unwrap();
    time.advance(ms(50));
    while by_hand.run_next() {}
    assert_eq!(count.get(), 1);
}

#[test]
fn stop_within_returns_when_the_trigger_that_was_running_has_ended() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (entered, inside) = mpsc::channel();
    let (release, hold) = mpsc::channel::<()>();
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    let timer = RepeatedTimer::new(&scheduler, ms(1), move |_| {
        let _ = entered.send(());
        let _ = hold.recv();
        end.store(true, Ordering::SeqCst);
    })
    .unwrap();
    timer.start().unwrap();
    inside.recv_timeout(PATIENCE).unwrap();
    let limit = ms(5);
    assert_eq!(timer.stop_within(limit), Err(StopWaitError::Timeout { limit }));
    assert!(timer.is_triggering() && !timer.is_started());
    let waiter = {
        let (timer, ended) = (timer.clone(), Arc::clone(&ended));
        thread::spawn(move || {
            timer.stop_within(Duration::MAX).unwrap();
            assert!(ended.load(Ordering::SeqCst));
        })
    };
    drop(release);
    waiter.join().unwrap();
    assert!(inside.try_recv().is_err());
}

#[test]
fn stop_within_in_the_trigger_is_refused_instead_of_waiting_for_itself() {
    let time = virtual_time();
    let answers = Notes::new();
    let note = answers.clone();
    let timer =
        RepeatedTimer::new(&time, ms(50), move |timer| note.add(timer.stop_within(PATIENCE)));
    let timer = timer.unwrap();
    timer.start().unwrap();
    time.advance(ms(1_000));
    assert_eq!(answers.take(), [Err(StopWaitError::InTrigger)]);
    assert!(!timer.is_started());
}

/// Real threads: whatever the race, nothing runs after `stop_within`, and no two triggers at
/// once.
#[test]
fn after_stop_within_no_trigger_runs_in_any_race() {
    let rounds = scaled(300, 5);
    let scheduler = LightArrayRevolverScheduler::builder()
        .tick_duration(Duration::from_micros(50))
        .build()
        .unwrap();
    let (running, count) = (Arc::new(AtomicBool::new(false)), Count::default());
    let (inside, counter) = (Arc::clone(&running), count.clone());
    let timer = RepeatedTimer::new(&scheduler, Duration::from_micros(50), move |_| {
        assert!(!inside.swap(true, Ordering::SeqCst), "two triggers at once");
        counter.up();
        thread::yield_now();
        inside.store(false, Ordering::SeqCst);
    })
    .unwrap();
    let mut random = Xorshift(7);
    for round in 0..rounds {
        timer.start().unwrap();
        let pause = Duration::from_micros(random.below(200));
        let begin = Instant::now();
        while begin.elapsed() < pause {
            match round % 3 {
                0 => timer.reset().unwrap(),
                1 => timer.restart().unwrap(),
                _ => {
                    timer.stop();
                    timer.start().unwrap();
                }
            }
        }
        timer.stop_within(PATIENCE).unwrap();
        assert!(!running.load(Ordering::SeqCst), "a trigger runs after stop_within");
        let seen = count.get();
        for _ in 0..20 {
            thread::yield_now();
        }
        assert_eq!(count.get(), seen, "a trigger started after stop_within");
    }
    timer.start().unwrap();
    let seen = count.get();
    eventually("the timer still works", || count.get() > seen);
    timer.stop_within(PATIENCE).unwrap();
    assert_eq!(scheduler.metrics().panicked, 0);
}

/// Four threads do whatever they like while a fifth moves the time; in the end there is one chain,
/// or none.
#[test]
fn after_a_storm_of_calls_there_is_exactly_one_chain() {
    let calls = scaled(3_000, 30);
    let time = virtual_time();
    let (timer, count) = counting(&time);
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let (timer, done) = (&timer, &done);
            scope.spawn(move || {
                let mut random = Xorshift(seed * 7_919);
                for _ in 0..calls {
                    match random.below(7) {
                        0 => drop(timer.start()),
                        1 => drop(timer.stop()),
                        2 => drop(timer.restart()),
                        3 => drop(timer.reset()),
                        4 => drop(timer.reset_to(ms(1 + random.below(100)))),
                        5 => drop(timer.run_once_now()),
                        _ => drop(timer.stop_within(PATIENCE)),
                    }
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        while done.load(Ordering::SeqCst) < 4 {
            time.advance(ms(10));
        }
    });
    timer.reset_to(ms(50)).unwrap();
    timer.restart().unwrap();
    count.take();
    time.advance(ms(1_000));
    assert_eq!(count.take(), 20);
    assert_eq!(time.pending(), 1);
    timer.stop();
    time.advance(ms(1_000));
    assert_eq!((count.take(), time.pending(), time.metrics().panicked), (0, 0, 0));
}

#[test]
fn of_many_threads_that_destroy_one_is_told_so_and_the_hook_is_called_once() {
    for _ in 0..scaled(100, 3) {
        let time = virtual_time();
        let hooks = Count::default();
        let hook = hooks.clone();
        let timer =
            RepeatedTimer::builder(&time, ms(50)).on_destroy(move || hook.up()).build(|_| ());
        let timer = timer.unwrap();
        timer.start().unwrap();
        let winners = Count::default();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    if timer.destroy() {
                        winners.up();
                    }
                });
            }
            scope.spawn(|| drop(timer.restart()));
            scope.spawn(|| time.advance(ms(100)));
        });
        assert_eq!((winners.get(), hooks.get(), time.pending()), (1, 1, 0));
    }
}
