//! Work that begins later.

use std::time::Duration;

use futures::future::FutureExt;
use lars_scheduler::Refusal;

use super::poll_quietly;
use crate::common::{Captive, Notes, ms, ns, secs, virtual_time};

#[test]
fn the_work_begins_when_the_delay_is_over_and_not_a_nanosecond_before() {
    let time = virtual_time();
    let begun = Notes::new();
    let note = begun.clone();
    let mut later = Box::pin(time.after(secs(1), async move { note.add("begun") }));
    assert!(poll_quietly(&mut later).is_pending());
    time.advance(secs(1) - ns(1));
    assert!(poll_quietly(&mut later).is_pending());
    assert_eq!(begun.len(), 0);
    time.advance(ns(1));
    assert_eq!(poll_quietly(&mut later), std::task::Poll::Ready(Ok(())));
    assert_eq!(begun.take(), ["begun"]);
}

#[test]
fn the_works_success_failure_and_own_waiting_pass_through() {
    let time = virtual_time();
    let work = async {
        time.sleep(ms(500)).await.unwrap();
        Ok::<_, ()>(1)
    };
    assert_eq!(time.block_on(time.after(secs(1), work)), Ok(Ok(Ok(1))));
    assert_eq!(time.elapsed(), ms(1500));
    let failure = async { Err::<(), _>("failed") };
    assert_eq!(time.block_on(time.after(secs(1), failure)), Ok(Ok(Err("failed"))));
}

#[test]
fn without_a_delay_the_work_is_done_by_the_first_poll() {
    let time = virtual_time();
    assert_eq!(time.after(Duration::ZERO, async { 1 }).now_or_never(), Some(Ok(1)));
    assert_eq!(time.metrics().scheduled, 0);
}

#[test]
fn work_that_is_dropped_before_its_time_never_begins_and_leaves_no_timer() {
    let time = virtual_time();
    let farewells = Notes::new();
    let captive = Captive::new(&farewells, "the work");
    let mut later = Box::pin(time.after(secs(1), async move {
        let _captive = captive;
        unreachable!("dropped before");
    }));
    assert!(poll_quietly(&mut later).is_pending());
    drop(later);
    assert_eq!(farewells.take(), ["the work"]);
    time.advance(secs(2));
    assert_eq!(time.metrics().fired, 0);
}

#[test]
fn work_whose_scheduler_has_stopped_has_not_begun_and_can_be_taken_back() {
    let time = virtual_time();
    let mut later = time.after(secs(1), std::future::ready(5));
    assert!(poll_quietly(&mut later).is_pending());
    time.close().unwrap();
    assert_eq!((&mut later).now_or_never(), Some(Err(Refusal::Stopped)));
    assert_eq!(later.into_inner().now_or_never(), Some(5));
}
