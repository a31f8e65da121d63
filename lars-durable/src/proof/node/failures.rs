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
}
