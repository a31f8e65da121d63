//! The histogram of latenesses.
#![allow(missing_docs)]

use std::time::Duration;

use lars_scheduler::LightArrayRevolverScheduler;
use lars_scheduler::metrics::Durations;

/// How many the histogram has.
fn count(durations: &Durations) -> u64 {
    durations.recorded().map(|(_, times)| times).sum()
}

#[test]
fn the_histogram_has_every_lateness_from_nanoseconds_to_hours_to_within_a_percent() {
    let time = LightArrayRevolverScheduler::builder()
        .tick_duration(Duration::from_secs(3600))
        .build_virtual()
        .unwrap();
    let hour = Duration::from_secs(3600);
    let late =
        [Duration::from_nanos(3), Duration::from_micros(70), Duration::from_millis(900), hour / 2];
    for late in late {
        let _ = time.schedule_once(hour - late, || ()).unwrap();
    }
    time.advance(hour);
    let lateness = time.metrics().lateness;
    assert_eq!(lateness.max, hour / 2);
    assert_eq!(count(&lateness), 4);
    for (place, late) in late.iter().enumerate() {
        let measured = lateness.quantile((place as f64 + 0.9) / 4.0).as_nanos() as f64;
        let expected = late.as_nanos() as f64;
        assert!((measured / expected - 1.0).abs() < 0.01, "{measured} for {expected}");
    }
}

#[test]
fn a_snapshot_that_is_logged_stays_short() {
    let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let text = format!("{:?}", time.metrics());
    assert!(text.contains("max: 0ns") && text.len() < 1_000, "{text}");
}

#[test]
fn a_snapshot_is_taken_while_timers_fire_and_misses_none_of_those_before() {
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    for round in 1..=50 {
        let (sender, receiver) = std::sync::mpsc::channel();
        let _ = scheduler.schedule_once(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
        receiver.recv().unwrap();
        assert_eq!(count(&scheduler.metrics().lateness), round);
    }
}
