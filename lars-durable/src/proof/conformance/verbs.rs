//! What each verb promises.

use std::collections::BTreeSet;

use super::*;
use crate::model::{MissedTick, Series};

#[test]
fn what_is_scheduled_is_loaded_in_the_order_of_due_and_identity_by_pages() {
    for count in [1, 7, 1_000] {
        for_each_store(|bench| {
            let mut timers: Vec<NewTimer> =
                (0..count).map(|number| bench.timer(SECOND * (number % 5))).collect();
            fastrand::Rng::with_seed(count as u64).shuffle(&mut timers);
            let mut expected: Vec<(i64, TimerId)> = timers
                .iter()
                .map(|timer| (START + SECOND * ((timer.id - 1) % 5), timer.id))
                .collect();
            expected.sort_unstable();
            bench.schedule(timers);
            let (mut after, mut seen) = (FAR, Vec::new());
            loop {
                let load = Request::Load {
                    bucket: 0,
                    after,
                    until: Timestamp::NEVER,
                    limit: 7,
                    letters: Letters::default(),
                };
                let Reply::Loaded(rows) = bench.one(load) else { panic!() };
                let Some(last) = rows.last() else { break };
                after = (last.due, last.id);
                seen.extend(rows.iter().map(|row| (row.due.0, row.id)));
            }
            assert_eq!(seen, expected);
            let until = Timestamp(START + SECOND);
            let first = expected.iter().filter(|(due, _)| *due < until.0).count();
            assert_eq!(bench.load(FAR, until, usize::MAX).len(), first, "`until` is excluded");
        });
    }
}

#[test]
fn of_the_handlers_that_are_asked_for_timers_come_with_the_beginnings_of_their_payloads() {
    for_each_store(|bench| {
        let long: Arc<str> = "\u{fc}".repeat(3_000).into();
        let of = |bench: &mut Bench, handler: &str, payload: &Arc<str>| NewTimer {
            handler: handler.into(),
            payload: Arc::clone(payload),
            ..bench.timer(SECOND)
        };
        let timers = [("a", &long), ("it's", &"{}".into()), ("c", &long)]
            .map(|(handler, payload)| of(bench, handler, payload));
        let ids: Vec<TimerId> = bench.schedule(timers.to_vec()).iter().map(|it| it.id).collect();
        for names in [&["a", "it's", "x\"y"][..], &[]] {
            let letters: Letters = names.iter().map(|name| Arc::from(*name)).collect();
            let (after, until, limit) = (FAR, Timestamp::NEVER, 9);
            let here = Arc::clone(&letters);
            let load = Request::Load { bucket: 0, after, until, limit, letters: here };
            for asked in [load, Request::Read { ids: ids.clone(), letters }] {
                let Reply::Loaded(rows) = bench.one(asked) else { panic!() };
                let found: Vec<_> = rows.iter().map(|row| row.letter.as_deref()).collect();
                let expected = [Some(&long[..2 * 2_048]), Some("{}"), None];
                let expected = if names.is_empty() { [None; 3] } else { expected };
                assert_eq!(found, expected);
            }
        }
    });
}

#[test]
fn a_batch_that_is_repeated_is_not_carried_out_again() {
    for_each_store(|bench| {
        let batch = |token| Request::Batch { writer: 5, token, history: None };
        let write = Request::Write;
        let timers = vec![bench.timer(SECOND), bench.keyed(SECOND, "key"), bench.timer(0)];
        let schedule = write(Write::Schedule(Arc::new(timers.clone())));
        let first = bench.ask(&[batch(1), schedule.clone()]);
        // One of them runs before the repetition comes.
        let (_, fence) = bench.start(timers[2].id);
        bench.finish(timers[2].id, fence, Then::Done);
        bench.later(SECOND / 2);
        let Reply::Written(Written::Scheduled(before)) = &first[1] else { panic!() };
        let again = bench.ask(&[batch(1), schedule.clone()]);
        let Reply::Written(Written::Scheduled(after)) = &again[1] else { panic!() };
        assert_eq!(after[..2], before[..2]);
        assert_eq!((after[2].id, after[2].due), (timers[2].id, Timestamp::NEVER));
        assert_eq!(bench.ids(), [timers[0].id, timers[1].id], "and it was not made again");

        let cancel = write(Write::Cancel { which: "key".into() });
        let first = bench.ask(&[batch(2), cancel.clone()]);
        assert!(matches!(first[1], Reply::Written(Written::Prevented { .. })));
        let again = bench.ask(&[batch(2), cancel.clone(), schedule]);
        let unsure = Reply::Written(Written::Unsure);
        assert_eq!(again[1..], [unsure.clone(), unsure], "what it did is not known any more");
        let next = bench.ask(&[batch(3), cancel]);
        assert_eq!(next[1], Reply::Written(Written::NotFound), "another batch is carried out");
    });
}

#[test]
fn the_second_timer_of_a_key_is_kept_out_replaces_the_first_or_is_refused_by_name() {
    for_each_store(|bench| {
        let first = bench.keyed(SECOND, "key");
        let first = bench.schedule(vec![first])[0].id;
        let kept = bench.keyed(5 * SECOND, "key");
        let kept = bench.schedule(vec![kept]).pop().unwrap();
        assert_eq!((kept.id, kept.due.0), (first, START + SECOND));

        let mut other = bench.keyed(5 * SECOND, "key");
        other.conflict = OnConflict::Fail;
        let alone = bench.timer(0);
        let refused = bench.write(Write::Schedule(Arc::new(vec![alone, other.clone()])));
        assert_eq!(refused, Written::KeyTaken("key".into()));
        assert_eq!(bench.ids(), [first], "none of the batch was made");

        other.conflict = OnConflict::Replace;
        let replaced = bench.schedule(vec![other]).pop().unwrap();
        assert_eq!(bench.ids(), [replaced.id]);
        assert_eq!(replaced.due.0, START + 5 * SECOND);
    });
}

