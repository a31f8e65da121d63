//! What a walk through timers finds, and what it does to them.

use std::collections::BTreeSet;

use super::*;

/// All there are.
fn all() -> Select {
    Select::of(States::ALL, 1_000, 5_000)
}

fn step(bench: &mut Bench, select: &Select, act: Act) -> Selected {
    match bench.write(Write::Select { select: Arc::new(select.clone()), act }) {
        Written::Selected(selected) => {
            assert!(selected.looked_at <= select.scan, "{selected:?}");
            assert!(selected.matched <= select.limit.min(selected.looked_at), "{selected:?}");
            selected
        }
        other => panic!("{other:?}"),
    }
}

/// The identities that all steps together find, in their order.
fn found(bench: &mut Bench, select: &Select) -> Vec<TimerId> {
    let (mut select, mut found) = (select.clone(), Vec::new());
    loop {
        let selected = step(bench, &select, Act::List);
        assert_eq!(step(bench, &select, Act::Count).matched, selected.listed.len());
        found.extend(selected.listed.iter().map(|listed| listed.id));
        match selected.next {
            Some(next) => select.after = Some(next),
            None => return found,
        }
    }
}

/// One of each kind, as (identity, its states).
fn one_of_each(bench: &mut Bench) -> Vec<(TimerId, States)> {
    let of = |handler: &str, timer| NewTimer { handler: handler.into(), ..timer };
    let names = ["waits", "due", "runs", "tried", "paused", "parked", "never"];
    let after = [SECOND, 0, 0, 0, 2 * SECOND, 0, i64::MAX];
    let mut ids = Vec::new();
    for (name, after) in names.into_iter().zip(after) {
        let timer = of(name, bench.keyed(after, &format!("a/{name}")));
        ids.push(bench.schedule(vec![timer])[0].id);
    }
    bench.start(ids[2]);
    let (_, fence) = bench.start(ids[3]);
    let after = Micros(3 * SECOND);
    bench.finish(ids[3], fence, Then::Retry { after, error: "no 100% route".into() });
    bench.write(Write::Pause { handler: "paused".into(), paused: true });
    let (_, fence) = bench.start(ids[5]);
    bench.finish(ids[5], fence, Then::Park { reason: "100% poison".into() });
    let (waiting, due) = (States::WAITING, States::DUE);
    let states = [
        waiting,
        due,
        States::RUNNING,
        waiting.with(States::RETRYING),
        waiting.with(States::PAUSED),
        States::PARKED,
        waiting,
    ];
    ids.into_iter().zip(states).collect()
}

#[test]
fn a_walk_finds_those_that_are_in_one_of_its_states() {
    for_each_store(|bench| {
        let timers = one_of_each(bench);
        let each = [
            States::WAITING,
            States::DUE,
            States::RUNNING,
            States::RETRYING,
            States::PAUSED,
            States::PARKED,
        ];
        for one in each {
            for other in each {
                let states = one.with(other);
                let expected: BTreeSet<TimerId> = (timers.iter())
                    .filter(|(_, its)| !its.and(states).is_empty())
                    .map(|(id, _)| *id)
                    .collect();
                for prefix in [None, Some("a/".into())] {
                    let ids = found(bench, &Select { states, prefix, ..all() });
                    assert_eq!(ids.len(), expected.len(), "{ids:?} for {states:?}");
                    assert_eq!(ids.into_iter().collect::<BTreeSet<_>>(), expected, "{states:?}");
                }
            }
        }
    });
}

