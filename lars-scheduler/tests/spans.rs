//! Tasks run in the `tracing` spans in which they were scheduled, if that was asked for.
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;
#[path = "common/spans.rs"]
mod spans;

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use common::{ByHand, Notes, eventually, ms};
use lars_scheduler::{
    Builder, Handle, LightArrayRevolverScheduler, Periodic, Repeat, Task, VirtualTime,
};
use spans::{Hostile, here, install};
use tracing::info_span;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

type Seen = Notes<Option<&'static str>>;

fn builder() -> Builder {
    install();
    LightArrayRevolverScheduler::builder().capture_spans(true)
}

fn virtual_time() -> VirtualTime {
    builder().build_virtual().unwrap()
}

/// A task that notes its span.
fn noting(seen: &Seen) -> impl Fn() + Send + 'static {
    let seen = seen.clone();
    move || seen.add(here())
}

fn schedule_in_both(timers: &Handle, delay: Duration, seen: &Seen) {
    for span in [info_span!("first"), info_span!("second")] {
        span.in_scope(|| timers.schedule_once(delay, noting(seen)).unwrap());
    }
    let _ = timers.schedule_once(delay, noting(seen)).unwrap();
}

#[test]
fn a_task_runs_in_the_span_in_which_it_was_scheduled_or_in_none() {
    let (time, seen) = (virtual_time(), Seen::new());
    schedule_in_both(&time, ms(1), &seen);
    time.advance(ms(1));
    assert_eq!(seen.take(), [Some("first"), Some("second"), None]);
    assert_eq!(here(), None, "it was left");
}

#[test]
fn on_a_pool_and_on_other_executors_too() {
    let seen = Seen::new();
    let scheduler = builder().pool(|pool| pool.threads(1)).build().unwrap();
    schedule_in_both(&scheduler, Duration::ZERO, &seen);
    eventually("they run", || seen.len() == 3);
    assert_eq!(seen.take(), [Some("first"), Some("second"), None]);

    let by_hand = ByHand::default();
    let time = builder().executor(by_hand.clone()).build_virtual().unwrap();
    schedule_in_both(&time, ms(1), &seen);
    let own = Task::new(noting(&seen)).executor(Arc::new(by_hand.clone()));
    info_span!("third").in_scope(|| time.schedule_once(ms(1), own).unwrap());
    time.advance(ms(1));
    while by_hand.run_next() {}
    assert_eq!(seen.take(), [Some("first"), Some("second"), None, Some("third")]);
}

#[test]
fn all_runs_of_a_repeat_have_the_span_of_the_call_that_scheduled_it() {
    let (time, seen) = (virtual_time(), Seen::new());
    let span = info_span!("series");
    let series = span.in_scope(|| {
        let run = noting(&seen);
        time.schedule_at_fixed_rate(ms(1), ms(1), Periodic::new(run)).unwrap()
    });
    info_span!("other").in_scope(|| time.advance(ms(3)));
    assert!(series.cancel());
    assert_eq!(seen.take(), [Some("series"); 3]);
}

#[test]
fn a_repeat_that_was_scheduled_outside_of_spans_is_not_put_into_those_of_others() {
    let (time, seen) = (virtual_time(), Seen::new());
    let run = noting(&seen);
    let mut left = 3;
    let asked = move || {
        run();
        left -= 1;
        if left == 0 { Repeat::Stop } else { Repeat::After(ms(1)) }
    };
    let _ = time.schedule_repeating(ms(1), asked).unwrap();
    schedule_in_both(&time, ms(2), &seen);
    time.advance(ms(5));
    let seen = seen.take();
    assert_eq!(seen.iter().filter(|span| span.is_none()).count(), 4, "{seen:?}");
}

#[test]
fn a_batch_is_captured_as_a_whole() {
    let (time, seen) = (virtual_time(), Seen::new());
    let batch: Vec<_> = (0..3).map(|_| (ms(1), noting(&seen))).collect();
    info_span!("batch").in_scope(|| time.schedule_batch(batch).unwrap());
    time.advance(ms(1));
    assert_eq!(seen.take(), [Some("batch"); 3]);
}

#[test]
fn a_subscriber_that_panics_about_spans_loses_no_task() {
    let (time, ran) = (virtual_time(), Notes::new());
    tracing::subscriber::with_default(Registry::default().with(Hostile), || {
        let span = ManuallyDrop::new(info_span!("request"));
        let _ = catch_unwind(AssertUnwindSafe(|| span.enter())); // it is entered all the same
        assert_eq!(here(), Some("request"));
        for number in 0..3 {
            let ran = ran.clone();
            let _ = time.schedule_once(ms(1), move || ran.add(number)).unwrap();
        }
        time.schedule_once(ms(1), || ()).unwrap().cancel();
        let _ = time.schedule_once(ms(1), || panic!("expected by this test: task")).unwrap();
    });
    time.advance(ms(1));
    assert_eq!(ran.take(), [0, 1, 2]);
    assert_eq!(time.metrics().panicked, 1);
}

#[test]
fn a_task_that_was_refused_or_handed_back_is_what_it_was() {
    let (time, seen) = (virtual_time(), Seen::new());
    info_span!("early").in_scope(|| time.schedule_once(ms(1), noting(&seen)).unwrap());
    for task in time.stop().wait() {
        assert!(task.identity().type_name().contains("noting"));
        task.run();
    }
    assert_eq!(seen.take(), [Some("early")]);
    let refused = time.schedule_once(ms(1), noting(&seen)).unwrap_err();
    refused.into_task()();
    assert_eq!(seen.take(), [None]);
}

#[test]
fn a_panic_leaves_the_span() {
    let time = virtual_time();
    let _ = info_span!("fails")
        .in_scope(|| time.schedule_once(ms(1), || panic!("expected by this test")).unwrap());
    time.advance(ms(1));
    assert_eq!((here(), time.metrics().panicked), (None, 1));
}

#[test]
fn unless_asked_for_no_span_is_kept() {
    let _ = builder();
    let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let seen = Seen::new();
    schedule_in_both(&time, ms(1), &seen);
    time.advance(ms(1));
    assert_eq!(seen.take(), [None; 3]);
}