#[test]
fn a_batch_that_takes_a_key_twice_and_asks_to_fail_is_refused_whole() {
    for_each_store(|bench| {
        let mut timers = vec![bench.keyed(0, "key"), bench.keyed(0, "key")];
        timers[1].conflict = OnConflict::Fail;
        let refused = bench.write(Write::Schedule(Arc::new(timers)));
        assert_eq!(refused, Written::KeyTaken("key".into()));
        assert!(bench.ids().is_empty());
    });
}

#[test]
fn a_key_of_the_longest_length_in_any_script_is_found_again() {
    for_each_store(|bench| {
        let key = "ключ🔑".repeat(42);
        assert!(key.len() <= 512 && key.len() > 500);
        let timer = bench.keyed(SECOND, &key);
        let id = bench.schedule(vec![timer])[0].id;
        let Written::Prevented { id: cancelled, .. } =
            bench.write(Write::Cancel { which: key.as_str().into() })
        else {
            panic!()
        };
        assert_eq!(cancelled, id);
    });
}

#[test]
fn a_used_key_stays_taken_as_long_as_it_is_remembered() {
    for_each_store(|bench| {
        let mut timer = bench.keyed(0, "key");
        timer.remember = Micros(10 * SECOND);
        let id = bench.schedule(vec![timer])[0].id;
        let (_, fence) = bench.start(id);
        assert_eq!(bench.finish(id, fence, Then::Done), Finished::Gone);

        bench.later(9 * SECOND);
        assert_eq!(bench.one(Request::Forget { limit: 9 }), Reply::Forgotten(0));
        let again = bench.keyed(0, "key");
        assert_eq!(bench.schedule(vec![again])[0].id, 0, "kept, although there is no timer");
        bench.later(2 * SECOND);
        assert_eq!(bench.one(Request::Forget { limit: 9 }), Reply::Forgotten(1));
        let again = bench.keyed(0, "key");
        assert_ne!(bench.schedule(vec![again])[0].id, 0);
    });
}

#[test]
fn however_many_keys_are_to_be_forgotten_no_more_than_asked_are_at_once_and_all_in_the_end() {
    for_each_store(|bench| {
        for number in 0..7 {
            let remember = Micros(SECOND * if number < 5 { 1 } else { 100 });
            let timer = NewTimer { remember, ..bench.keyed(0, &format!("key/{number}")) };
            let id = bench.schedule(vec![timer])[0].id;
            let (_, fence) = bench.start(id);
            bench.finish(id, fence, Then::Done);
        }
        bench.later(2 * SECOND);
        for count in [2, 2, 1, 0] {
            assert_eq!(bench.one(Request::Forget { limit: 2 }), Reply::Forgotten(count));
        }
        let kept = bench.keyed(0, "key/6");
        assert_eq!(bench.schedule(vec![kept])[0].id, 0, "its time is not over");
    });
}

#[test]
fn a_time_beyond_the_range_never_comes_due() {
    for_each_store(|bench| {
        let never = NewTimer { when: When::After(Micros(i64::MAX)), ..bench.timer(0) };
        let at = NewTimer { when: When::At(Timestamp::NEVER), ..bench.timer(0) };
        let placed = bench.schedule(vec![never, at]);
        assert!(placed.iter().all(|placed| placed.due == Timestamp::NEVER));
        bench.later(SECOND * 1_000_000_000);
        assert!(bench.ids().is_empty());
        let fence = bench.fence();
        assert_eq!(bench.start_with(placed[0].id, fence), None);
    });
}

#[test]
fn a_start_gives_the_row_counts_the_attempt_and_can_be_repeated() {
    for_each_store(|bench| {
        let timer = NewTimer { series: Some("rule".into()), ..bench.keyed(SECOND, "key") };
        let id = bench.schedule(vec![timer.clone()])[0].id;
        let early = bench.fence();
        assert_eq!(bench.start_with(id, early), None, "its time has not come");
        bench.later(SECOND);
        let fence = bench.fence();
        let row = bench.start_with(id, fence).unwrap();
        let expected = Row {
            id,
            handler: timer.handler,
            payload_version: 3,
            payload: timer.payload.to_string(),
            key: Some("key".into()),
            deadline: Timestamp(START + SECOND),
            planned: Timestamp(START + SECOND),
            attempt: 1,
            deaths: 0,
            series: Some("rule".into()),
            store: row.store,
            origin: id,
            run: 0,
            unknown_since: None,
            cancelled: false,
        };
        assert_ne!(row.store, 0, "it is random");
        assert_eq!(row, expected);
        assert_eq!(bench.start_with(id, fence), Some(expected), "repeated, and not counted twice");
        let second = bench.fence();
        assert_eq!(bench.start_with(id, second), None, "it is started");
    });
}

#[test]
fn nobody_but_the_owner_of_the_bucket_in_its_epoch_starts_anything() {
    for_each_store(|bench| {
        let id = bench.make(0);
        let old = Fence::new(bench.epoch - 1, 1_000);
        assert_eq!(bench.start_with(id, old), None);
        let future = Fence::new(bench.epoch + 1, 1);
        assert_eq!(bench.start_with(id, future), None);
        let release = Keep::Release { node: NODE, buckets: vec![0] };
        bench.one(Request::Keep(release));
        let fence = bench.fence();
        assert_eq!(bench.start_with(id, fence), None);
        assert_eq!(bench.ids(), [id]);
    });
}

#[test]
fn a_finish_with_another_fence_changes_nothing() {
    for_each_store(|bench| {
        let all = [
            Then::Done,
            Then::Next { when: When::After(Micros::SECOND), offset: Micros::ZERO },
            Then::Retry { after: Micros::SECOND, error: "error".into() },
            Then::GiveBack { after: Micros::ZERO, ran: false },
            Then::Park { reason: "reason".into() },
        ];
        let id = bench.make(0);
        for then in all.clone() {
            let fence = bench.fence();
            assert_eq!(bench.finish(id, fence, then), Finished::Stale, "it is not started");
        }
        let (_, fence) = bench.start(id);
        for then in all {
            let other = Fence(fence.0 - 1);
            assert_eq!(bench.finish(id, other, then), Finished::Stale);
        }
        assert_eq!(bench.finish(id, fence, Then::Done), Finished::Gone);
        assert_eq!(bench.finish(id, fence, Then::Done), Finished::Stale, "repeated: it is done");
    });
}

