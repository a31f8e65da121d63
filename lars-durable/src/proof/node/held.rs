//! Calls about what another transaction holds, and those beside them.

use std::collections::BTreeMap;

use super::{Bench, SECOND, done};
use crate::model::{NewTimer, OnConflict, When};
use crate::store::{Write, Written};
use crate::sync::Arc;
use crate::time::Micros;

impl Bench {
    /// A call that makes timers with these keys, which are due much later.
    fn make<K: Into<Arc<str>>>(&mut self, keys: impl IntoIterator<Item = K>) -> u64 {
        let due = 3_600 * SECOND;
        let timer = |key: K| NewTimer {
            key: Some(key.into()),
            conflict: OnConflict::Keep,
            ..self.timer(due, "held", None)
        };
        let timers: Vec<NewTimer> = keys.into_iter().map(timer).collect();
        self.call(Write::Schedule(Arc::new(timers)));
        self.next_call
    }

    fn reset(&mut self, key: &str) -> u64 {
        self.call(Write::Reset { which: key.into(), when: When::After(Micros(3_600 * SECOND)) });
        self.next_call
    }

    fn cancel(&mut self, key: &str) -> u64 {
        self.call(Write::Cancel { which: key.into() });
        self.next_call
    }

    fn hold(&mut self, keys: impl IntoIterator<Item = String>) {
        self.held.extend(keys.into_iter().map(Arc::from));
    }

    fn has_answered(&self, call: u64) -> bool {
        self.answers.iter().any(|(of, _)| *of == call)
    }
}

fn names(what: &str, count: usize) -> impl Iterator<Item = String> + use<> {
    let what = what.to_owned();
    (0..count).map(move |number| format!("{what}/{number}"))
}

/// Nobody gives up meanwhile.
fn patient() -> Bench {
    Bench::with(|settings| settings.call_timeout = Micros(3_600 * SECOND))
}

#[test]
fn however_many_calls_wait_for_what_others_hold_the_others_have_every_second_batch() {
    let mut bench = patient();
    bench.hold(names("held", 3_000));
    let held: Vec<u64> = names("held", 3_000).map(|key| bench.make([key])).collect();
    bench.run_until(bench.now + SECOND, done);
    assert!(bench.answers.is_empty());
    for number in 0..10 {
        let other = bench.make([format!("other/{number}")]);
        let many = bench.make(names(&format!("many/{number}"), 900));
        bench.run_until(bench.now + SECOND / 100, done);
        assert!(bench.has_answered(other) && bench.has_answered(many), "round {number}");
    }
    bench.held.clear();
    bench.run_until(bench.now + SECOND, done);
    let answered: Vec<u64> = bench.answers.iter().map(|(call, _)| *call).collect();
    assert!(held.iter().all(|call| answered.contains(call)), "each has had its turn");
    assert_eq!(answered.len(), 3_020, "once");
}

#[test]
fn of_many_calls_about_what_others_hold_the_one_that_is_free_by_now_has_its_turn() {
    let mut bench = patient();
    bench.hold(names("held", 1_000));
    let held: Vec<u64> = names("held", 1_000).map(|key| bench.make([key])).collect();
    bench.run_until(bench.now + SECOND, done);
    for number in [999, 500, 0] {
        bench.held.remove(&*format!("held/{number}"));
        bench.run_until(bench.now + 3 * SECOND, done);
        assert!(bench.has_answered(held[number]), "{number}");
    }
    assert_eq!(bench.answers.len(), 3);
}

#[test]
fn calls_about_one_key_keep_their_order_when_it_is_held_and_after_that() {
    let mut bench = patient();
    bench.make(["moved"]);
    bench.hold(names("held", 500).chain(["moved".to_owned()]));
    for key in names("held", 500) {
        bench.make([key]);
    }
    let mut calls = Vec::new();
    for _ in 0..50 {
        calls.extend([bench.reset("moved"), bench.cancel("moved"), bench.make(["moved"])]);
        bench.run_until(bench.now + SECOND / 20, done);
    }
    bench.held.clear();
    bench.run_until(bench.now + SECOND, done);
    let answers: Vec<&(u64, Written)> =
        bench.answers.iter().filter(|(call, _)| calls.contains(call)).collect();
    let answered: Vec<u64> = answers.iter().map(|(call, _)| *call).collect();
    assert_eq!(answered, calls);
    for three in answers.chunks(3) {
        let did = [&three[0].1, &three[1].1, &three[2].1];
        assert!(
            matches!(
                did,
                [Written::Reset { .. }, Written::Prevented { .. }, Written::Scheduled(..)]
            ),
            "{did:?}"
        );
    }
}

#[test]
fn calls_about_several_keys_keep_their_order_about_each_whatever_is_held_when() {
    let mut rng = fastrand::Rng::with_seed(11);
    let mut bench = patient();
    let keys: Vec<String> = names("key", 100).collect();
    let mut about: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for _ in 0..20 {
        for _ in 0..200 {
            let count = if rng.u8(..4) == 0 { 4 } else { 1 };
            let of = rng.choose_multiple(&keys, count);
            let call = bench.make(of.iter().map(|key| key.as_str()));
            for key in of {
                about.entry(key).or_default().push(call);
            }
        }
        bench.held.clear();
        bench.hold(rng.choose_multiple(&keys, 50).into_iter().cloned());
        bench.run_until(bench.now + rng.i64(0..SECOND / 4), done);
    }
    bench.held.clear();
    bench.run_until(bench.now + 60 * SECOND, done);
    assert_eq!(bench.answers.len(), 4_000, "each once");
    for (key, calls) in about {
        let answers = bench.answers.iter().map(|(call, _)| *call);
        let answered: Vec<u64> = answers.filter(|call| calls.contains(call)).collect();
        assert_eq!(answered, calls, "about {key}");
    }
}
