//! Spans: where the tasks of systems run.
#![allow(clippy::disallowed_methods, missing_docs)]

#[path = "../../lars-scheduler/tests/common/mod.rs"]
mod common;
#[path = "../../lars-scheduler/tests/common/spans.rs"]
mod spans;

use std::sync::Mutex;

use common::{ByHand, Notes, eventually, ms};
use lars_jobs::Jobs;
use lars_jobs::repeated_timer::RepeatedTimer;
use lars_jobs::supervised::Supervision;
use lars_jobs::worker::Worker;
use lars_scheduler::{Builder, LightArrayRevolverScheduler, Pool, VirtualTime};
use spans::{here, install};
use tracing::info_span;

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

#[test]
fn each_task_of_a_worker_has_its_own_span() {
    let pool = Pool::new("spans", 1).unwrap();
    let scheduler = builder().executor(pool).build().unwrap();
    let (worker, seen) = (Worker::new(&scheduler), Seen::new());
    for span in [info_span!("first"), info_span!("second")] {
        span.in_scope(|| worker.schedule(noting(&seen)).unwrap());
    }
    worker.schedule(noting(&seen)).unwrap();
    eventually("they run", || seen.len() == 3);
    info_span!("later").in_scope(|| worker.schedule_after(ms(1), noting(&seen)).unwrap());
    worker.schedule_after(ms(2), noting(&seen)).unwrap();
    eventually("all have run", || seen.len() == 5);
    let seen = seen.take();
    assert_eq!(seen, [Some("first"), Some("second"), None, Some("later"), None]);
}

#[test]
fn the_closures_of_other_systems_run_in_the_span_in_which_they_were_started() {
    let (time, seen) = (virtual_time(), Seen::new());
    let by_hand = ByHand::default();
    let (in_call, in_run, in_timer) = (noting(&seen), noting(&seen), noting(&seen));
    let in_run = Mutex::new(in_run);
    let _kept = info_span!("request").in_scope(|| {
        let call = time.schedule_call(ms(1), in_call).unwrap();
        let timer = RepeatedTimer::new(&time, ms(2), move |_| in_timer()).unwrap();
        timer.start().unwrap();
        let supervised = Supervision::every(ms(3))
            .build()
            .unwrap()
            .start(&time, by_hand.clone(), move |_| (in_run.lock().unwrap())())
            .unwrap();
        (call, timer, supervised)
    });
    time.advance(ms(3));
    while by_hand.run_next() {}
    let seen = seen.take();
    assert!(seen.len() >= 3 && seen.iter().all(|span| *span == Some("request")), "{seen:?}");
}
