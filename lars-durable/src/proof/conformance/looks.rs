//! What people see is what there is, and bounded.

use super::*;
use crate::model::{Look, LookedHandler};

/// Looks until counting was quick, which it need not be on a machine that stands still.
fn look(bench: &mut Bench, limit: usize) -> Look {
    for _ in 0..60 {
        let look = bench.store.look(limit).unwrap();
        if look.timers.is_some() && look.parked.is_some() {
            return look;
        }
    }
    panic!("counting is never quick");
}

fn of(look: &Look, name: &str) -> LookedHandler {
    let timers = look.timers.as_ref().unwrap();
    timers.by_handler.iter().find(|(handler, _)| &**handler == name).expect("it has timers").1
}

#[test]
fn a_look_counts_what_waits_runs_is_tried_again_and_is_given_up_by_handler() {
    for_each_store(|bench| {
        let other = NewTimer { handler: "other".into(), ..bench.timer(60 * SECOND) };
        let (waits, tried, runs, parked) =
            (bench.timer(SECOND), bench.timer(0), bench.timer(0), bench.timer(0));
        let (tried_id, runs_id, parked_id) = (tried.id, runs.id, parked.id);
        bench.schedule(vec![other, waits, tried, runs, parked]);
        let (_, fence) = bench.start(tried_id);
        let again = Then::Retry { after: Micros::SECOND * 5, error: "error".into() };
        bench.finish(tried_id, fence, again);
        bench.start(runs_id);
        let (_, fence) = bench.start(parked_id);
        bench.finish(parked_id, fence, Then::Park { reason: "reason".into() });
        bench.later(2 * SECOND);

        let seen = look(bench, 1_000);
        assert_eq!(seen.clock, bench.now());
        let next = Some(Timestamp(START + SECOND));
        let expected = LookedHandler { pending: 2, overdue: 1, retrying: 1, running: 1, next };
        assert_eq!(of(&seen, "handler"), expected);
        let next = Some(Timestamp(START + 60 * SECOND));
        let expected = LookedHandler { pending: 1, overdue: 0, retrying: 0, running: 0, next };
        assert_eq!(of(&seen, "other"), expected);
        let parked = seen.parked.unwrap();
        assert_eq!((parked.by_handler, parked.more), (vec![("handler".into(), 1)], false));
        assert!(!seen.timers.unwrap().more);
    });
}

#[test]
fn a_look_counts_no_more_than_its_limit_and_says_that_there_are_more() {
    for_each_store(|bench| {
        let limit = 64;
        let timers: Vec<NewTimer> = (0..200).map(|number| bench.timer(number)).collect();
        let ids: Vec<TimerId> = timers.iter().map(|timer| timer.id).collect();
        bench.schedule(timers);
        let counted = look(bench, limit).timers.unwrap();
        let pending = counted.by_handler[0].1.pending;
        assert!(pending >= 1 && pending <= limit as u64, "{pending}");
        assert!(counted.more);
        let all = look(bench, 200 * 64).timers.unwrap();
        assert_eq!((all.by_handler[0].1.pending, all.more), (200, false));

        bench.later(SECOND);
        for id in &ids {
            let (_, fence) = bench.start(*id);
            bench.finish(*id, fence, Then::Park { reason: "reason".into() });
        }
        for (limit, count, more) in [(64, 64, true), (200, 200, false), (1_000, 200, false)] {
            let parked = look(bench, limit).parked.unwrap();
            assert_eq!((parked.by_handler[0].1, parked.more), (count, more), "{limit}");
        }
    });
}

