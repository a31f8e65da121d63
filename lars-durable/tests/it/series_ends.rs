//! Series that end by themselves, or because their handler says so.

use crate::common;

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use common::{LONG, Note, note, on_each_store, refused, telling};
use lars_durable::schedule::Placement;
use lars_durable::{Fired, Handler, MissedTickBehavior, OnConflict, Refused, Timers};

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Waits for the timer to be gone.
#[track_caller]
fn gone(timers: &Timers, key: &str) {
    for _ in 0..60_000 {
        if timers.get(key).wait().unwrap().is_none() {
            return;
        }
        std::thread::sleep(MILLISECOND);
    }
    panic!("{key} does not go");
}

#[test]
fn a_series_of_so_many_runs_has_so_many_and_is_gone() {
    on_each_store("times", |builder| {
        let (tell, seen) = telling();
        let durable = builder.handle(tell).start().unwrap();
        let timers = durable.timers();
        let period = 2 * MILLISECOND;
        let rate = || timers.schedule_at_fixed_rate(MILLISECOND, period, note("rate"));
        let delay = timers.schedule_with_fixed_delay(MILLISECOND, period, note("delay"));
        rate().times(3).key("rate").submit().wait().unwrap();
        delay.times(5).key("delay").submit().wait().unwrap();
        rate().times(1).key("one").remember(HOUR).submit().wait().unwrap();
        for key in ["rate", "delay", "one"] {
            gone(&timers, key);
        }
        let again = rate().times(1).key("one").submit().wait().unwrap();
        assert_eq!((again.id, again.placement), (0, Placement::Kept), "it is remembered");
        durable.close().unwrap();
        let texts: Vec<String> = seen.try_iter().map(|seen| seen.text).collect();
        let count = |text| texts.iter().filter(|it| *it == text).count();
        assert_eq!((count("rate"), count("delay")), (4, 5));
    });
}

#[test]
fn a_series_until_an_instant_has_no_run_that_is_planned_for_later() {
    on_each_store("until", |builder| {
        let (sender, seen) = channel();
        let sender = Mutex::new(sender);
        let handler = move |due: &Fired<Note>| sender.lock().unwrap().send(due.due()).unwrap();
        let durable = builder.handle(handler).start().unwrap();
        let timers = durable.timers();
        let end = SystemTime::now() + Duration::from_millis(300);
        let series = timers.schedule_at_fixed_rate(MILLISECOND, 20 * MILLISECOND, note("x"));
        let series = series.missed_ticks(MissedTickBehavior::Burst).until(end);
        series.key("x").submit().wait().unwrap();
        gone(&timers, "x");
        durable.close().unwrap();
        let planned: Vec<SystemTime> = seen.try_iter().collect();
        // On a machine that stands still the first may have been behind the end.
        assert!(planned.iter().all(|planned| *planned <= end), "{planned:?}, {end:?}");
        if let (Some(first), Some(last)) = (planned.first(), planned.last()) {
            assert!(*last + 20 * MILLISECOND > end, "{planned:?}, {end:?}");
            let span = last.duration_since(*first).unwrap();
            assert_eq!(span.as_millis() / 20 + 1, planned.len() as u128, "a burst leaves none out");
        }
    });
}

#[test]
fn a_handler_that_breaks_off_has_ended_its_series() {
    for at_most_once in [false, true] {
        on_each_store("last", |builder| {
            let runs = Mutex::new(0);
            let handler = Handler::new(move |_: &Fired<Note>| {
                let mut runs = runs.lock().unwrap();
                *runs += 1;
                match *runs {
                    1 => Ok(ControlFlow::Continue(())),
                    2 => Ok(ControlFlow::Break(())),
                    _ => Err("it is over"),
                }
            });
            let handler = if at_most_once { handler.at_most_once() } else { handler };
            let durable = builder.handler(handler).start().unwrap();
            let timers = durable.timers();
            let series = timers.schedule_at_fixed_rate(MILLISECOND, MILLISECOND, note("x"));
            series.key("x").submit().wait().unwrap();
            gone(&timers, "x");
            let seen = durable.metrics();
            assert_eq!((seen.started, seen.retried), (2, 0), "at most once: {at_most_once}");
            durable.close().unwrap();
        });
    }
}

#[test]
fn an_end_is_shown_beside_the_rule_with_the_runs_that_are_over() {
    on_each_store("shown", |builder| {
        let (tell, seen) = telling();
        let durable = builder.handle(tell).start().unwrap();
        let timers = durable.timers();
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(4_102_444_800);
        let series = timers.schedule_at_fixed_rate(Duration::ZERO, HOUR, note("x"));
        series.times(7).until(end).key("x").submit().wait().unwrap();
        seen.recv_timeout(LONG).unwrap();
        let shown = loop {
            let shown = timers.get("x").wait().unwrap().unwrap();
            if shown.runs > 0 {
                break shown;
            }
        };
        assert_eq!((shown.runs, shown.times, shown.until), (1, Some(7), Some(end)));
        assert_eq!(shown.rule.as_deref(), Some("every 3600s, missed: Burst"));
        timers.schedule_once(HOUR, note("y")).key("y").submit().wait().unwrap();
        let once = timers.get("y").wait().unwrap().unwrap();
        assert_eq!((once.runs, once.times, once.until), (0, None, None));
        durable.close().unwrap();
    });
}

#[test]
fn a_series_is_declared_again_after_its_end_without_an_error_and_without_a_timer() {
    on_each_store("declared", |builder| {
        let durable = builder.start().unwrap();
        let timers = durable.timers();
        let past = SystemTime::UNIX_EPOCH;
        let declare = |end, conflict| {
            let series = timers.schedule_by_cron("0 0 * * *", "UTC", note("x")).until(end);
            let placed = series.key("x").on_conflict(conflict).submit().wait().unwrap();
            (placed.id, placed.placement)
        };
        assert_eq!(declare(past, OnConflict::Update), (0, Placement::Kept));
        let far = past + Duration::from_secs(4_102_444_800);
        let (id, placement) = declare(far, OnConflict::Update);
        assert_eq!(placement, Placement::New);
        assert_eq!(declare(far + HOUR, OnConflict::Update), (id, Placement::Updated));
        assert_eq!(declare(past, OnConflict::Keep), (id, Placement::Kept));
        assert_eq!(declare(past, OnConflict::Replace), (0, Placement::Replaced));
        assert!(timers.get("x").wait().unwrap().is_none());
        let none = timers.schedule_at_fixed_rate(HOUR, HOUR, note("x")).times(0).submit().wait();
        assert_eq!(refused(none), Refused::TimesZero);
        let most = timers.schedule_with_fixed_delay(HOUR, HOUR, note("x")).times(u64::MAX);
        assert_eq!(most.submit().wait().unwrap().placement, Placement::New);
        durable.close().unwrap();
    });
}