#[test]
fn a_walk_finds_those_that_meet_all_its_conditions() {
    for_each_store(|bench| {
        let ids: Vec<TimerId> = one_of_each(bench).into_iter().map(|(id, _)| id).collect();
        let [waits, due, runs, tried, paused, parked, never] = ids[..] else { panic!() };
        let mut sorted = |select: &Select| {
            let mut ids = found(bench, select);
            ids.sort_unstable();
            ids
        };
        let at = |seconds: i64| Timestamp(START + seconds * SECOND);
        let between = |from, until| Select { due: (from, until), ..all() };
        assert_eq!(sorted(&all()), ids);
        assert_eq!(sorted(&between(at(1), at(3))), [waits, paused], "`until` is excluded");
        assert_eq!(sorted(&between(at(1), at(4))), [waits, tried, paused]);
        assert_eq!(sorted(&between(at(3), Timestamp::NEVER)), [tried, never]);
        assert_eq!(sorted(&between(Timestamp::MIN, at(1))), [due, runs, parked]);
        let failed = |text: &str| Select { failed_with: Some(text.into()), ..all() };
        assert_eq!(sorted(&failed("100% ")), [tried, parked]);
        assert_eq!(sorted(&failed("100% r")), [tried]);
        assert!(sorted(&failed("100_")).is_empty());
        let of = |handler: &str| Select { handler: Some(handler.into()), ..all() };
        assert_eq!(sorted(&of("tried")), [tried]);
        assert!(sorted(&of("trie")).is_empty());
        assert_eq!(sorted(&Select { failed_with: Some("100%".into()), ..of("parked") }), [parked]);
    });
}

#[test]
fn a_prefix_of_keys_is_a_range_of_bytes_and_no_pattern() {
    for_each_store(|bench| {
        let keys = ["a", "a%", "a%b", "a_", "aa", "A%", "ä", "ä%", "a\u{10ffff}", "b", "a%\u{1}"];
        let timers = keys.map(|key| bench.keyed(SECOND, key));
        let placed = bench.schedule(timers.to_vec());
        bench.make(SECOND);
        for prefix in ["a", "a%", "a_", "ä", "a\u{10ffff}", "c", ""] {
            let mut expected: Vec<(&str, TimerId)> =
                keys.into_iter().zip(placed.iter().map(|placed| placed.id)).collect();
            expected.retain(|(key, _)| key.starts_with(prefix));
            expected.sort_unstable();
            let expected: Vec<TimerId> = expected.into_iter().map(|(_, id)| id).collect();
            for scan in [1, 2, 1_000] {
                let select = Select { prefix: Some(prefix.into()), scan, ..all() };
                assert_eq!(found(bench, &select), expected, "{prefix:?}, {scan} at a time");
            }
        }
    });
}

#[test]
fn a_tag_is_found_by_its_index_in_the_order_of_time_and_stays_with_its_timer() {
    for_each_store(|bench| {
        let tagged = |tag: &str, timer| NewTimer { tag: Some(tag.into()), ..timer };
        let mut ids = Vec::new();
        for (number, after) in [3, 1, 2, 1, 0].into_iter().enumerate() {
            let timer = bench.keyed(after * SECOND, &format!("a/{number}"));
            ids.push(bench.schedule(vec![tagged("red", timer)])[0].id);
        }
        let others = [("redder", SECOND), ("re", SECOND), ("Red", SECOND)];
        let others = others.map(|(tag, after)| tagged(tag, bench.timer(after)));
        bench.schedule(others.to_vec());
        bench.make(SECOND);
        let red = Select { tag: Some("red".into()), ..all() };
        let by_time = [ids[4], ids[1], ids[3], ids[2], ids[0]];
        for (limit, scan) in [(1, 1), (2, 1_000), (1_000, 3), (1_000, 1_000)] {
            assert_eq!(found(bench, &Select { limit, scan, ..red.clone() }), by_time);
        }
        let early = (Timestamp::MIN, Timestamp(START + SECOND));
        assert_eq!(found(bench, &Select { due: early, ..red.clone() }), [ids[4]]);
        let one = Select { prefix: Some("a/2".into()), ..red.clone() };
        assert_eq!(found(bench, &one), [ids[2]]);
        assert!(found(bench, &Select { tag: Some("r".into()), ..all() }).is_empty());

        let listed = step(bench, &red, Act::List).listed;
        assert!(listed.iter().all(|listed| listed.tag.as_deref() == Some("red")));
        let (_, fence) = bench.start(ids[4]);
        bench.finish(ids[4], fence, Then::Park { reason: "reason".into() });
        assert_eq!(found(bench, &red).last(), Some(&ids[4]), "it is parked, and has its tag");
        let parked = Select { states: States::PARKED, ..red.clone() };
        assert_eq!(step(bench, &parked, Act::Retry).matched, 1);
        assert_eq!(found(bench, &red)[0], ids[4]);
        let timer = bench.keyed(SECOND, "a/1");
        let conflict = OnConflict::Update;
        bench.schedule(vec![tagged("blue", NewTimer { conflict, ..timer })]);
        assert_eq!(found(bench, &red).len(), 4, "one has another tag now");
        assert_eq!(step(bench, &red, Act::Cancel).each.len(), 4);
        assert!(found(bench, &red).is_empty());
    });
}

