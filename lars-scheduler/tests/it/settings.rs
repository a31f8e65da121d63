//! Settings: each that is out of its range is an error that names the value and the limit.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::{PATIENCE, eventually, ms, ns, secs, settle};
use lars_scheduler::{
    BuildError, Builder, ConfigError, LightArrayRevolverScheduler, Pool, Refusal, Task,
};

fn builder() -> Builder {
    LightArrayRevolverScheduler::builder()
}

/// Both ways to build refuse, with the same words.
fn assert_refused(builder: impl Fn() -> Builder, text: &str) {
    let error = builder().build().unwrap_err();
    assert!(matches!(error, BuildError::Config(_)), "{error}");
    assert_eq!(error.to_string(), text);
    assert_eq!(builder().build_virtual().unwrap_err().to_string(), text);
}

#[test]
fn a_tick_out_of_range_is_refused() {
    for (tick, given) in [
        (Duration::ZERO, "0ns"),
        (secs(3_600) + ns(1), "3600.000000001s"),
        (Duration::MAX, "18446744073709551615.999999999s"),
    ] {
        assert_refused(
            || builder().tick_duration(tick),
            &format!("tick_duration is {given}, but it must be between 1ns and 3600s"),
        );
    }
}

#[test]
fn the_shortest_and_the_longest_tick_are_accepted_and_keep_their_promises() {
    for tick in [ns(1), secs(3_600)] {
        let time = builder().tick_duration(tick).build_virtual().unwrap();
        assert_eq!(time.tick_duration(), tick);
        time.advance(tick);
        let _ = time.schedule_once(ns(1), || ()).unwrap();
        assert_eq!(time.advance(tick - ns(1)), 0);
        assert_eq!(time.advance(ns(1)), 1);
    }
    let scheduler = builder().tick_duration(ns(1)).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let _ = scheduler.schedule_once(ms(1), move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn a_wheel_that_is_no_power_of_two_or_out_of_range_is_refused() {
    for size in [0, 1, 3, 100, 513, (1 << 16) + 1, 1 << 17, usize::MAX] {
        assert_refused(
            || builder().ticks_per_wheel(size),
            &format!(
                "ticks_per_wheel is {size}, but it must be a power of two between 2 and 65536"
            ),
        );
    }
    for size in [2, 1 << 16] {
        let time = builder().ticks_per_wheel(size).build_virtual().unwrap();
        let _ = time.schedule_once(secs(1), || ()).unwrap();
        assert_eq!(time.advance(secs(1)), 1);
    }
}

#[test]
fn a_limit_of_no_pending_timers_is_refused() {
    assert_refused(
        || builder().max_pending(0),
        "max_pending is 0, but it must be at least 1 (leave it unset for no limit)",
    );
    let time = builder().max_pending(1).build_virtual().unwrap();
    let _ = time.schedule_once(ms(1), || ()).unwrap();
    let error = time.schedule_once(ms(1), || ()).unwrap_err();
    assert_eq!(error.to_string(), "max_pending is 1, and this call would exceed it");
    assert_eq!(*error.refusal(), Refusal::Full { limit: 1 });
    let time = builder().max_pending(usize::MAX).build_virtual().unwrap();
    let _ = time.schedule_once(ms(1), || ()).unwrap();
}

#[test]
fn a_pool_of_no_or_too_many_threads_is_refused() {
    for threads in [0, Pool::MAX_THREADS + 1, usize::MAX] {
        let text = format!("pool_threads is {threads}, but it must be between 1 and 1024");
        assert_refused(|| builder().pool(|pool| pool.threads(threads)), &text);
        assert_eq!(Pool::new("own", threads).unwrap_err().to_string(), text);
    }
    // Threads that are not needed are not started, so this costs nothing.
    assert!(builder().pool(|pool| pool.threads(Pool::MAX_THREADS)).build().is_ok());
}

#[test]
fn a_thread_name_that_no_system_takes_is_refused() {
    assert_refused(
        || builder().thread_name("a\0b"),
        "thread_name is \"a\\0b\", but a thread's name must not contain a NUL byte",
    );
    let error = Pool::new("a\0b", 1).unwrap_err();
    assert_eq!(error, ConfigError::ThreadName { given: "a\0b".to_owned() });
}

#[test]
fn an_empty_thread_name_and_a_very_long_one_are_accepted() {
    for name in [String::new(), "long ".repeat(1_000)] {
        let scheduler = builder().thread_name(name.clone()).build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let run = move || sender.send(thread::current().name().map(str::to_owned)).unwrap();
        let _ = scheduler.schedule_once(Duration::ZERO, Task::new(run).inline()).unwrap();
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), Some(name));
    }
}

#[test]
fn the_first_setting_that_is_wrong_is_reported_and_no_thread_is_started_for_it() {
    let error = builder().tick_duration(Duration::ZERO).ticks_per_wheel(3).build().unwrap_err();
    assert!(matches!(error, BuildError::Config(ConfigError::TickDuration { .. })));
}

#[test]
fn the_defaults_are_a_tick_of_a_millisecond_and_five_hundred_and_twelve_ticks_per_wheel() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    assert_eq!(scheduler.tick_duration(), ms(1));
    let settings = format!("{:?}", builder());
    assert!(settings.contains("ticks_per_wheel: 512"), "{settings}");
    assert!(settings.contains("shutdown_timeout: 5s"), "{settings}");
    let (sender, receiver) = mpsc::channel();
    let run = move || sender.send(thread::current().name().map(str::to_owned)).unwrap();
    let _ = scheduler.schedule_once(Duration::ZERO, Task::new(run).inline()).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().as_deref(), Some("lars-scheduler"));
    // Virtual time fires at exact deadlines instead.
    assert_eq!(builder().build_virtual().unwrap().tick_duration(), ns(1));
}