#[test]
fn a_retry_waits_keeps_what_it_was_planned_for_and_says_why() {
    for_each_store(|bench| {
        let timer = bench.keyed(0, "key");
        let id = bench.schedule(vec![timer])[0].id;
        let (_, fence) = bench.start(id);
        let retry = Then::Retry { after: Micros::SECOND, error: "no route".into() };
        let due = Timestamp(START + SECOND);
        assert_eq!(bench.finish(id, fence, retry), Finished::Again { due });
        let Written::Listed(timers) = bench.write(Write::Get { which: "key".into() }) else {
            panic!()
        };
        assert_eq!(timers[0].last_error.as_deref(), Some("no route"));
        assert_eq!((timers[0].deadline, timers[0].running), (due, false));
        bench.later(SECOND);
        let (row, _) = bench.start(id);
        assert_eq!((row.attempt, row.planned, row.deadline), (2, Timestamp(START), due));
    });
}

#[test]
fn the_next_run_of_a_series_begins_with_its_first_attempt() {
    for_each_store(|bench| {
        let timer = NewTimer { series: Some("rule".into()), ..bench.keyed(0, "key") };
        let id = bench.schedule(vec![timer])[0].id;
        let (_, fence) = bench.start(id);
        bench.finish(id, fence, Then::Retry { after: Micros::ZERO, error: "error".into() });
        let (_, fence) = bench.start(id);
        let planned = Timestamp(START + SECOND);
        let next = Then::Next { when: When::At(planned), offset: Micros(100) };
        let due = Timestamp(planned.0 + 100);
        assert_eq!(bench.finish(id, fence, next), Finished::Again { due });
        bench.later(2 * SECOND);
        let (row, fence) = bench.start(id);
        assert_eq!((row.attempt, row.planned, row.deadline), (1, planned, due));

        assert_eq!(
            bench.write(Write::Cancel { which: "key".into() }),
            Written::Running { id, bucket: 0 }
        );
        let next = Then::Next { when: When::After(Micros::SECOND), offset: Micros::ZERO };
        assert_eq!(bench.finish(id, fence, next), Finished::Gone, "that run was the last");
        assert!(bench.ids().is_empty());
    });
}

#[test]
fn a_run_that_is_given_back_has_not_happened() {
    for_each_store(|bench| {
        let id = bench.make(0);
        let (_, fence) = bench.start(id);
        let due = Timestamp(START + SECOND);
        let back = Then::GiveBack { after: Micros::SECOND, ran: false };
        assert_eq!(bench.finish(id, fence, back), Finished::Again { due });
        bench.later(SECOND);
        let (row, _) = bench.start(id);
        assert_eq!((row.attempt, row.deaths), (1, 0));
    });
}

#[test]
fn a_death_is_forgotten_by_a_run_that_was_put_off_by_its_handler_and_not_by_one_that_was_not_run() {
    for_each_store(|bench| {
        let id = bench.make(0);
        bench.start(id);
        for (ran, deaths) in [(false, 1), (true, 0)] {
            bench.next_owner();
            let (row, fence) = bench.start(id);
            let attempt = row.attempt;
            assert_eq!(row.deaths, 1);
            let back = Then::GiveBack { after: Micros::ZERO, ran };
            assert_eq!(bench.finish(id, fence, back), Finished::Again { due: bench.now() });
            let (row, fence) = bench.start(id);
            assert_eq!((row.attempt, row.deaths), (attempt, deaths));
            bench.finish(id, fence, Then::GiveBack { after: Micros::ZERO, ran: true });
            bench.start(id);
        }
    });
}

#[test]
fn a_cancel_prevents_exactly_what_has_not_started() {
    for_each_store(|bench| {
        let waits = bench.keyed(SECOND, "waits");
        let runs = bench.keyed(0, "runs");
        let placed = bench.schedule(vec![waits, runs]);
        let (_, fence) = bench.start(placed[1].id);
        let cancel = |key: &str| Write::Cancel { which: key.into() };
        let due = Timestamp(START + SECOND);
        let prevented = Written::Prevented { id: placed[0].id, due };
        assert_eq!(bench.write(cancel("waits")), prevented);
        assert_eq!(bench.write(cancel("waits")), Written::NotFound);
        assert_eq!(bench.write(cancel("runs")), Written::Running { id: placed[1].id, bucket: 0 });
        bench.later(SECOND);
        let late = bench.fence();
        assert_eq!(bench.start_with(placed[0].id, late), None);
        assert_eq!(bench.finish(placed[1].id, fence, Then::Done), Finished::Gone);
    });
}

#[test]
fn of_parked_timers_the_oldest_beyond_a_number_and_an_age_are_deleted_a_few_at_a_time() {
    for_each_store(|bench| {
        let mut ids: Vec<TimerId> = Vec::new();
        for _ in 0..10 {
            let id = bench.make(0);
            let (_, fence) = bench.start(id);
            bench.finish(id, fence, Then::Park { reason: "reason".into() });
            ids.push(id);
            bench.later(SECOND);
        }
        let prune = |bench: &mut Bench, most, age: Option<i64>, limit| {
            let kept = Kept { most, age: age.map(Micros) };
            let Reply::Pruned(count) = bench.one(Request::Prune { old: Old::Parked, kept, limit })
            else {
                panic!()
            };
            let left = bench.parked(0, 100).0.iter().map(|listed| listed.id).collect::<Vec<_>>();
            (count, left)
        };
        assert_eq!(prune(bench, None, None, 9).0, 0);
        assert_eq!(prune(bench, Some(10), Some(10 * SECOND), 9).0, 0, "as old, and as many");
        assert_eq!(prune(bench, Some(7), None, 2), (2, ids[2..].to_vec()));
        assert_eq!(prune(bench, Some(7), None, 2), (1, ids[3..].to_vec()));
        assert_eq!(prune(bench, Some(7), Some(6 * SECOND), 9), (1, ids[4..].to_vec()));
        assert_eq!(prune(bench, Some(5), Some(100 * SECOND), 9), (1, ids[5..].to_vec()));
        assert_eq!(prune(bench, Some(1), Some(i64::MAX), 9), (4, ids[9..].to_vec()));
        bench.later(SECOND);
        assert_eq!(prune(bench, None, Some(SECOND), 9), (1, Vec::new()));
        assert_eq!(prune(bench, Some(1), Some(0), 9).0, 0, "nothing is left");
        assert!(bench.ids().is_empty());
    });
}

