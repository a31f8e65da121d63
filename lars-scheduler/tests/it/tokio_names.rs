//! Programs that use tokio's names: on tokio, on ours, and on ours in virtual time. Also what is
//! ours alone: the default scheduler, and what happens at its end.
#![allow(clippy::duplicate_mod)] // that is the point

use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use lars_scheduler::LightArrayRevolverScheduler;
use lars_scheduler::time::error::{Elapsed, SetDefaultError};
use lars_scheduler::time::{self, Duration, Instant, MissedTickBehavior};

#[path = "tokio_names"]
mod by_tokio {
    pub(crate) use tokio::time;
    #[path = "programs.rs"]
    pub(crate) mod programs;
}

#[path = "tokio_names"]
mod by_ours {
    pub(crate) use lars_scheduler::time;
    #[path = "programs.rs"]
    pub(crate) mod programs;
}

/// A runtime whose own clock, if it has one, moves when all wait.
fn runtime(with_time: bool) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    if with_time {
        builder.enable_time().start_paused(true);
    }
    builder.build().unwrap()
}

fn virtual_time() -> lars_scheduler::VirtualTime {
    LightArrayRevolverScheduler::builder().build_virtual().unwrap()
}

/// Runs a program in a time that passes while all wait: tokio's, and ours.
macro_rules! in_a_time_that_is_moved {
    ($program:ident) => {
        #[test]
        fn $program() {
            runtime(true).block_on(super::by_tokio::programs::$program());
            super::virtual_time().block_on(super::by_ours::programs::$program()).unwrap();
        }
    };
}

/// Runs a program on its own, and in real time: on tokio's runtime without its timers, and on
/// another executor.
macro_rules! in_any_time {
    ($program:ident) => {
        #[test]
        fn $program() {
            use super::by_ours::programs;
            runtime(true).block_on(super::by_tokio::programs::$program());
            super::virtual_time().block_on(programs::$program()).unwrap();
            runtime(false).block_on(programs::$program());
            futures::executor::block_on(programs::$program());
        }
    };
}

mod programs {
    use super::runtime;

    in_any_time!(a_sleep_lasts_as_long_as_was_asked_for);
    in_any_time!(a_sleep_until_an_instant_ends_then_or_at_once_if_it_has_passed);
    in_any_time!(a_pinned_sleep_is_moved_in_a_loop);
    in_any_time!(a_sleep_is_part_of_another_future);
    in_any_time!(a_timeout_ends_work_that_takes_too_long_and_no_other);
    in_any_time!(a_timeout_until_an_instant_is_shared_by_several_steps);
    in_any_time!(work_is_looked_at_and_taken_out_of_its_timeout);
    in_any_time!(an_elapsed_time_is_an_io_error);
    in_any_time!(an_interval_ticks_at_once_and_then_each_period);
    in_any_time!(an_interval_counts_the_time_of_the_work_and_a_sleep_does_not);
    in_any_time!(an_interval_begins_at_an_instant);
    in_any_time!(an_interval_starts_over);
    in_any_time!(an_interval_that_loses_a_select_loses_no_tick);
    in_any_time!(missed_ticks_burst);
    in_any_time!(missed_ticks_are_delayed);
    in_any_time!(missed_ticks_are_skipped);
    in_any_time!(instants_are_compared_added_and_converted);
    in_a_time_that_is_moved!(late_ticks_come_when_the_table_of_tokio_says);
}

/// The message of a panic that is expected.
fn panic_of(code: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(code)).expect_err("it panics");
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(other) => (*other.downcast::<&str>().expect("a message")).to_owned(),
    }
}

#[test]
fn the_default_scheduler_starts_once_and_cannot_be_set_after_that() {
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(time::default_scheduler)).collect();
    let first = time::default_scheduler();
    let in_an_hour = first.schedule_once(Duration::from_secs(3600), || ()).unwrap();
    for thread in threads {
        assert!(thread.join().unwrap().pending() >= 1, "it is the same scheduler");
    }
    assert!(in_an_hour.cancel());
    let late = time::set_default(&virtual_time()).unwrap_err();
    assert_eq!(late, SetDefaultError::AlreadyStarted);
    assert!(late.to_string().contains("before it was set"), "{late}");
}

