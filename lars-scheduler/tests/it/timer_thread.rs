//! The timer thread survives what no containment covers: a panic of the waker that it wakes when it
//! stops.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

use common::{Captive, Notes, eventually, secs};
use futures::Future;
use lars_scheduler::LightArrayRevolverScheduler;
use lars_scheduler::hooks::PanicIn;

struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("the waker");
    }
}

#[test]
fn a_waker_that_panics_neither_ends_the_timer_thread_early_nor_costs_what_it_was_woken_for() {
    let reports = Notes::new();
    let note = reports.clone();
    let scheduler = LightArrayRevolverScheduler::builder()
        .on_panic(move |report| note.add((report.place, report.message.to_owned())))
        .build()
        .unwrap();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "dropped");
    let _ = scheduler.schedule_once(secs(10), move || drop(captive)).unwrap();
    let held = common::occupy(&scheduler);
    let mut stopped = scheduler.stop();
    let waker = Arc::new(Bomb).into();
    let polled = Pin::new(&mut stopped).poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Pending), "the timer thread is held");
    drop(held);
    eventually("the restart", || scheduler.metrics().restarts == 1);
    let pending = stopped.wait();
    assert_eq!(pending.len(), 1);
    assert_eq!(notes.take(), [""; 0]);
    drop(pending);
    assert_eq!(notes.take(), ["dropped"]);
    drop(scheduler); // waits for the thread
    assert_eq!(reports.take(), [(PanicIn::TimerThread, "the waker".to_owned())]);
}
