//! Series that end by themselves.

use super::*;
use crate::model::{End, MissedTick, Series};

/// A series of so many seconds with this end, declared under one key.
fn ending(bench: &mut Bench, seconds: i64, end: End) -> NewTimer {
    let rule = Series::FixedRate { every: seconds * SECOND, missed: MissedTick::Skip };
    let series = Some(rule.with_end(end).to_text().into());
    NewTimer { series, conflict: OnConflict::Update, ..bench.keyed(seconds * SECOND, "key") }
}

fn until(seconds: i64) -> End {
    End { until: Some(START + seconds * SECOND), times: None }
}

fn times(times: u64) -> End {
    End { until: None, times: Some(times) }
}

fn declare(bench: &mut Bench, seconds: i64, end: End) -> Placed {
    let timer = ending(bench, seconds, end);
    bench.schedule(vec![timer]).remove(0)
}

#[test]
fn of_a_series_that_ends_before_its_first_run_no_timer_is_made_and_its_key_is_free() {
    for_each_store(|bench| {
        let over = declare(bench, 10, until(9));
        assert_eq!((over.id, over.how, over.due), (0, How::Kept, Timestamp::NEVER));
        assert!(bench.ids().is_empty());
        let keyless = NewTimer { key: None, ..ending(bench, 10, until(9)) };
        let batch = Request::Batch { writer: 5, token: 1, history: None };
        let schedule = Request::Write(Write::Schedule(Arc::new(vec![keyless])));
        for _ in 0..2 {
            let replies = bench.ask(&[batch.clone(), schedule.clone()]);
            let Reply::Written(Written::Scheduled(placed)) = &replies[1] else { panic!() };
            assert_eq!((placed[0].id, placed[0].how), (0, How::Kept), "repeated or not");
        }
        // Exactly then is not behind the end.
        let made = declare(bench, 10, until(10));
        assert_eq!((made.how, bench.ids()), (How::New, vec![made.id]));
        let fail = NewTimer { conflict: OnConflict::Fail, ..ending(bench, 10, until(9)) };
        let refused = bench.write(Write::Schedule(Arc::new(vec![fail])));
        assert_eq!(refused, Written::KeyTaken("key".into()));
        let keep = NewTimer { conflict: OnConflict::Keep, ..ending(bench, 10, until(9)) };
        assert_eq!(bench.schedule(vec![keep])[0].id, made.id);
        // In one batch: the one is made, and the other one calls it off.
        let replace = |end| NewTimer { conflict: OnConflict::Replace, ..end };
        let (one, two) = (ending(bench, 10, until(20)), ending(bench, 10, until(9)));
        let both = bench.schedule(vec![replace(one), replace(two)]);
        assert_eq!((both[1].id, both[1].how), (0, How::Replaced { started: None }));
        assert!(bench.ids().is_empty());
        let free = bench.keyed(SECOND, "key");
        assert_eq!(bench.schedule(vec![free])[0].how, How::New);
    });
}

#[test]
fn another_end_leaves_the_next_run_where_it_is_unless_that_is_behind_it() {
    for_each_store(|bench| {
        let made = declare(bench, 10, until(100));
        bench.later(5 * SECOND);
        for end in [until(50), times(7), End::default(), until(100)] {
            let changed = declare(bench, 10, end);
            assert_eq!((changed.id, changed.due), (made.id, made.due), "{end:?}");
            assert_eq!(changed.how, How::Updated { was_due: made.due });
        }
        assert_eq!(declare(bench, 10, until(100)).how, How::Kept);
        // The run at 10 s is behind the end; the new first one is, too.
        let over = declare(bench, 10, until(9));
        assert_eq!((over.id, over.how), (0, How::Replaced { started: None }));
        assert!(bench.ids().is_empty());
    });
}

#[test]
fn what_is_owed_stays_although_the_end_has_passed() {
    for_each_store(|bench| {
        let made = declare(bench, 10, until(100));
        bench.later(20 * SECOND);
        let overdue = declare(bench, 10, until(15));
        assert_eq!((overdue.id, overdue.due), (made.id, made.due));
        let (row, fence) = bench.start(made.id);
        assert_eq!(row.after_success(bench.now()), Then::Done, "it was the last");
        assert_eq!(declare(bench, 10, until(14)).id, made.id, "it is under way");
        assert_eq!(bench.finish(made.id, fence, Then::Done), Finished::Gone);
    });
}