#[test]
fn virtual_time_is_the_default_of_the_thread_that_moves_it_and_of_no_other() {
    let (outer, inner) = (virtual_time(), virtual_time());
    let hour = Duration::from_secs(3600);
    let real = Instant::now();
    outer
        .block_on(async {
            time::sleep(hour).await;
            inner.block_on(async { time::sleep(2 * hour).await }).unwrap();
            assert_eq!(Instant::now().into_std(), outer.now());
            let elsewhere = thread::spawn(move || real.elapsed()).join().unwrap();
            assert!(elsewhere < hour);
        })
        .unwrap();
    assert_eq!((outer.elapsed(), inner.elapsed()), (hour, 2 * hour));
    assert!(real.elapsed() < hour);
    // Also if the future panics.
    panic_of(|| outer.block_on(async { panic!("expected by this test") }).unwrap());
    assert!(real.elapsed() < hour);
}

#[test]
fn a_future_belongs_to_the_scheduler_that_was_the_default_when_it_was_made() {
    let time = virtual_time();
    let day = Duration::from_secs(24 * 3600);
    let mut made = None;
    time.block_on(async { made = Some(time::sleep(day)) }).unwrap();
    let other = thread::spawn(move || time::timeout(Duration::ZERO, made.unwrap()));
    let limited = other.join().unwrap();
    assert_eq!(time.block_on(limited.into_inner()), Ok(()));
    assert_eq!(time.elapsed(), day);
}

#[test]
fn a_sleep_of_the_longest_duration_never_ends() {
    let time = virtual_time();
    let stalled = time.block_on(async {
        let sleep = time::sleep(Duration::MAX);
        assert!(sleep.deadline() - Instant::now() > Duration::from_secs(900_000_000));
        sleep.await;
    });
    assert_eq!(stalled, Err(lars_scheduler::future::Stalled));
}

#[test]
fn what_waits_for_a_scheduler_that_has_stopped_panics_and_names_the_place() {
    let second = Duration::from_secs(1);
    async fn waits_for_a_stop(wait: impl Future, time: &lars_scheduler::VirtualTime) {
        futures::join!(wait, async { drop(time.close()) });
    }
    let time = virtual_time();
    let line = line!() + 2;
    let sleep = panic_of(|| {
        time.block_on(async { waits_for_a_stop(time::sleep(second), &time).await }).unwrap()
    });
    let place = format!("{}:{line}", file!());
    assert!(sleep.contains(&place) && sleep.contains("stopped"), "{sleep}");
    let time = virtual_time();
    let ticks = panic_of(|| {
        let program = async {
            let mut ticks = time::interval_at(Instant::now() + second, second);
            waits_for_a_stop(ticks.tick(), &time).await;
        };
        time.block_on(program).unwrap();
    });
    assert!(ticks.contains(file!()) && ticks.contains("stopped"), "{ticks}");
}

#[test]
fn a_timeout_that_has_no_timer_is_an_error_and_no_panic() {
    let builder = LightArrayRevolverScheduler::builder().max_pending(1);
    let time = builder.build_virtual().unwrap();
    let in_an_hour = time.schedule_once(Duration::from_secs(3600), || ()).unwrap();
    let refused = time.block_on(async {
        time::timeout(Duration::from_secs(1), pending::<()>()).await.unwrap_err()
    });
    let refused = refused.unwrap();
    assert!(matches!(refused, Elapsed::Refused(_)), "{refused:?}");
    let error = std::io::Error::from(refused);
    assert_ne!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(error.to_string().contains('1'), "{error}");
    drop(in_an_hour);
}

#[test]
fn an_interval_without_a_period_is_refused_with_the_value() {
    let message = panic_of(|| drop(time::interval(Duration::ZERO)));
    assert!(message.contains("0ns"), "{message}");
}

#[test]
fn the_missed_tick_behavior_is_the_one_of_repeats() {
    let mut interval = time::interval(Duration::from_secs(1));
    let skip: MissedTickBehavior = lars_scheduler::MissedTickBehavior::Skip;
    interval.set_missed_tick_behavior(skip);
    assert_eq!(interval.missed_tick_behavior(), skip);
}
