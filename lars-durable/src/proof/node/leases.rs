//! What a node makes of the silence of another, and how soon it breaks its own.

use super::{Bench, SECOND, START, done};
use crate::engine::{LEAD, Lane, Output};
use crate::model::{NewTimer, NodeId, Which};
use crate::store::{Keep, Reply, Request, Store, StoreError, Terms, Write, Written};
use crate::sync::Arc;
use crate::time::{Micros, Mono, Timestamp};

pub(super) const OTHER: NodeId = 17;
const TERMS: Terms = Terms { lease: Micros::SECOND.times(3), window: Micros::SECOND.times(120) };

impl Bench {
    fn keep(&mut self, keep: Keep) -> Reply {
        let committed = self.store.transact(&[Request::Keep(keep)]).unwrap();
        committed.replies.into_iter().next().unwrap()
    }

    /// The bucket is the other node's from now on, and this one does not know that. Says in which
    /// epoch.
    pub(super) fn lose_bucket(&mut self) -> u32 {
        let (node, buckets) = (self.node().identity(), vec![0]);
        self.keep(Keep::Release { node, buckets: buckets.clone() });
        self.keep(Keep::Join { node: OTHER, serves: true, terms: TERMS });
        match self.keep(Keep::Claim { node: OTHER, dead: Vec::new(), buckets }) {
            Reply::Claimed(claimed) => claimed[0].1,
            reply => panic!("{reply:?}"),
        }
    }

    /// Whether the other node is still a member.
    fn has_other(&mut self) -> bool {
        // A renewal of a node that does not exist changes nothing.
        let Reply::Renewed(renewed) = self.keep(Keep::Renew { node: 0, report: None }) else {
            panic!("a renewal is answered by a renewal")
        };
        renewed.nodes.iter().any(|peer| peer.id == OTHER)
    }
}

#[test]
fn a_silence_begins_anew_with_each_attempt_of_its_witness_that_fails() {
    let mut bench = Bench::with(|settings| settings.lease.0 = 3 * SECOND);
    bench.keep(Keep::Join { node: OTHER, serves: true, terms: TERMS });
    bench.run_until(SECOND, done);
    // It fails for 1.2 s of each 2.5 s, and reaches the store in between.
    for round in 0..20 {
        let begin = SECOND + round * 2_500_000;
        bench.run_until(begin + 1_000_000, done);
        bench.away = true;
        bench.run_until(begin + 2_200_000, done);
        bench.away = false;
        bench.run_until(begin + 2_500_000, done);
        assert!(bench.has_other(), "buried in round {round}");
    }
    bench.run_until(bench.now + 4 * SECOND, done);
    assert!(!bench.has_other(), "a whole lease of silence is the end");
}

#[test]
fn a_node_renews_within_a_sixth_of_its_lease_once_it_can() {
    for tenths in 0..30 {
        let mut bench = Bench::with(|settings| settings.lease.0 = 3 * SECOND);
        bench.away = true;
        let back = 20 * SECOND + tenths * SECOND / 10;
        bench.run_until(back, done);
        bench.away = false;
        bench.run_until(back + SECOND / 2, done);
        assert!(bench.valid_until > back, "{tenths} tenths of a second later");
    }
}

#[test]
fn a_node_waits_for_the_lease_of_another_and_not_for_its_own() {
    for (own, others) in [(1, 20), (20, 1), (3, 3)] {
        let mut bench = Bench::with(|settings| settings.lease.0 = own * SECOND);
        let terms = Terms { lease: Micros(others * SECOND), ..TERMS };
        bench.run_until(SECOND / 2, done);
        let join = Keep::Join { node: OTHER, serves: true, terms };
        bench.keep(join.clone());
        // It lives until it has been seen, and is silent from then on.
        for _ in 0..70 {
            bench.run_until(bench.now + SECOND / 10, done);
            bench.keep(join.clone());
            bench.keep(Keep::Renew { node: OTHER, report: None });
        }
        let begin = bench.now;
        bench.run_until(begin + others * SECOND - 1, done);
        assert!(bench.has_other(), "{others} s beside {own} s: buried too early");
        bench.run_until(begin + others * SECOND * 4 / 3 + own * SECOND / 3 + 1, done);
        assert!(!bench.has_other(), "{others} s beside {own} s: not buried");
    }
}

#[test]
fn an_owner_is_told_of_what_is_due_within_its_own_window() {
    let mut bench = Bench::with(|settings| settings.handlers.clear());
    bench.run_until(SECOND, done);
    bench.keep(Keep::Join { node: OTHER, serves: true, terms: TERMS });
    bench.keep(Keep::Claim { node: OTHER, dead: Vec::new(), buckets: vec![0] });
    bench.run_until(20 * SECOND, done);
    let now = bench.now;
    bench.schedule(now + 60 * SECOND, "beyond the window of its maker", None);
    assert_eq!(bench.notified, 1);
    bench.schedule(now + 150 * SECOND, "beyond that of its owner", None);
    assert_eq!(bench.notified, 1);
}

#[test]
fn what_a_node_sends_again_after_it_has_lost_its_bucket_puts_nothing_off() {
    let mut bench = Bench::new();
    let unknown = NewTimer { handler: "unknown".into(), ..bench.timer(SECOND, "x", None) };
    bench.call(Write::Schedule(Arc::new(vec![unknown])));
    bench.run_until(SECOND - LEAD.0 - 1, done);
    // What it sends does not arrive, and is sent again when another node has the bucket, which can
    // perhaps run the timer.
    bench.stalled = true;
    bench.run_until(SECOND, done);
    bench.lose_bucket();
    bench.stalled = false;
    let now = Mono(bench.now);
    bench.node().replied(Lane::Runner, now, Err(StoreError::nothing_done("away")));
    bench.run_until(2 * SECOND, done);
    let which = Which::Key("key x 1000000".into());
    let get = Request::Write(Write::Get { which });
    let reply = bench.store.transact(&[get]).unwrap().replies.pop();
    let Some(Reply::Written(Written::Listed(timers))) = reply else { panic!("{reply:?}") };
    assert_eq!(timers[0].deadline, Timestamp(START + SECOND));
}

#[test]
fn a_renewal_that_was_under_way_takes_back_neither_a_pause_nor_a_resume_of_this_node() {
    for paused in [true, false] {
        let mut bench = Bench::with(|settings| settings.lease.0 = 30 * SECOND);
        let pause = |paused| Write::Pause { handler: "handler".into(), paused };
        bench.call(pause(!paused));
        // The store has carried the renewal out, and its answer comes after that to the call.
        bench.run_until(SECOND, done);
        let now = Mono(bench.now);
        bench.node().renew_soon(now);
        bench.node().turn(now);
        let sent = bench.node().take_outputs().into_iter().find_map(|output| match output {
            Output::Send { lane: Lane::Keeper, requests } => Some(requests),
            _ => None,
        });
        let renewed = bench.store.transact(&sent.unwrap());
        bench.call(pause(paused));
        bench.node().replied(Lane::Keeper, now, renewed);
        bench.schedule(2 * SECOND, "x", None);
        bench.run_until(3 * SECOND, done);
        assert_eq!(bench.seen.len(), usize::from(!paused), "{paused}");
        // What others say later counts.
        bench.store.transact(&[Request::Write(pause(!paused))]).unwrap();
        bench.run_until(40 * SECOND, done);
        bench.schedule(41 * SECOND, "y", None);
        bench.run_until(42 * SECOND, done);
        let last = bench.seen.last().map(|(text, ..)| text == "y");
        assert_eq!(last == Some(true), paused, "{paused}");
    }
}