#[test]
fn a_timer_that_was_cancelled_while_it_ran_shows_so_until_it_is_wanted_again() {
    for_each_store(|bench| {
        let series = Some("rule".into());
        let timer = bench.keyed(0, "key");
        let id = bench.schedule(vec![NewTimer { series: series.clone(), ..timer }])[0].id;
        let (row, fence) = bench.start(id);
        let shown = |bench: &mut Bench| match &bench
            .ask(&[Request::Read { ids: vec![id], letters: Letters::default() }])[0]
        {
            Reply::Loaded(rows) => rows[0].cancelled,
            other => panic!("{other:?}"),
        };
        assert!(!row.cancelled && !shown(bench));
        let when = When::After(Micros::SECOND);
        bench.write(Write::Reset { which: "key".into(), when });
        assert!(!shown(bench), "one that runs is not moved, and goes on");
        bench.write(Write::Cancel { which: "key".into() });
        assert!(shown(bench));
        let retry = Then::Retry { after: Micros::ZERO, error: "error".into() };
        bench.finish(id, fence, retry);
        let (row, fence) = bench.start(id);
        assert!(row.cancelled && shown(bench), "the next attempt has it from its beginning");
        let timer = bench.keyed(0, "key");
        bench.schedule(vec![NewTimer { conflict: OnConflict::Update, series, ..timer }]);
        assert!(!shown(bench));

        bench.write(Write::Cancel { which: "key".into() });
        assert!(shown(bench));
        bench.finish(id, fence, Then::Park { reason: "reason".into() });
        bench.write(Write::RetryParked { id });
        assert!(!shown(bench), "whoever lets it run again wants it");
    });
}

#[test]
fn the_same_timer_declared_again_takes_the_cancel_of_its_run_back() {
    for_each_store(|bench| {
        let same = NewTimer { conflict: OnConflict::Update, ..bench.keyed(0, "key") };
        let made = bench.schedule(vec![same.clone()]).remove(0);
        let (id, was_due) = (made.id, made.due);
        let (_, fence) = bench.start(id);
        let cancelled = |bench: &mut Bench| match bench.write(Write::Get { which: Which::Id(id) }) {
            Written::Listed(timers) => timers[0].cancelled,
            other => panic!("{other:?}"),
        };
        assert_eq!(bench.schedule(vec![same.clone()])[0].how, How::Kept);
        bench.write(Write::Cancel { which: "key".into() });
        assert!(cancelled(bench));
        let again = bench.schedule(vec![same.clone()]).remove(0);
        assert_eq!((again.id, again.how), (id, How::Updated { was_due }));
        assert!(!cancelled(bench));
        assert_eq!(bench.schedule(vec![same.clone()])[0].how, How::Kept, "it is taken back");

        // In one batch the later one counts.
        let cancel = Request::Write(Write::Cancel { which: "key".into() });
        let declare = Request::Write(Write::Schedule(Arc::new(vec![same.clone()])));
        bench.ask(&[cancel.clone(), declare.clone()]);
        assert!(!cancelled(bench));
        bench.ask(&[declare.clone(), cancel.clone()]);
        assert!(cancelled(bench));
        bench.ask(&[cancel, declare]);
        assert!(!cancelled(bench));

        // Also if the run has failed since: the retry is not told of it.
        bench.write(Write::Cancel { which: "key".into() });
        let retry = Then::Retry { after: Micros::ZERO, error: "error".into() };
        bench.finish(id, fence, retry);
        bench.schedule(vec![same]);
        assert!(!bench.start(id).0.cancelled);
    });
}

#[test]
fn of_a_cancel_and_an_update_in_one_batch_the_later_one_counts() {
    for_each_store(|bench| {
        for cancel_last in [false, true] {
            let key = format!("key {cancel_last}");
            let timer = |bench: &mut Bench, seconds| NewTimer {
                series: Some(Series::FixedDelay { delay: seconds * SECOND }.to_text().into()),
                conflict: OnConflict::Update,
                ..bench.keyed(0, &key)
            };
            let first = timer(bench, 1);
            let id = bench.schedule(vec![first])[0].id;
            let (_, fence) = bench.start(id);
            let other = timer(bench, 2);
            let mut both = [
                Request::Write(Write::Cancel { which: key.as_str().into() }),
                Request::Write(Write::Schedule(Arc::new(vec![other]))),
            ];
            if cancel_last {
                both.reverse();
            }
            bench.ask(&both);
            let Reply::Loaded(rows) =
                bench.one(Request::Read { ids: vec![id], letters: Letters::default() })
            else {
                panic!()
            };
            assert_eq!(rows[0].cancelled, cancel_last);
            let next = Then::Next { when: When::After(Micros::SECOND), offset: Micros::ZERO };
            let ended = bench.finish(id, fence, next) == Finished::Gone;
            assert_eq!(ended, cancel_last);
        }
    });
}