#[test]
fn the_run_of_a_series_that_is_given_up_has_the_tag_of_the_series() {
    for_each_store(|bench| {
        let timer = bench.keyed(0, "series");
        let (series, tag) = (Some("rule".into()), Some("red".into()));
        let id = bench.schedule(vec![NewTimer { series, tag, ..timer }])[0].id;
        let (_, fence) = bench.start(id);
        let when = When::After(Micros::SECOND);
        let reason = "reason".into();
        bench.finish(id, fence, Then::ParkRun { reason, when, offset: Micros::ZERO });
        assert_eq!(found(bench, &Select { tag: Some("red".into()), ..all() }).len(), 2);
    });
}

#[test]
fn the_steps_of_a_walk_find_each_timer_once_however_short_they_are() {
    for_each_store(|bench| {
        let mut expected: Vec<TimerId> = one_of_each(bench).into_iter().map(|(id, _)| id).collect();
        // Many of one time.
        let timers = (0..20).map(|number| bench.timer(number / 7 * SECOND)).collect();
        expected.extend(bench.schedule(timers).iter().map(|placed| placed.id));
        expected.sort_unstable();
        for (limit, scan) in [(1, 1), (1, 1_000), (1_000, 1), (3, 4), (1_000, 1_000)] {
            let mut ids = found(bench, &Select { limit, scan, ..all() });
            ids.sort_unstable();
            assert_eq!(ids, expected, "at most {limit} of {scan}");
        }
        // What was there and is gone does not matter.
        let select = Select { limit: 5, ..all() };
        let next = step(bench, &select, Act::List).next.unwrap();
        step(bench, &Select { limit: 5, states: States::WAITING, ..all() }, Act::Cancel);
        let rest = found(bench, &Select { after: Some(next), ..all() });
        let different: BTreeSet<TimerId> = rest.iter().copied().collect();
        assert_eq!(different.len(), rest.len(), "{rest:?}");
    });
}

#[test]
fn what_a_walk_cancels_moves_retries_or_discards_is_what_it_finds() {
    for_each_store(|bench| {
        let ids: Vec<TimerId> = one_of_each(bench).into_iter().map(|(id, _)| id).collect();
        let [waits, due, runs, tried, paused, parked, never] = ids[..] else { panic!() };
        let states = States::PAUSED.with(States::RETRYING);
        let when = When::At(Timestamp(START + 9 * SECOND));
        let moved = step(bench, &Select { states, ..all() }, Act::Reset(when));
        assert_eq!((moved.matched, moved.next), (2, None));
        let reset = |written: &Written| matches!(written, Written::Reset { .. });
        assert!(moved.each.iter().all(reset), "{:?}", moved.each);
        let late = (Timestamp(START + 9 * SECOND), Timestamp::NEVER);
        assert_eq!(found(bench, &Select { due: late, ..all() }), [paused, tried, never]);

        let states = States::DUE.with(States::RUNNING);
        let cancelled = step(bench, &Select { states, ..all() }, Act::Cancel);
        let prevented = Written::Prevented { id: due, due: bench.now() };
        assert_eq!(cancelled.each, [prevented, Written::Running { id: runs, bucket: 0 }]);
        assert!(found(bench, &Select { states: States::DUE, ..all() }).is_empty());

        let select = Select { states: States::PARKED, ..all() };
        let retried = step(bench, &select, Act::Retry);
        let [Written::Placed(placed)] = &retried.each[..] else { panic!("{retried:?}") };
        assert_eq!((placed.id, placed.due), (parked, bench.now()));
        let (_, fence) = bench.start(parked);
        bench.finish(parked, fence, Then::Park { reason: "again".into() });
        assert_eq!(step(bench, &select, Act::Discard).each, [Written::Applied]);
        assert!(found(bench, &select).is_empty());
        let mut left = found(bench, &all());
        left.sort_unstable();
        assert_eq!(left, [waits, runs, tried, paused, never]);
    });
}

