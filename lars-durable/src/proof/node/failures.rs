//! What is said of runs that fail.

use std::sync::OnceLock;

use super::*;
use crate::sync::Mutex;

/// What is logged, as text.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is logged meanwhile.
fn logged(work: impl FnOnce()) -> Vec<String> {
    // Beside a single subscriber, a place that another test's thread is the first to pass asks that
    // thread's, which has none, and is silent from then on.
    static SECOND: OnceLock<tracing::Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new()));
    let lines = Lines::default();
    let here = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || here.clone()).with_ansi(false);
    tracing::subscriber::with_default(subscriber.finish(), work);
    let text = String::from_utf8(lines.0.lock().clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn fails(_: &Launch) -> RunEnd {
    RunEnd::Retry { error: "the mill is down".into() }
}

#[test]
fn failures_are_said_with_handler_key_and_error_and_at_most_ten_a_second() {
    let lines = logged(|| {
        let mut bench = Bench::with(|settings| settings.handlers[0].max_attempts = 2);
        for number in 0..50 {
            bench.schedule(SECOND, &format!("secret {number}"), None);
        }
        bench.run_until(2 * SECOND, fails);
        bench.schedule(5 * SECOND, "later", None);
        bench.run_until(6 * SECOND, fails);
        assert_eq!(bench.parked().len(), 51);
    });
    let of = |what: &str| lines.iter().filter(|it| it.contains(what)).collect::<Vec<_>>();
    let (retried, parked) = (of("a run has failed: retried"), of("given up: parked"));
    assert_eq!((retried.len(), parked.len()), (11, 11), "{:.2000}", lines.join("\n"));
    assert!(retried[0].contains("handler=\"handler\"") && retried[0].contains("attempt=1"));
    assert!(retried[0].contains("key=\"key secret") && retried[0].contains("the mill is down"));
    assert!(retried[10].contains("unsaid=40") && parked[10].contains("unsaid=40"), "{retried:?}");
}

#[test]
fn a_run_that_fails_and_is_not_retried_is_said_too() {
    let lines = logged(|| {
        let mut bench = Bench::with(|settings| settings.handlers[0].at_most_once = true);
        let timer = NewTimer { key: Some("card/17".into()), ..bench.timer(SECOND, "4929", None) };
        bench.call(Write::Schedule(Arc::new(vec![timer])));
        bench.run_until(2 * SECOND, fails);
    });
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("ERROR") && line.contains("the mill is down"), "{line}");
    assert!(line.contains("key=\"card/17\"") && !line.contains("4929"), "{line}");
}

#[test]
fn a_run_whose_own_transaction_was_not_committed_is_said_to_have_failed() {
    let lines = logged(|| {
        let mut bench = Bench::new();
        bench.schedule(SECOND, "x", None);
        bench.run_until(SECOND - 1, done);
        let launch = bench.launched[0].clone();
        bench.node().acknowledged(launch.row.id, launch.fence);
        bench.run_until(SECOND, done);
    });
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("WARN") && line.contains("was not committed"), "{line}");
}

#[test]
fn timers_that_nobody_handles_are_said_to_be_parked() {
    let lines = logged(|| {
        let hour = Micros::SECOND * 3_600;
        let mut bench = Bench::with(|settings| (settings.sweep, settings.lease) = (hour, hour));
        let timer = NewTimer { handler: "gone".into(), ..bench.timer(SECOND, "x", None) };
        bench.call(Write::Schedule(Arc::new(vec![timer])));
        bench.run_until(15 * 86_400 * SECOND, done);
    });
    let parked: Vec<&String> = lines.iter().filter(|line| line.contains("ERROR")).collect();
    let [line] = &parked[..] else { panic!("{parked:?}") };
    assert!(line.contains("no handler for fourteen days") && line.contains("count=1"), "{line}");
    assert!(line.contains("handler=gone") && line.contains("key x 1000000"), "{line}");
}

#[test]
fn what_is_given_up_is_told_and_counted_once_although_the_answer_of_the_store_was_lost() {
    for series in [None, Some(Series::FixedDelay { delay: 3_600 * SECOND })] {
        let mut bench = Bench::with(|settings| settings.handlers[0].max_attempts = 1);
        bench.schedule(SECOND, "x", series);
        bench.run_until(SECOND - 1, done);
        bench.loses = Some(Lane::Runner);
        bench.run_until(10 * SECOND, fails);
        let parked = bench.parked();
        assert_eq!((parked.len(), &bench.told), (1, &parked));
        assert_eq!(bench.node().counts().parked, 1);
    }
}

