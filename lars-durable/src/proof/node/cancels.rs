//! Runs that need not go on hear of it.

use super::{Bench, SECOND, done};
use crate::engine::{HandlerSettings, RunEnd};
use crate::model::{
    Act, CancelReason, Fence, NodeId, OnConflict, Select, States, TimerId, When, Which,
};
use crate::store::{Keep, Letters, Reply, Request, Store, Terms, Write, Written};
use crate::sync::Arc;
use crate::time::{Micros, Mono, Timestamp};

const OTHER: NodeId = 17;

impl Bench {
    /// A run of a timer of its own, which ends when the test says so. Its key is `key NAME 0`.
    fn begin(&mut self, name: &str) -> TimerId {
        self.stuck = Some("handler");
        self.schedule(0, name, None);
        self.run_until(self.now + SECOND / 10, done);
        let get = Write::Get { which: (&*format!("key {name} 0")).into() };
        let reply = self.store.transact(&[Request::Write(get)]).unwrap().replies.pop();
        let Some(Reply::Written(Written::Listed(listed))) = reply else { panic!("{reply:?}") };
        assert!(listed[0].running, "{listed:?}");
        listed[0].id
    }

    /// The token of its run.
    fn fence_of(&mut self, id: TimerId) -> Fence {
        let reply = self
            .store
            .transact(&[Request::Read { ids: vec![id], letters: Letters::default() }])
            .unwrap()
            .replies
            .pop();
        let Some(Reply::Loaded(rows)) = reply else { panic!("{reply:?}") };
        rows[0].fence.unwrap()
    }

    /// What somebody else asks of the store.
    fn elsewhere(&mut self, write: Write) {
        self.store.transact(&[Request::Write(write)]).unwrap();
    }

    fn why(&self, id: TimerId) -> Vec<CancelReason> {
        self.needless.iter().filter(|(of, ..)| *of == id).map(|(.., why)| *why).collect()
    }
}

fn cancel(name: &str) -> Write {
    Write::Cancel { which: (&*format!("key {name} 0")).into() }
}

#[test]
fn a_call_of_this_node_that_cancels_a_run_tells_it_at_once_and_once() {
    let mut bench = Bench::new();
    let ids = ["key", "id", "query", "replaced", "removed", "moved"].map(|it| bench.begin(it));
    let [key, id, query, replaced, removed, moved] = ids;
    bench.call(cancel("key"));
    bench.call(cancel("key"));
    bench.call(Write::Cancel { which: Which::Id(id) });
    let select = Arc::new(Select {
        handler: None,
        prefix: Some("key query".into()),
        tag: None,
        states: States::ALL,
        due: (Timestamp::MIN, Timestamp::NEVER),
        failed_with: None,
        after: None,
        limit: 10,
        scan: 10,
    });
    bench.call(Write::Select { select: Arc::clone(&select), act: Act::List });
    assert!(bench.why(query).is_empty(), "it was looked at");
    bench.call(Write::Select { select, act: Act::Cancel });
    let mut timer = bench.timer(0, "replaced", None);
    timer.conflict = OnConflict::Replace;
    bench.call(Write::Schedule(Arc::new(vec![timer])));
    bench.call(Write::Remove { key: "key removed 0".into(), but: None });
    let when = When::After(Micros::SECOND);
    bench.call(Write::Reset { which: "key moved 0".into(), when });
    for id in [key, id, query, replaced, removed] {
        assert_eq!(bench.why(id), [CancelReason::Cancelled]);
    }
    assert!(bench.why(moved).is_empty(), "that it cannot be moved does not matter to it");
    bench.run_until(bench.now + 20 * SECOND, done);
    assert_eq!(bench.needless.len(), 5, "{:?}", bench.needless);
}

#[test]
fn a_run_that_somebody_else_cancels_hears_of_it_with_a_sweep_or_when_its_node_is_told() {
    let mut bench = Bench::new();
    let ids = ["swept", "told", "gone", "goes on"].map(|it| bench.begin(it));
    let [swept, told, gone, goes_on] = ids;
    let begin = bench.now;
    bench.elsewhere(cancel("told"));
    bench.node().notified([(0, told)]);
    bench.turn();
    assert_eq!(bench.needless, [(told, begin, CancelReason::Cancelled)]);
    bench.elsewhere(cancel("swept"));
    bench.elsewhere(Write::Remove { key: "key gone 0".into(), but: None });
    bench.run_until(begin + 3 * SECOND, done);
    assert_eq!(bench.why(swept), [CancelReason::Cancelled]);
    assert_eq!(bench.why(gone), [CancelReason::Cancelled]);
    assert!(bench.why(goes_on).is_empty());
}