#[test]
fn a_look_shows_nodes_with_what_they_say_of_themselves_and_who_owns_what() {
    for_each_store(|bench| {
        bench.later(SECOND);
        let renew = |report| Request::Keep(Keep::Renew { node: NODE, report });
        bench.one(renew(Some(r#"{"name":"ä"}"#.into())));
        bench.later(SECOND);
        bench.one(renew(None));
        bench.write(Write::Pause { handler: "handler".into(), paused: true });
        bench.later(SECOND);
        let seen = look(bench, 10);
        let [node] = &seen.nodes[..] else { panic!("{:?}", seen.nodes) };
        assert_eq!((node.id, node.serves), (NODE, true));
        assert_eq!((node.joined.0, node.renewed.0), (START, START + 2 * SECOND));
        assert_eq!(node.report.as_deref(), Some(r#"{"name":"ä"}"#), "the last that it said");
        assert_eq!(seen.buckets[0], (0, Some(NODE), bench.epoch));
        assert_eq!(seen.paused, ["handler".into()]);

        bench.one(Request::Keep(Keep::Leave { node: NODE }));
        let seen = look(bench, 10);
        assert!(seen.nodes.is_empty());
        assert_eq!(seen.buckets[0].1, None);
    });
}

#[test]
fn a_page_of_one_handler_looks_at_no_more_than_it_may_and_says_where_to_go_on() {
    for_each_store(|bench| {
        let mut ids = Vec::new();
        for number in 0..10 {
            let handler = if number % 5 == 4 { "rare" } else { "handler" };
            let timer = NewTimer { handler: handler.into(), ..bench.timer(0) };
            ids.push(timer.id);
            bench.schedule(vec![timer]);
            let (_, fence) = bench.start(ids[number]);
            bench.finish(ids[number], fence, Then::Park { reason: "reason".into() });
        }
        let mut page = |after, limit, scan| {
            let (page, next) = bench.parked_of(Some("rare"), after, limit, scan);
            (page.iter().map(|timer| timer.id).collect::<Vec<_>>(), next)
        };
        assert_eq!(page(0, 10, 3), (vec![], Some(ids[2])));
        assert_eq!(page(ids[2], 10, 3), (vec![ids[4]], Some(ids[5])));
        assert_eq!(page(0, 1, 100), (vec![ids[4]], Some(ids[4])));
        assert_eq!(page(ids[4], 1, 100), (vec![ids[9]], None));
        assert_eq!(page(0, 10, 100), (vec![ids[4], ids[9]], None));
    });
}

#[test]
fn the_views_of_a_file_show_the_next_thousand_timers_of_each_group() {
    let directory = tempdir::Directory::new("views");
    let path = directory.file();
    for group in ["one", "two"] {
        let clock = Arc::new(|| Timestamp(START));
        let mut store =
            SqliteStore::open_with(&path, None, group, Synchronous::Normal, clock).unwrap();
        let mut bench = Bench::memory();
        bench.next_id = if group == "one" { 1 } else { 10_000 };
        let timers = (0..1_500).map(|number| bench.timer(number * SECOND)).collect();
        store.transact(&[Request::Write(Write::Schedule(Arc::new(timers)))]).unwrap();
    }
    let file = rusqlite::Connection::open(&path).unwrap();
    let number = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("SELECT count(*) FROM lars_group"), 2);
    assert_eq!(number("SELECT count(*) FROM lars_overview"), 2_000);
    assert_eq!(number("SELECT min(pending) FROM lars_by_handler"), 1_000);
    let plan = file
        .prepare("EXPLAIN QUERY PLAN SELECT * FROM lars_overview")
        .unwrap()
        .query_map([], |row| row.get::<_, String>(3))
        .unwrap()
        .map(Result::unwrap)
        .collect::<Vec<_>>()
        .join("; ");
    assert!(!plan.contains("SCAN t"), "{plan}");
    assert!(!plan.contains("SCAN n"), "{plan}");
    assert!(!plan.contains("SCAN lars_timer"), "{plan}");
}

#[test]
fn a_batch_that_only_shows_timers_of_a_file_writes_nothing_into_its_log() {
    let directory = tempdir::Directory::new("shown");
    let (path, clock) = (directory.file(), Arc::new(|| Timestamp(START)));
    let mut store =
        SqliteStore::open_with(&path, None, "default", Synchronous::Normal, clock).unwrap();
    let log = directory.path().join("timers.db-wal");
    let length = || std::fs::metadata(&log).unwrap().len();
    let batch = |token| Request::Batch { writer: 1, token, history: None };
    let shown = || Request::Write(Write::Get { which: "key".into() });
    let select = Arc::new(Select::of(States::ALL, 10, 10));
    let page = Write::Select { select, act: Act::List };
    let before = length();
    store.transact(&[batch(1), shown(), Request::Write(page)]).unwrap();
    assert_eq!(length(), before);
    let pause = Write::Pause { handler: "handler".into(), paused: true };
    store.transact(&[batch(2), shown(), Request::Write(pause)]).unwrap();
    assert!(length() > before, "what changes something is in the log");
}