#[test]
fn a_timer_without_a_key_is_shown_moved_and_cancelled_by_its_identity() {
    for_each_store(|bench| {
        let runs = bench.timer(0);
        let timers = vec![NewTimer { series: Some("rule".into()), ..runs }, bench.timer(SECOND)];
        let placed = bench.schedule(timers);
        let (runs, waits) = (placed[0].id, placed[1].id);
        let (_, fence) = bench.start(runs);
        let shown = |bench: &mut Bench, id| match bench.write(Write::Get { which: Which::Id(id) }) {
            Written::Listed(mut timers) => timers.pop().map(|it| (it.id, it.running)),
            other => panic!("{other:?}"),
        };
        assert_eq!(shown(bench, runs), Some((runs, true)));
        assert_eq!(shown(bench, waits), Some((waits, false)));
        assert_eq!(shown(bench, waits + 1), None);

        let (was_due, bucket, handler) = (Timestamp(START + SECOND), 0, "handler".into());
        let reset = |id, at| Write::Reset { which: Which::Id(id), when: When::At(Timestamp(at)) };
        let due = Timestamp(START + 1);
        let moved = Written::Reset { id: waits, bucket, was_due, due, handler };
        assert_eq!(bench.write(reset(waits, due.0)), moved);
        assert_eq!(bench.write(reset(runs, due.0)), Written::Running { id: runs, bucket: 0 });
        assert_eq!(bench.write(reset(waits + 1, due.0)), Written::NotFound);

        // Two calls for one timer in one batch: the second sees what the first did.
        let cancel = |id| Request::Write(Write::Cancel { which: Which::Id(id) });
        let written = bench.ask(&[cancel(waits), cancel(runs), cancel(waits)]);
        let prevented = Written::Prevented { id: waits, due };
        let expected = [prevented, Written::Running { id: runs, bucket: 0 }, Written::NotFound];
        assert_eq!(written, expected.map(Reply::Written));
        bench.later(SECOND);
        let late = bench.fence();
        assert_eq!(bench.start_with(waits, late), None);
        let next = Then::Next { when: When::After(Micros::SECOND), offset: Micros::ZERO };
        assert_eq!(bench.finish(runs, fence, next), Finished::Gone, "that run was the last");
    });
}

#[test]
fn a_removal_ends_what_has_started_too_but_for_one_and_a_replacement_names_it() {
    for_each_store(|bench| {
        let keyed = |bench: &mut Bench, key| {
            let timer = bench.keyed(0, key);
            bench.schedule(vec![NewTimer { series: Some("rule".into()), ..timer }])[0].id
        };
        let remove = |key: &str, but| Write::Remove { key: key.into(), but };
        let due = Timestamp(START);
        let id = keyed(bench, "waits");
        assert_eq!(bench.write(remove("waits", None)), Written::Prevented { id, due });
        assert_eq!(bench.write(remove("waits", None)), Written::NotFound);
        let id = keyed(bench, "runs");
        let (_, fence) = bench.start(id);
        assert_eq!(bench.write(remove("runs", Some(id + 1))), Written::Removed { id, bucket: 0 });
        assert_eq!(bench.finish(id, fence, Then::Done), Finished::Stale);
        assert_eq!(bench.write(remove("runs", None)), Written::NotFound);
        let id = keyed(bench, "stays");
        let (_, fence) = bench.start(id);
        assert_eq!(bench.write(remove("stays", Some(id))), Written::Running { id, bucket: 0 });
        let next = Then::Next { when: When::After(Micros::SECOND), offset: Micros::ZERO };
        assert_eq!(bench.finish(id, fence, next), Finished::Gone, "that run was the last");

        let replace = |bench: &mut Bench| {
            let timer = bench.keyed(0, "key");
            let conflict = OnConflict::Replace;
            bench.schedule(vec![NewTimer { conflict, ..timer }]).remove(0)
        };
        let first = replace(bench);
        assert_eq!(first.how, How::New);
        let second = replace(bench);
        assert_eq!(second.how, How::Replaced { started: None });
        let (_, fence) = bench.start(second.id);
        let third = replace(bench);
        assert_eq!(third.how, How::Replaced { started: Some(second.id) });
        assert_eq!(bench.finish(second.id, fence, Then::Done), Finished::Stale);
        assert_eq!(bench.ids(), [third.id]);
    });
}

#[test]
fn a_reset_outwards_leaves_the_index_alone_and_inwards_moves_it() {
    for_each_store(|bench| {
        let timer = bench.keyed(SECOND, "key");
        let id = bench.schedule(vec![timer])[0].id;
        let reset = |after| Write::Reset { which: "key".into(), when: When::After(Micros(after)) };
        let (was_due, bucket) = (Timestamp(START + SECOND), 0);
        let handler: Arc<str> = "handler".into();
        let out = Written::Reset { id, bucket, was_due, due: was_due, handler: handler.clone() };
        assert_eq!(bench.write(reset(5 * SECOND)), out);
        bench.later(SECOND);
        let fence = bench.fence();
        let starts = vec![Start { id, bucket, fence }];
        let started = bench.one(Request::Start { node: NODE, lead: Micros::ZERO, starts });
        let moved =
            Reply::Started { rows: vec![], moved: vec![(id, Timestamp(START + 5 * SECOND))] };
        assert_eq!(started, moved, "found when the old time comes");
        let was_due = Timestamp(START + 5 * SECOND);
        let due = Timestamp(START + 2 * SECOND);
        assert_eq!(
            bench.write(reset(SECOND)),
            Written::Reset { id, bucket, was_due, due, handler }
        );
        bench.later(SECOND);
        let (row, _) = bench.start(id);
        assert_eq!(row.deadline, due);
        assert_eq!(bench.write(reset(SECOND)), Written::Running { id, bucket: 0 });
        let other = Write::Reset { which: "other".into(), when: When::After(Micros::ZERO) };
        assert_eq!(bench.write(other), Written::NotFound);
    });
}

#[test]
fn what_is_parked_is_kept_with_its_reason_and_can_run_again_or_go() {
    for_each_store(|bench| {
        let timers = vec![bench.keyed(0, "a"), bench.keyed(0, "b")];
        let placed = bench.schedule(timers);
        for placed in &placed {
            let (_, fence) = bench.start(placed.id);
            let park = Then::Park { reason: "poison".into() };
            assert_eq!(bench.finish(placed.id, fence, park), Finished::Parked);
        }
        assert!(bench.ids().is_empty());
        let (parked, next) = bench.parked(0, 1);
        assert_eq!((parked.len(), next), (1, Some(placed[0].id)));
        assert_eq!(parked[0].id, placed[0].id);
        assert_eq!(parked[0].parked, Some(("poison".into(), Timestamp(START))));
        let (parked, next) = bench.parked(placed[0].id, 10);
        assert_eq!((parked.len(), next), (1, None));

        bench.later(SECOND);
        let Written::Placed(again) = bench.write(Write::RetryParked { id: placed[0].id }) else {
            panic!()
        };
        assert_eq!((again.id, again.due), (placed[0].id, bench.now()));
        let (row, _) = bench.start(placed[0].id);
        assert_eq!((row.attempt, row.key.as_deref()), (1, Some("a")));
        let discard = Write::DiscardParked { id: placed[1].id };
        assert_eq!(bench.write(discard.clone()), Written::Applied);
        assert_eq!(bench.write(discard), Written::NotFound);
    });
}

