//! What the engine says of runs that are launched late.

use std::cell::RefCell;

use lars_scheduler::late::Cause;

use super::*;
use crate::engine::Delay;

/// From when a run was late, when it was launched, and why.
type Told = (i64, i64, Vec<Delay>);

fn delay(cause: Cause, culprit: Option<&str>, time: i64) -> Delay {
    Delay { cause, culprit: culprit.map(Arc::from), time: Micros(time) }
}

impl Bench {
    fn explaining(change: impl FnOnce(&mut NodeSettings)) -> Self {
        Self::with(|settings| {
            settings.explains_late = true;
            change(settings);
        })
    }

    /// What is launched late until then.
    fn late_until(&mut self, time: i64) -> Vec<Told> {
        let told = RefCell::new(Vec::new());
        self.run_until(time, |launch| {
            let late = (launch.counts_from.0, launch.at.0, launch.delays.clone());
            told.borrow_mut().push(late);
            RunEnd::Done
        });
        told.into_inner()
    }
}

#[test]
fn a_node_that_was_not_turned_in_time_says_so() {
    let mut bench = Bench::explaining(|settings| settings.sole = true);
    bench.schedule(SECOND, "x", None);
    bench.run_until(SECOND / 2, done);
    bench.move_to(3 * SECOND);
    let timer = delay(Cause::Timer, None, 2 * SECOND);
    assert_eq!(bench.late_until(4 * SECOND), [(SECOND, 3 * SECOND, vec![timer])]);
}

#[test]
fn a_run_that_was_interrupted_had_no_owner_until_its_bucket_was_taken() {
    let mut bench = Bench::explaining(|_| ());
    bench.schedule(SECOND, "poison", None);
    bench.run_until(SECOND - 3_000, done);
    assert_eq!(bench.launched.len(), 1);
    bench.move_to(5 * SECOND);
    // It sees the dead node from here on, and takes its bucket after a lease.
    bench.live();
    let told = bench.late_until(60 * SECOND);
    let [(from, at, delays)] = &told[..] else { panic!("{told:?}") };
    let [Delay { cause: Cause::NoOwner, culprit: Some(dead), time }] = &delays[..] else {
        panic!("{delays:?}")
    };
    assert!(dead.starts_with("node "), "{dead}");
    assert_eq!((*from, time.0), (SECOND, at - 5 * SECOND), "before that it is not known");
}

#[test]
fn nobody_is_told_anything_without_a_wish() {
    let mut bench = Bench::new();
    bench.schedule(SECOND, "x", None);
    bench.run_until(SECOND / 2, done);
    bench.move_to(3 * SECOND);
    assert_eq!(bench.late_until(4 * SECOND), [(SECOND, 3 * SECOND, vec![])]);
}

#[test]
fn a_start_that_is_sent_again_waits_for_the_store_and_so_does_a_row_that_goes_first() {
    for at_most_once in [false, true] {
        let mut bench = Bench::explaining(|settings| {
            settings.sole = true;
            settings.handlers[0].at_most_once = at_most_once;
        });
        bench.schedule(SECOND, "x", None);
        bench.run_until(SECOND / 2, done);
        bench.loses = Some(Lane::Runner);
        let told = bench.late_until(9 * SECOND);
        let [(from, at, delays)] = &told[..] else { panic!("{told:?}") };
        assert_eq!((*from, &delays[..]), (SECOND, &[delay(Cause::Store, None, at - from)][..]));
    }
}