#[test]
fn a_run_that_happens_at_most_once_counts_as_done_only_if_it_ended_well() {
    for (end, count) in [(done as fn(&Launch) -> RunEnd, 1), (fails, 0)] {
        let mut bench = Bench::with(|settings| settings.handlers[0].at_most_once = true);
        bench.schedule(SECOND, "x", None);
        bench.run_until(2 * SECOND, end);
        assert_eq!((bench.seen.len(), bench.node().counts().done), (1, count));
        assert_eq!(bench.node().handler_counts()[0].done, count);
    }
}

#[test]
fn when_the_fences_of_an_epoch_are_used_up_that_is_said_and_a_bucket_of_many_nodes_gets_another() {
    for sole in [true, false] {
        let mut seen = Vec::new();
        let lines = logged(|| {
            let mut bench = Bench::with(|settings| settings.sole = sole);
            for number in 0..6 {
                bench.schedule((1 + number) * SECOND, &number.to_string(), None);
            }
            bench.run_until(SECOND / 2, done);
            bench.node().count_starts(0, u32::MAX - 2);
            let fences = std::cell::RefCell::new(Vec::new());
            bench.run_until(100 * SECOND, |launch| {
                fences.borrow_mut().push(launch.fence);
                RunEnd::Done
            });
            seen = fences.into_inner();
            assert!(seen.is_sorted_by(|one, next| one < next), "fences grow: {seen:?}");
            assert!(bench.parked().is_empty(), "nothing is lost");
        });
        let said = lines.iter().filter(|line| line.contains("fence")).collect::<Vec<_>>();
        if sole {
            assert_eq!(seen.len(), 2, "{seen:?}");
            assert_eq!(said.len(), 2, "once a minute: {lines:?}");
            assert!(said[0].contains("ERROR") && said[0].contains("4294967295"), "{said:?}");
        } else {
            assert_eq!(seen.len(), 6, "{seen:?}");
            assert_eq!(said.len(), 1, "{lines:?}");
        }
    }
}

#[test]
fn a_bucket_that_is_used_up_is_given_back_when_its_last_run_has_ended() {
    let mut bench = Bench::new();
    bench.stuck = Some("handler");
    bench.schedule(SECOND, "long", None);
    bench.run_until(2 * SECOND, done);
    let epoch = bench.store.owners();
    bench.node().count_starts(0, u32::MAX);
    bench.stuck = None;
    bench.schedule(3 * SECOND, "later", None);
    bench.run_until(60 * SECOND, done);
    assert!(bench.seen.is_empty(), "nothing starts beside the run that goes on");
    assert_eq!(bench.store.owners(), epoch);
    let (id, fence) = bench.stuck_runs[0];
    let now = Mono(bench.now);
    bench.node().ended(now, id, fence, RunEnd::Done);
    bench.run_until(70 * SECOND, done);
    assert_eq!(bench.texts(), ["later"]);
}

#[test]
fn a_series_that_ends_because_the_clock_is_beyond_all_dates_is_said_to() {
    let lines = after_all_dates(1);
    let said = lines.iter().filter(|line| line.contains("no date is left"));
    let said: Vec<&String> = said.collect();
    assert!(said.len() == 1 && said[0].contains("key=\"key hourly"), "{lines:?}");
}

#[test]
fn of_many_series_that_end_because_no_date_is_left_a_few_are_named() {
    let lines = after_all_dates(500);
    let said = lines.iter().filter(|line| line.contains("no date is left")).count();
    assert!((1..100).contains(&said), "{said} lines");
}

/// What is said of so many series when the clock is moved beyond all dates.
fn after_all_dates(series: usize) -> Vec<String> {
    let three_thousand_years = 3_000 * 31_557_600 * SECOND;
    logged(|| {
        let mut bench = Bench::new();
        for number in 0..series {
            let rule = cron_series("0 * * * *", "UTC", MissedRuns::Once, Duration::ZERO).unwrap();
            bench.schedule(SECOND, &format!("hourly/{number}"), Some(rule));
        }
        bench.run_until(2 * SECOND, done);
        bench.move_to(three_thousand_years);
        bench.run_until(bench.now + 60 * SECOND, done);
        assert_eq!(bench.seen.len(), 2 * series, "what was missed is made up for");
    })
}
