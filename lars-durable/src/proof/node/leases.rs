//! What a node makes of the silence of another, and how soon it breaks its own.

use super::{Bench, SECOND, done};
use crate::model::NodeId;
use crate::store::{Keep, Reply, Request, Store};

const OTHER: NodeId = 17;

impl Bench {
    fn keep(&mut self, keep: Keep) -> Reply {
        let committed = self.store.transact(&[Request::Keep(keep)]).unwrap();
        committed.replies.into_iter().next().unwrap()
    }

    /// Whether the other node is still a member.
    fn has_other(&mut self) -> bool {
        // A renewal of a node that does not exist changes nothing.
        let Reply::Renewed(renewed) = self.keep(Keep::Renew { node: 0, report: None }) else {
            panic!("a renewal is answered by a renewal")
        };
        renewed.nodes.iter().any(|(node, ..)| *node == OTHER)
    }
}

#[test]
fn a_silence_begins_anew_with_each_attempt_of_its_witness_that_fails() {
    let mut bench = Bench::with(|settings| settings.lease.0 = 3 * SECOND);
    bench.keep(Keep::Join { node: OTHER, serves: true });
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
