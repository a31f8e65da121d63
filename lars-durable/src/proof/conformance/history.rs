//! Runs that are over are remembered, shown, and deleted.

use super::*;
use crate::model::{RunOutcome, RunPlace};
use crate::time::Timestamp;

/// A run of the timer with this identity.
pub(super) fn ran(timer: TimerId, fence: Fence, ended: Timestamp) -> Ran {
    Ran {
        timer,
        fence,
        key: (timer % 2 == 0).then(|| "key".to_owned()),
        handler: if timer % 3 == 0 { "handler" } else { "other" }.into(),
        node: "node".into(),
        run: 7,
        attempt: 2,
        planned: Timestamp(START),
        began: Timestamp(START + 1),
        ended,
        outcome: RunOutcome::ALL[timer.unsigned_abs() as usize % RunOutcome::ALL.len()],
        error: (timer % 2 == 1).then(|| "an error".to_owned()),
    }
}

fn all() -> RunsSelect {
    RunsSelect { timer: None, handler: None, before: None, limit: 100, scan: 100 }
}

fn page(bench: &mut Bench, select: &RunsSelect) -> (Vec<Ran>, Option<RunPlace>) {
    match bench.write(Write::Runs { select: Arc::new(select.clone()) }) {
        Written::Runs(runs, next) => (runs, next),
        other => panic!("{other:?}"),
    }
}

/// All pages of it.
fn walk(bench: &mut Bench, select: &RunsSelect) -> Vec<Ran> {
    let (mut select, mut found) = (select.clone(), Vec::new());
    loop {
        let (runs, next) = page(bench, &select);
        assert!(runs.len() <= select.limit);
        found.extend(runs);
        if next.is_none() {
            return found;
        }
        select.before = next;
    }
}

#[test]
fn runs_that_are_over_are_shown_as_they_were_recorded_the_last_one_first() {
    for_each_store(|bench| {
        assert_eq!(page(bench, &all()), (Vec::new(), None));
        // Two in each instant, and three of each timer.
        let at = |n: i64| Timestamp(START + n / 2 * SECOND);
        let runs: Vec<Ran> =
            (0..30).map(|n| ran(1 + n % 10, Fence::new(1, n as u32), at(n))).collect();
        let (first, rest) = runs.split_at(7);
        assert_eq!(bench.one(Request::Record(first.to_vec())), Reply::Recorded);
        bench.one(Request::Record(rest.to_vec()));
        // The answer was lost, and it is sent again.
        bench.one(Request::Record(rest.to_vec()));
        let mut expected = runs.clone();
        expected.sort_by_key(|ran| std::cmp::Reverse(ran.place()));
        for (limit, scan) in [(100, 100), (1, 100), (7, 3), (3, 7)] {
            assert_eq!(walk(bench, &RunsSelect { limit, scan, ..all() }), expected);
            let handler = Some("handler".into());
            let of_handler: Vec<Ran> =
                expected.iter().filter(|ran| &*ran.handler == "handler").cloned().collect();
            let select = RunsSelect { handler, limit, scan, ..all() };
            assert_eq!(walk(bench, &select), of_handler);
            let timer = Some(4);
            let of_timer: Vec<Ran> =
                expected.iter().filter(|ran| ran.timer == 4).cloned().collect();
            assert_eq!(of_timer.len(), 3);
            assert_eq!(walk(bench, &RunsSelect { timer, limit, scan, ..all() }), of_timer);
        }
    });
}

#[test]
fn of_the_history_the_oldest_beyond_a_number_and_an_age_are_deleted_a_few_at_a_time() {
    for_each_store(|bench| {
        let runs = (0..10).map(|n| ran(n, Fence::new(1, 1), Timestamp(START + n * SECOND)));
        bench.one(Request::Record(runs.collect()));
        bench.later(10 * SECOND);
        let prune = |bench: &mut Bench, most, age: Option<i64>, limit| {
            let kept = Kept { most, age: age.map(Micros) };
            let pruned = bench.one(Request::Prune { old: Old::Runs, kept, limit });
            let left = walk(bench, &all()).last().map(|ran| ran.timer);
            (pruned, left)
        };
        let pruned = |count, left| (Reply::Pruned(count), left);
        assert_eq!(prune(bench, Some(10), Some(10 * SECOND), 9), pruned(0, Some(0)));
        assert_eq!(prune(bench, Some(7), None, 2), pruned(2, Some(2)));
        assert_eq!(prune(bench, Some(7), Some(6 * SECOND), 9), pruned(2, Some(4)));
        assert_eq!(prune(bench, Some(1), Some(i64::MAX), 9), pruned(5, Some(9)));
        assert_eq!(prune(bench, None, Some(0), 9), pruned(1, None));
    });
}