/// A series with a rule of so many seconds.
fn every(bench: &mut Bench, seconds: i64, first: i64) -> NewTimer {
    let rule = Series::FixedRate { every: seconds * SECOND, missed: MissedTick::Skip };
    let series = Some(rule.to_text().into());
    NewTimer { series, conflict: OnConflict::Update, ..bench.keyed(first, "key") }
}

#[test]
fn a_series_that_is_declared_again_takes_over_a_new_rule_and_nothing_that_is_owed_is_lost() {
    for_each_store(|bench| {
        let declare = |bench: &mut Bench, seconds, first| {
            let timer = every(bench, seconds, first);
            bench.schedule(vec![timer]).remove(0)
        };
        let made = declare(bench, 60, 60 * SECOND);
        assert_eq!(made.how, How::New);
        bench.later(SECOND);
        let same = declare(bench, 60, 60 * SECOND);
        assert_eq!((same.id, same.how), (made.id, How::Kept), "it does not begin anew");

        let was_due = made.due;
        let changed = declare(bench, 10, 10 * SECOND);
        assert_eq!((changed.id, changed.how), (made.id, How::Updated { was_due }));
        assert_eq!(changed.due, Timestamp(START + 11 * SECOND));

        // A run that is overdue is not put off, and counts by the new rule.
        bench.later(20 * SECOND);
        let kept = declare(bench, 30, 30 * SECOND);
        assert_eq!((kept.id, kept.due), (made.id, changed.due));
        let (row, fence) = bench.start(made.id);
        assert_eq!(row.planned, changed.due);
        assert_eq!(row.series, every(bench, 30, 0).series.map(|rule| rule.to_string()));

        // So is one that runs, and one that is to be retried.
        assert_eq!(declare(bench, 40, 40 * SECOND).id, made.id);
        let retry = Then::Retry { after: Micros::SECOND, error: "failed".into() };
        let Finished::Again { due } = bench.finish(made.id, fence, retry) else { panic!() };
        let kept = declare(bench, 50, 50 * SECOND);
        assert_eq!((kept.id, kept.due, kept.how), (made.id, due, How::Updated { was_due: due }));
        bench.later(SECOND);
        let (row, _) = bench.start(made.id);
        assert_eq!((row.attempt, row.planned), (2, changed.due));
        assert_eq!(row.series, every(bench, 50, 0).series.map(|rule| rule.to_string()));
    });
}

#[test]
fn a_series_that_is_declared_with_another_handler_or_payload_gets_it() {
    for_each_store(|bench| {
        let first = every(bench, 60, 60 * SECOND);
        let made = bench.schedule(vec![first.clone()]).remove(0);
        bench.later(SECOND);
        let payload = NewTimer { payload: "7".into(), ..every(bench, 60, 60 * SECOND) };
        let changed = bench.schedule(vec![payload]).remove(0);
        assert_eq!((changed.id, changed.due), (made.id, made.due), "its time stays");
        let other = NewTimer { handler: "other".into(), ..every(bench, 60, 60 * SECOND) };
        let other = bench.schedule(vec![other]).remove(0);
        assert_eq!(other.how, How::Replaced { started: None });
        assert_ne!(other.id, made.id);
    });
}

#[test]
fn a_run_of_a_series_is_parked_as_a_timer_of_its_own_and_the_series_goes_on() {
    for_each_store(|bench| {
        // A store draws the identity of what it parks.
        bench.one(Request::Ids { count: 1_000 });
        let series = NewTimer { series: Some("rule".into()), ..bench.keyed(0, "key") };
        let id = bench.schedule(vec![series])[0].id;
        let park_run = || Then::ParkRun {
            reason: "poison".into(),
            when: When::At(Timestamp(START + SECOND)),
            offset: Micros(100),
        };
        let (first, fence) = bench.start(id);
        let due = Timestamp(START + SECOND + 100);
        assert_eq!(bench.finish(id, fence, park_run()), Finished::Again { due });
        assert_eq!(bench.finish(id, fence, park_run()), Finished::Stale, "and only once");
        let (parked, _) = bench.parked(0, 9);
        let [run] = &parked[..] else { panic!("{parked:?}") };
        assert!(
            run.id != id && run.key.as_deref() == Some("key") && run.series.is_none(),
            "{run:?}"
        );
        assert_eq!((run.attempt, run.parked.as_ref().unwrap().0.as_str()), (1, "poison"));

        // The series has its key, and the run, when it is tried again, its identity.
        let retried = bench.write(Write::RetryParked { id: run.id });
        assert!(matches!(retried, Written::Placed(_)), "{retried:?}");
        let (again, _) = bench.start(run.id);
        assert_eq!((again.key.as_deref(), again.series), (None, None));
        assert_eq!((again.origin, again.run), (first.origin, first.run));
        bench.later(2 * SECOND);
        let (second, fence) = bench.start(id);
        assert_eq!((second.attempt, second.origin, second.run), (1, id, first.run + 1));

        // One that was cancelled during its run has no next one.
        assert_eq!(
            bench.write(Write::Cancel { which: "key".into() }),
            Written::Running { id, bucket: 0 }
        );
        assert_eq!(bench.finish(id, fence, park_run()), Finished::Parked);
        assert_eq!(bench.parked(0, 9).0.len(), 1);
    });
}

