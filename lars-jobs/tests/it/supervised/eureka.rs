//! What the tests of Eureka's `TimedSupervisorTask` and `InstanceInfoReplicator` promise.

use super::*;

/// A task that takes a while in virtual time: it moves the time itself, a bit at a time, until it
/// is done or its token says stop.
fn slow_task(
    time: &Arc<VirtualTime>,
    takes: Duration,
    inside: &Arc<Concurrency>,
    interrupted: &Arc<AtomicU32>,
) -> impl Fn(&CancelToken) + Send + Sync + 'static {
    let (time, inside) = (Arc::clone(time), Arc::clone(inside));
    let interrupted = Arc::clone(interrupted);
    move |token| {
        let _inside = inside.enter();
        let begin = time.elapsed();
        while time.elapsed() - begin < takes {
            time.advance(ms(100));
            if token.is_cancelled() {
                interrupted.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }
}

struct EurekaRun {
    counts: Counts,
    interrupted: u32,
    most: usize,
}

/// Runs a task that takes `takes` with Eureka's settings (bound 10) for `whole`.
fn eureka(initial: Duration, takes: Duration, timeout: Duration, whole: Duration) -> EurekaRun {
    let time = Arc::new(virtual_time());
    let inside = Arc::new(Concurrency::default());
    let interrupted = Arc::new(AtomicU32::new(0));
    let executor = ByHand::default();
    let task = Supervision::every(timeout)
        .initial_delay(initial)
        .build()
        .unwrap()
        .start(&time, executor.clone(), slow_task(&time, takes, &inside, &interrupted))
        .unwrap();
    while time.elapsed() < whole {
        time.advance(ms(100));
        executor.run_next();
    }
    EurekaRun {
        counts: task.counts(),
        interrupted: interrupted.load(Ordering::SeqCst),
        most: inside.most(),
    }
}

#[test]
fn e1_a_task_within_its_timeout_succeeds_and_is_not_interrupted() {
    let run = eureka(secs(0), secs(1), secs(5), secs(2));
    assert_eq!((run.counts.runs, run.counts.successes, run.interrupted), (1, 1, 0));
}

#[test]
fn e2_a_task_over_its_timeout_is_interrupted_and_no_success() {
    let run = eureka(secs(0), secs(5), secs(1), ms(1500));
    assert_eq!((run.counts.successes, run.counts.timeouts, run.interrupted), (0, 1, 1));
    assert_eq!(run.counts.late_ends, 1);
}

#[test]
fn e4_periodic_runs_do_not_overlap_and_are_not_interrupted() {
    let run = eureka(secs(0), secs(1), secs(4), secs(5));
    assert_eq!((run.most, run.interrupted), (1, 0));
    assert!(run.counts.successes >= 1);
}

#[test]
fn e5_periodic_runs_that_time_out_do_not_overlap_and_none_succeeds() {
    let run = eureka(secs(0), secs(5), secs(2), secs(20));
    assert_eq!((run.most, run.counts.successes), (1, 0));
    assert!(run.counts.timeouts >= 2 && run.interrupted >= 2);
}

#[test]
fn e6_e7_runs_on_demand_are_accepted_up_to_the_burst_and_refused_beyond() {
    let time = virtual_time();
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    let task = Supervision::every(secs(1000))
        .on_demand_limit(2, secs(2))
        .build()
        .unwrap()
        .start(&time, Inline, move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    time.advance(secs(5)); // what was not used is not saved up
    assert_eq!(task.run_now(), Ok(()));
    time.advance(ms(10));
    assert_eq!(task.run_now(), Ok(()));
    time.advance(ms(10));
    assert_eq!(task.run_now(), Err(RunNowError::TooOften { retry_in: ms(980) }));
    time.advance(ms(980) - ns(1));
    assert_eq!(task.run_now(), Err(RunNowError::TooOften { retry_in: ns(1) }));
    time.advance(ns(1));
    assert_eq!(task.run_now(), Ok(()));
    time.advance(secs(1));
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[test]
fn e9_an_initial_delay_in_milliseconds_is_one_in_milliseconds() {
    // Eureka's `start(initialDelayMs)` takes them for seconds.
    let run = eureka(ms(500), ms(100), secs(1), secs(2));
    assert_eq!(run.counts.successes, 2); // at 500 ms and 1.6 s
}