#[test]
fn a_run_that_is_left_out_is_not_counted_and_one_that_is_parked_is() {
    for_each_store(|bench| {
        bench.one(Request::Ids { count: 1_000 });
        let id = declare(bench, 1, times(3)).id;
        let listed = |bench: &mut Bench| match bench.write(Write::Get { which: Which::Id(id) }) {
            Written::Listed(timers) => timers[0].run,
            other => panic!("{other:?}"),
        };
        let (when, offset) = (When::After(Micros::SECOND), Micros(7));
        let reason = || "reason".to_owned();
        for (then, runs) in [
            (Then::LeftOut { when, offset }, 0),
            (Then::Next { when, offset }, 1),
            (Then::LeftOut { when, offset }, 1),
            (Then::ParkRun { reason: reason(), when, offset }, 2),
        ] {
            bench.later(2 * SECOND);
            let (row, fence) = bench.start(id);
            let due = bench.now() + Micros(SECOND + 7);
            assert_eq!(bench.finish(id, fence, then.clone()), Finished::Again { due });
            assert_eq!((listed(bench), row.attempt), (runs, 1), "{then:?}");
        }
        bench.later(2 * SECOND);
        let (row, fence) = bench.start(id);
        assert_eq!(row.after_success(bench.now()), Then::Done, "two are over, and this is one");
        assert!(matches!(row.after_left_out(bench.now()), Then::LeftOut { .. }));
        // One that was cancelled meanwhile is over.
        bench.write(Write::Cancel { which: Which::Id(id) });
        assert_eq!(bench.finish(id, fence, Then::LeftOut { when, offset }), Finished::Gone);
    });
}

#[test]
fn a_series_that_its_handler_has_ended_is_over_and_its_next_run_hears_of_no_cancel() {
    for_each_store(|bench| {
        let end = |id| Write::EndSeries { id };
        let made = declare(bench, 1, End::default());
        let prevented = Written::Prevented { id: made.id, due: made.due };
        assert_eq!(bench.write(end(made.id)), prevented, "nothing of it runs");
        assert_eq!(bench.write(end(made.id)), Written::NotFound);

        let id = declare(bench, 1, End::default()).id;
        bench.later(SECOND);
        let (_, fence) = bench.start(id);
        assert_eq!(bench.write(end(id)), Written::Running { id, bucket: 0 });
        let cancelled = |bench: &mut Bench| match bench
            .one(Request::Read { ids: vec![id], letters: Letters::default() })
        {
            Reply::Loaded(rows) => rows[0].cancelled,
            other => panic!("{other:?}"),
        };
        assert!(!cancelled(bench));
        bench.write(Write::Cancel { which: Which::Id(id) });
        let both = [id, id].map(|id| Request::Write(end(id)));
        bench.ask(&both);
        assert!(cancelled(bench), "and one that was cancelled stays so");
        let (when, offset) = (When::After(Micros::SECOND), Micros::ZERO);
        assert_eq!(bench.finish(id, fence, Then::Next { when, offset }), Finished::Gone);
    });
}

#[test]
fn whether_a_fixed_delay_goes_on_is_decided_by_when_the_end_of_its_run_is_recorded() {
    let reason = || "reason".to_owned();
    for_each_store(|bench| {
        bench.one(Request::Ids { count: 1_000 });
        // The run ends at 10 s, and the next one is planned for 10 s after the record of that.
        for (recorded, parks) in [(5, false), (6, false), (5, true), (6, true)] {
            let begun = bench.now();
            let end = End { until: Some((begun + Micros(25 * SECOND)).0), times: None };
            let rule = Series::FixedDelay { delay: 10 * SECOND }.with_end(end);
            let series = Some(rule.to_text().into());
            let timer = NewTimer { series, ..bench.keyed(0, "key") };
            let id = bench.schedule(vec![timer])[0].id;
            let (row, fence) = bench.start(id);
            bench.later(10 * SECOND);
            let then = match row.after_success(bench.now()) {
                Then::Next { when, offset } if parks => {
                    Then::ParkRun { reason: reason(), when, offset }
                }
                then => then,
            };
            // The store was away meanwhile.
            bench.later(recorded * SECOND);
            let due = bench.now() + Micros(10 * SECOND);
            let expected = match (recorded, parks) {
                (5, _) => Finished::Again { due },
                (_, false) => Finished::Gone,
                (_, true) => Finished::Parked,
            };
            assert_eq!(bench.finish(id, fence, then), expected, "{recorded} s, parks: {parks}");
            let goes_on = bench.ids() == [id];
            assert_eq!(goes_on, recorded == 5, "the end itself is not behind the end");
            bench.write(Write::Cancel { which: Which::Id(id) });
        }
        let runs: Vec<i64> = bench.parked(0, 9).0.iter().map(|parked| parked.run).collect();
        assert_eq!(runs, [0, 0]);
    });
}