#[test]
fn of_parked_timers_that_share_a_key_one_runs_again_and_the_others_stay() {
    for_each_store(|bench| {
        let mut ids = Vec::new();
        for _ in 0..3 {
            let timer = bench.keyed(0, "key");
            let id = bench.schedule(vec![timer])[0].id;
            let (_, fence) = bench.start(id);
            bench.finish(id, fence, Then::Park { reason: "poison".into() });
            ids.push(id);
        }
        let select = Select { states: States::PARKED, ..all() };
        let retried = step(bench, &select, Act::Retry);
        let taken = Written::KeyTaken("key".into());
        assert!(matches!(&retried.each[0], Written::Placed(placed) if placed.id == ids[0]));
        assert_eq!(retried.each[1..], [taken.clone(), taken]);
        assert_eq!(found(bench, &select), ids[1..]);
    });
}

#[test]
fn a_step_that_is_repeated_is_not_carried_out_again_but_a_look_is() {
    for_each_store(|bench| {
        let ids: Vec<TimerId> = (0..4).map(|_| bench.make(SECOND)).collect();
        let batch = Request::Batch { writer: 5, token: 1, history: None };
        let ask = |act| {
            let select = Arc::new(Select { limit: 2, ..all() });
            [batch.clone(), Request::Write(Write::Select { select, act })]
        };
        bench.ask(&ask(Act::Cancel));
        let again = bench.ask(&ask(Act::Cancel));
        assert_eq!(again[1], Reply::Written(Written::Unsure));
        assert_eq!(bench.ids(), ids[2..]);
        let Reply::Written(Written::Selected(listed)) = &bench.ask(&ask(Act::List))[1] else {
            panic!()
        };
        assert_eq!(listed.listed.len(), 2);
        let after = Some(Cursor::Parked(0));
        assert!(found(bench, &Select { after, ..all() }).is_empty(), "nothing is parked");
    });
}

#[test]
fn a_step_of_a_file_reads_one_timer_more_than_it_finds_and_none_behind_that() {
    let mut bench = Bench::sqlite();
    let timers = (0..9).map(|number| {
        let timer = bench.keyed(number * SECOND, &format!("key/{number}"));
        NewTimer { tag: Some("red".into()), ..timer }
    });
    let timers = timers.collect();
    let ids: Vec<TimerId> = bench.schedule(timers).iter().map(|placed| placed.id).collect();
    let path = bench.directory.as_ref().unwrap().file();
    // No store can read this.
    let spoil = format!("UPDATE lars_timer SET attempt = -1 WHERE id > {}", ids[3]);
    rusqlite::Connection::open(path).unwrap().execute(&spoil, []).unwrap();
    for select in [
        all(),
        Select { prefix: Some("key/".into()), ..all() },
        Select { tag: Some("red".into()), ..all() },
    ] {
        let found = step(&mut bench, &Select { limit: 3, ..select.clone() }, Act::Count);
        assert_eq!((found.looked_at, found.matched, found.next.is_some()), (3, 3, true));
        let found = step(&mut bench, &Select { scan: 3, ..select }, Act::Count);
        assert_eq!((found.looked_at, found.matched, found.next.is_some()), (3, 3, true));
    }
}