#[test]
fn a_parked_timer_whose_key_is_taken_by_now_stays_parked() {
    for_each_store(|bench| {
        let timer = bench.keyed(0, "key");
        let id = bench.schedule(vec![timer])[0].id;
        let (_, fence) = bench.start(id);
        bench.finish(id, fence, Then::Park { reason: "poison".into() });
        let other = bench.keyed(0, "key");
        bench.schedule(vec![other]);
        let retry = Write::RetryParked { id };
        assert_eq!(bench.write(retry), Written::KeyTaken("key".into()));
        assert_eq!(bench.parked(0, 9).0.len(), 1);
    });
}

#[test]
fn paused_handlers_are_told_with_each_renewal() {
    for_each_store(|bench| {
        let paused = |bench: &mut Bench| match bench
            .one(Request::Keep(Keep::Renew { node: NODE, report: None }))
        {
            Reply::Renewed(renewed) => (renewed.alive, renewed.paused),
            other => panic!("{other:?}"),
        };
        let pause = |paused| Write::Pause { handler: "handler".into(), paused };
        for _ in 0..2 {
            assert_eq!(bench.write(pause(true)), Written::Applied);
            assert_eq!(paused(bench), (true, vec!["handler".into()]));
        }
        assert_eq!(bench.write(pause(false)), Written::Applied);
        assert_eq!(paused(bench), (true, vec![]));
    });
}

#[test]
fn a_timer_is_put_off_only_while_it_is_not_started() {
    for_each_store(|bench| {
        let (waits, runs) = (bench.make(0), bench.make(0));
        bench.start(runs);
        let (least, most) = (Micros::SECOND, Micros::SECOND * 60);
        let put_off = |timers| Request::PutOff { timers, least, most };
        let due = |micros| Some(Timestamp(START + micros));
        let own = [waits, runs, 999].map(|id| bench.own(id));
        let (all, waiting) = (own.to_vec(), own[..1].to_vec());
        assert_eq!(bench.one(put_off(all)), Reply::PutOff(vec![due(SECOND), None, None]));
        bench.later(10 * SECOND);
        let again = bench.one(put_off(waiting.clone()));
        assert_eq!(again, Reply::PutOff(vec![due(20 * SECOND)]), "by as long as it has waited");
        bench.later(100 * SECOND);
        let most = bench.one(put_off(waiting));
        assert_eq!(most, Reply::PutOff(vec![due(170 * SECOND)]));
        let park = |before| {
            let reason = "unknown".into();
            Request::Park { timers: own[..2].to_vec(), before: Timestamp(before), reason }
        };
        let too_soon = bench.one(park(START - 1));
        assert_eq!(too_soon, Reply::Parked(Vec::new()), "it has not waited long enough");
        let Reply::Parked(rows) = bench.one(park(START)) else { panic!() };
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.id, &*row.handler, row.attempt), (waits, "handler", 0));
        assert_eq!(row.unknown_since, Some(Timestamp(START)));
        assert_eq!(bench.one(park(START)), Reply::Parked(Vec::new()), "once");
        assert_eq!(bench.ids(), [runs]);
    });
}

#[test]
fn what_nobody_can_run_is_put_off_and_parked_by_when_that_was_found_first_and_not_by_its_age() {
    for_each_store(|bench| {
        let (least, most) = (Micros::SECOND, Micros::SECOND * 60);
        let series = NewTimer { series: Some("rule".into()), ..bench.timer(0) };
        let (once, series) = (bench.make(0), bench.schedule(vec![series])[0].id);
        // Nobody was there for an hour.
        bench.later(3_600 * SECOND);
        let found = bench.now();
        let timers = vec![bench.own(once)];
        let park =
            Request::Park { timers: timers.clone(), before: found, reason: "unknown".into() };
        assert_eq!(bench.one(park), Reply::Parked(Vec::new()), "at first sight");
        let put_off = Request::PutOff { timers, least, most };
        assert_eq!(bench.one(put_off), Reply::PutOff(vec![Some(found + least)]));
        // Whoever has the handler, and cannot read the payload, has found the same.
        bench.later(10 * SECOND);
        let (row, fence) = bench.start(once);
        assert_eq!((row.unknown_since, row.attempt), (Some(found), 1));
        let again = bench.finish(once, fence, Then::PutOff { after: Micros::SECOND * 10 });
        assert_eq!(again, Finished::Again { due: found + Micros::SECOND * 20 });
        let (row, fence) = {
            bench.later(10 * SECOND);
            bench.start(once)
        };
        assert_eq!((row.unknown_since, row.attempt), (Some(found), 1), "it counts no attempt");
        // A run that is given back says nothing about it, and one that fails has begun.
        bench.finish(once, fence, Then::GiveBack { after: Micros::ZERO, ran: false });
        let (row, fence) = bench.start(once);
        assert_eq!(row.unknown_since, Some(found));
        bench.finish(once, fence, Then::Retry { after: Micros::ZERO, error: "error".into() });
        assert_eq!(bench.start(once).0.unknown_since, None);

        let (_, fence) = bench.start(series);
        bench.finish(series, fence, Then::PutOff { after: Micros::ZERO });
        let (row, fence) = bench.start(series);
        assert_eq!(row.unknown_since, Some(bench.now()));
        let next = Then::Next { when: When::After(Micros::ZERO), offset: Micros::ZERO };
        bench.finish(series, fence, next);
        assert_eq!(bench.start(series).0.unknown_since, None);

        let waits = bench.make(0);
        let timers = vec![bench.own(waits)];
        bench.one(Request::PutOff { timers: timers.clone(), least, most });
        let park = Request::Park { timers, before: bench.now(), reason: "unknown".to_owned() };
        assert!(matches!(bench.one(park), Reply::Parked(rows) if rows.len() == 1));
        bench.write(Write::RetryParked { id: waits });
        assert_eq!(bench.start(waits).0.unknown_since, None, "it begins anew");
    });
}