/// A sweep looks at a bounded number of them.
#[test]
fn of_more_runs_than_a_sweep_looks_at_each_has_its_turn() {
    let mut bench = Bench::with(|settings| settings.batch = 3);
    let ids: Vec<TimerId> = (0..10).map(|number| bench.begin(&number.to_string())).collect();
    for number in 0..10 {
        bench.elsewhere(cancel(&number.to_string()));
    }
    bench.run_until(bench.now + 12 * SECOND, done);
    for id in ids {
        assert_eq!(bench.why(id), [CancelReason::Cancelled]);
    }
}

#[test]
fn a_run_that_is_tried_again_after_its_timer_was_cancelled_has_it_from_its_beginning() {
    let mut bench = Bench::new();
    let id = bench.begin("fails");
    bench.call(cancel("fails"));
    let fence = bench.fence_of(id);
    bench.stuck = None;
    let (now, end) = (Mono(bench.now), RunEnd::Retry { error: "error".into() });
    bench.node().ended(now, id, fence, end);
    let told = std::cell::Cell::new(None);
    bench.run_until(bench.now + SECOND, |launch| {
        told.set(launch.told);
        RunEnd::Done
    });
    assert_eq!((told.get(), bench.why(id).len()), (Some(CancelReason::Cancelled), 1));
}

#[test]
fn runs_hear_that_the_lease_has_ended_and_a_renewal_that_comes_in_time_tells_nobody() {
    let mut bench = Bench::with(|settings| settings.lease.0 = 10 * SECOND);
    let id = bench.begin("runs");
    bench.run_until(60 * SECOND, done);
    assert!(bench.needless.is_empty());
    bench.away = true;
    let valid_until = bench.valid_until;
    bench.run_until(100 * SECOND, done);
    assert_eq!(
        bench.needless,
        [(id, valid_until, CancelReason::LeaseLost)],
        "at its end, and once"
    );
    bench.away = false;
    bench.run_until(120 * SECOND, done);
    let later = bench.begin("later");
    bench.run_until(180 * SECOND, done);
    assert!(bench.why(later).is_empty(), "the lease holds again");
}

#[test]
fn runs_of_a_node_that_was_declared_dead_and_of_buckets_that_it_has_lost_hear_of_it() {
    for buried in [true, false] {
        let mut bench = Bench::new();
        let id = bench.begin("runs");
        let node = bench.node().identity();
        let mut keep = |keep| drop(bench.store.transact(&[Request::Keep(keep)]).unwrap());
        if buried {
            keep(Keep::Leave { node });
        } else {
            keep(Keep::Release { node, buckets: vec![0] });
            let terms = Terms { lease: Micros::DAY, window: Micros::SECOND };
            keep(Keep::Join { node: OTHER, serves: true, terms });
            keep(Keep::Claim { node: OTHER, dead: Vec::new(), buckets: vec![0] });
        }
        bench.run_until(bench.now + 20 * SECOND, done);
        assert_eq!(bench.why(id), [CancelReason::LeaseLost], "buried: {buried}");
    }
}

#[test]
fn nobody_else_can_have_what_runs_at_most_once() {
    let mut bench = Bench::with(|settings| {
        settings.lease.0 = 10 * SECOND;
        let handler = settings.handlers.pop().unwrap();
        settings.handlers = vec![HandlerSettings { at_most_once: true, ..handler }];
    });
    bench.stuck = Some("handler");
    bench.schedule(0, "once", None);
    bench.run_until(SECOND, done);
    assert_eq!(bench.node().counts().in_flight, 1);
    bench.call(cancel("once"));
    bench.run_until(10 * SECOND, done);
    bench.away = true;
    bench.run_until(60 * SECOND, done);
    assert!(bench.needless.is_empty(), "{:?}", bench.needless);
}