#[test]
fn a_window_to_coalesce_in_out_of_range_is_refused() {
    assert_refused(
        || builder().coalesce(secs(3_600) + ns(1)),
        "coalesce is 3600.000000001s, but it must be at most 3600s",
    );
}

/// How much later is the machine's business. That both are served by one wake-up is not: the window
/// is long enough for any machine.
#[test]
fn timers_that_are_due_within_the_window_share_a_wake_up_and_none_is_early() {
    let scheduler = builder().inline().coalesce(secs(2)).build().unwrap();
    settle(&scheduler);
    let (sender, receiver) = mpsc::channel();
    let begin = scheduler.now();
    let before = scheduler.metrics().wake_ups;
    for delay in (1..=5).map(|number| ms(10 * number)) {
        let (sender, handle) = (sender.clone(), scheduler.handle());
        let run = move || sender.send((delay, handle.now() - begin)).unwrap();
        let _ = scheduler.schedule_once(delay, run).unwrap();
    }
    for _ in 0..5 {
        let (delay, ran) = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(ran >= delay);
    }
    // One to take them in, because the thread slept without a deadline; perhaps one because that
    // came just as it was about to sleep; and one for all of them. (Five more without the window.)
    let wake_ups = scheduler.metrics().wake_ups - before;
    assert!(wake_ups <= 3, "{wake_ups}");
}

/// The slice of the calling thread in nanoseconds. Zero before Linux 6.12, where the kernel does
/// not tell.
#[cfg(all(target_os = "linux", not(miri)))]
fn slice() -> u64 {
    // SAFETY: all zeros are a value of the type. The value outlives the call, and the kernel writes
    // at most its size.
    unsafe {
        let mut attr: libc::sched_attr = std::mem::zeroed();
        let size = size_of::<libc::sched_attr>();
        let got = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0);
        assert_eq!(got, 0, "{}", std::io::Error::last_os_error());
        attr.sched_runtime
    }
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn short_slices_are_for_the_timer_thread_and_not_for_threads_that_it_starts() {
    let ordinary = slice();
    for short in [false, true] {
        let scheduler = builder().inline().short_slices(short).build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let run = move || {
            let inherited = thread::spawn(slice).join().unwrap();
            sender.send((slice(), inherited)).unwrap();
        };
        let _ = scheduler.schedule_once(ms(1), run).unwrap();
        let (own, inherited) = receiver.recv_timeout(PATIENCE).unwrap();
        // (Before Linux 6.12 all are zero.)
        let expected = if short { ordinary.min(100_000) } else { ordinary };
        assert_eq!((own, inherited), (expected, ordinary), "{short}");
    }
}

#[test]
fn in_virtual_time_there_is_nothing_to_coalesce() {
    let time = builder().coalesce(secs(1)).build_virtual().unwrap();
    let _ = time.schedule_once(ms(1), || ()).unwrap();
    assert_eq!(time.advance_to_next(), Some(ms(1)));
}

#[test]
fn the_longest_duration_is_taken_wherever_a_duration_is() {
    let time = builder().shutdown_timeout(Duration::MAX).build_virtual().unwrap();
    let max = Duration::MAX;
    let _ = time.schedule_once(max, || ()).unwrap();
    let _ = time.schedule_with_fixed_delay(max, max, || ()).unwrap();
    let _ = time.schedule_at_fixed_rate(max, max, || ()).unwrap();
    let _ = time.schedule_with_fixed_delay(ms(1), max, || ()).unwrap();
    let _ = time.schedule_at_fixed_rate(ms(1), max, || ()).unwrap();
    for missed in
        [lars_scheduler::MissedTickBehavior::Skip, lars_scheduler::MissedTickBehavior::Delay]
    {
        let task = lars_scheduler::Periodic::new(|| ()).missed_ticks(missed);
        let _ = time.schedule_at_fixed_rate(ms(1), max, task).unwrap();
    }
    assert_eq!(time.advance(ms(1)), 4);
    assert_eq!(time.advance(max), 0);
    assert_eq!(time.pending(), 7);
    // Calls at the end of time saturate too.
    let _ = time.schedule_once(max, || ()).unwrap();
    let _ = time.schedule_at_fixed_rate(ms(1), ms(1), || ()).unwrap();
    assert_eq!(time.advance(max), 0);
    let report = time.close().unwrap();
    assert_eq!((report.ran, report.repeats_ended), (2, 7));
}

#[test]
fn in_real_time_too_the_longest_duration_is_taken_wherever_a_duration_is() {
    let scheduler = builder().shutdown_timeout(Duration::MAX).inline().build().unwrap();
    let max = Duration::MAX;
    let (sender, receiver) = mpsc::channel();
    let _ = scheduler.schedule_once(max, || ()).unwrap();
    let _ = scheduler.schedule_with_fixed_delay(Duration::ZERO, max, move || {
        let _ = sender.send(());
    });
    receiver.recv_timeout(PATIENCE).unwrap();
    eventually("the run ends, and the next one is armed", || scheduler.pending() == 2);
    let pending = scheduler.stop().wait_timeout(max).unwrap();
    assert_eq!(pending.len(), 2);
    // The last instant lies 584 years ahead; where the clock cannot express it there is none.
    assert!(pending.iter().all(|task| task.due().is_none_or(|due| due > scheduler.now())));
}