#[test]
fn what_is_in_the_bucket_of_another_owner_is_neither_put_off_nor_parked() {
    for_each_store(|bench| {
        let (least, most) = (Micros::SECOND, Micros::SECOND * 60);
        let id = bench.make(0);
        let timers = vec![bench.own(id)];
        let put_off = Request::PutOff { timers: timers.clone(), least, most };
        let park = Request::Park { timers, before: Timestamp::NEVER, reason: "unknown".into() };
        let found = bench.now();
        assert_eq!(bench.one(put_off.clone()), Reply::PutOff(vec![Some(found + least)]));

        bench.next_owner();
        bench.later(2 * SECOND);
        assert_eq!(bench.one(put_off), Reply::PutOff(vec![None]), "it came late");
        assert_eq!(bench.one(park), Reply::Parked(Vec::new()), "it came late");
        let (row, _) = bench.start(id);
        assert_eq!((row.deadline, row.unknown_since), (found + least, Some(found)));
    });
}

#[test]
fn identities_are_drawn_once() {
    for_each_store(|bench| {
        let mut seen = BTreeSet::new();
        for count in [1_024, 1, 5, 3_000] {
            let Reply::Ids { blocks, .. } = bench.one(Request::Ids { count }) else { panic!() };
            let drawn: Vec<TimerId> = blocks.into_iter().flatten().collect();
            assert!(i64::try_from(drawn.len()).unwrap() >= count, "{count} were asked for");
            assert!(drawn.iter().all(|id| *id > 0 && seen.insert(*id)), "{drawn:?}");
        }
    });
}

#[test]
fn what_is_asked_for_under_an_epoch_that_is_over_does_nothing() {
    for_each_store(|bench| {
        let under = |epoch: u32, write: Write| {
            let tenure = Tenure { bucket: 0, epoch };
            Write::Under { tenure, write: Box::new(write) }
        };
        let remove = || Write::Remove { key: "key".into(), but: None };
        let get = || Write::Get { which: "key".into() };
        let first = bench.epoch;
        let timer = bench.keyed(SECOND, "key");
        let id = bench.schedule(vec![timer])[0].id;
        assert!(matches!(bench.write(under(first, remove())), Written::Prevented { .. }));
        let timer = bench.keyed(SECOND, "key");
        let schedule = Write::Schedule(Arc::new(vec![timer]));
        assert!(matches!(bench.write(under(first, schedule)), Written::Scheduled(_)));

        bench.next_owner();
        assert_eq!(bench.write(under(first, remove())), Written::Lost);
        assert_eq!(bench.write(under(first, get())), Written::Lost);
        let timer = NewTimer { conflict: OnConflict::Replace, ..bench.keyed(2 * SECOND, "key") };
        let schedule = Write::Schedule(Arc::new(vec![timer]));
        assert_eq!(bench.write(under(first, schedule.clone())), Written::Lost);
        // Beside others, each is decided by itself.
        let requests = [under(first, remove()), get(), under(bench.epoch, schedule)];
        let replies = bench.ask(&requests.map(Request::Write));
        assert_eq!(replies[0], Reply::Written(Written::Lost));
        let Reply::Written(Written::Listed(found)) = &replies[1] else { panic!("{replies:?}") };
        assert_eq!(found.iter().map(|it| it.id).collect::<Vec<_>>(), [id + 1]);
        let Reply::Written(Written::Scheduled(placed)) = &replies[2] else { panic!("{replies:?}") };
        assert_eq!(placed[0].how, How::Replaced { started: None });
        assert_eq!(bench.ids(), [id + 2]);
    });
}

/// A timer that differs from the others of its batch in one thing.
type Differs = fn(NewTimer) -> NewTimer;

#[test]
fn each_timer_of_a_batch_has_what_was_asked_for_it_whatever_the_others_have_in_common() {
    let differ: [Differs; 9] = [
        |timer| NewTimer { key: Some(format!("key/{}", timer.id).into()), ..timer },
        |timer| NewTimer {
            key: Some(format!("key/{}", timer.id).into()),
            remember: Micros(SECOND),
            ..timer
        },
        |timer| NewTimer { tag: Some("tag".into()), ..timer },
        |timer| NewTimer { handler: "other".into(), ..timer },
        |timer| NewTimer { payload_version: 7, ..timer },
        |timer| NewTimer { payload: "[1]".into(), ..timer },
        |timer| NewTimer { when: When::After(Micros(5 * SECOND)), ..timer },
        |timer| NewTimer { offset: Micros(SECOND), ..timer },
        |timer| NewTimer {
            series: Some(Series::FixedDelay { delay: SECOND }.to_text().into()),
            ..timer
        },
    ];
    for_each_store(|bench| {
        for differs in differ {
            // The first, one in the middle, none and all.
            for which in [vec![0], vec![1], vec![], vec![0, 1, 2]] {
                let mut timers: Vec<NewTimer> = (0..3).map(|_| bench.timer(2 * SECOND)).collect();
                for place in &which {
                    timers[*place] = differs(timers[*place].clone());
                }
                bench.schedule(timers.clone());
                bench.later(10 * SECOND);
                let now = bench.now().0 - 10 * SECOND;
                for new in timers {
                    let (row, fence) = bench.start(new.id);
                    let planned = new.when.by(Timestamp(now));
                    let which = Which::Id(new.id);
                    let Written::Listed(listed) = bench.write(Write::Get { which }) else {
                        panic!()
                    };
                    assert_eq!((row.planned, row.deadline), (planned, planned + new.offset));
                    assert_eq!(row.handler, new.handler);
                    assert_eq!(row.payload_version, new.payload_version);
                    assert_eq!(row.payload, *new.payload);
                    assert_eq!(row.key.as_deref(), new.key.as_deref());
                    assert_eq!(row.series.as_deref(), new.series.as_deref());
                    assert_eq!(listed[0].tag.as_deref(), new.tag.as_deref());
                    bench.finish(new.id, fence, Then::Done);
                    let remembered = new.remember > Micros::ZERO;
                    if let Some(key) = new.key.as_deref() {
                        let again = bench.keyed(SECOND, key);
                        assert_eq!(bench.schedule(vec![again])[0].id == 0, remembered);
                    }
                }
            }
        }
    });
}
