//! What a node that closes still does, and what not any more.

use super::*;
use crate::error::{Error, Refused};

impl Bench {
    /// One turn, before which a call has come, and after which the store has answered. Says what
    /// became of the call, if that is known, and whether the node has left.
    fn turn_with_call(&mut self) -> (Option<Result<Written, Error>>, bool) {
        let (now, which) = (Mono(self.now), "nobody".into());
        self.next_call += 1;
        let next_call = self.next_call;
        self.node().call(now, next_call, Write::Get { which });
        self.node().turn(now);
        let (mut answer, mut left) = (None, false);
        for output in self.node().take_outputs() {
            match output {
                Output::Send { lane, requests } => {
                    let committed = self.store.transact(&requests);
                    self.node().replied(lane, now, committed);
                }
                Output::Answer { call, result } if call == next_call => answer = Some(result),
                Output::Closed { .. } => left = true,
                _ => {}
            }
        }
        (answer, left)
    }
}

#[test]
fn a_node_that_closes_leaves_although_others_go_on_calling_and_refuses_them() {
    let mut bench = Bench::new();
    bench.run_until(SECOND, done);
    bench.node().close();
    let turns: Vec<_> = (0..50).map(|_| bench.turn_with_call()).collect();
    let left = turns.iter().position(|(_, left)| *left).expect("it leaves");
    let closed = Some(Err(Error::Refused(Refused::Closed)));
    assert!(turns[..left].iter().all(|(answer, _)| *answer == closed), "{:?}", turns[0]);
}

#[test]
fn as_long_as_something_runs_a_node_that_closes_takes_calls() {
    let mut bench = Bench::with(|settings| settings.handlers[0].concurrency = 1);
    bench.stuck = Some("handler");
    bench.schedule(SECOND, "x", None);
    bench.run_until(2 * SECOND, done);
    bench.node().close();
    bench.run_until(3 * SECOND, done);
    let calls = bench.next_call;
    bench.call(Write::Get { which: "nobody".into() });
    assert_eq!(bench.answers.last(), Some(&(calls + 1, Written::Listed(Vec::new()))));
    let (id, fence) = bench.stuck_runs[0];
    let now = Mono(bench.now);
    bench.node().ended(now, id, fence, RunEnd::Done);
    bench.turn();
    assert!(bench.closed);
}

#[test]
fn a_timer_that_runs_at_most_once_and_is_about_to_start_when_the_node_closes_is_given_back() {
    let mut bench = Bench::with(|settings| settings.handlers[0].at_most_once = true);
    bench.schedule(SECOND, "x", None);
    bench.run_until(SECOND - 6_000, done);
    bench.move_to(SECOND - 4_000);
    let now = Mono(bench.now);
    bench.node().turn(now);
    let outputs = bench.node().take_outputs();
    let starts = |output: &Output| match output {
        Output::Send { lane: Lane::Runner, requests } => {
            let starts = requests.iter().any(|request| matches!(request, Request::Start { .. }));
            starts.then(|| requests.clone())
        }
        _ => None,
    };
    let requests = outputs.iter().find_map(starts).expect("it is about to start");
    let committed = bench.store.transact(&requests);
    bench.node().close();
    bench.node().replied(Lane::Runner, now, committed);
    bench.turn();
    assert!(bench.closed && bench.launched.is_empty());
    bench.closed = false;
    bench.live();
    bench.run_until(2 * SECOND, done);
    assert_eq!(bench.texts(), ["x"]);
}

#[test]
fn a_run_whose_row_is_gone_and_that_is_given_up_is_not_taken_for_one_that_has_a_newer_run() {
    for series in [None, Some(Series::FixedDelay { delay: SECOND })] {
        let mut bench = Bench::with(|settings| settings.handlers[0].at_most_once = true);
        bench.stuck = Some("handler");
        bench.schedule(SECOND, "x", series);
        bench.run_until(2 * SECOND, done);
        bench.node().close();
        bench.node().abandon();
        bench.turn();
        assert!(bench.closed);
        let counts = bench.node().counts();
        assert_eq!((counts.stale, counts.in_flight), (0, 0));
    }
}
