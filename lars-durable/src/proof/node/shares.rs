//! Handlers that share a node: what one of them has waiting, or running, stops no other.

use super::*;

/// Many more timers than these tests let into memory, or run at a time.
const BACKLOG: usize = 2_000;

/// A timer of the handler `other`.
fn other(bench: &Bench, due: i64, payload: &str) -> NewTimer {
    NewTimer { handler: "other".into(), ..bench.timer(due, payload, None) }
}

/// Two handlers that share a memory of a hundred timers.
fn two_handlers() -> Bench {
    Bench::with(|settings| {
        settings.handlers.push(HandlerSettings::new("other", 1_000));
        settings.max_resident = 100;
    })
}

/// `count` timers that are due together.
fn backlog(bench: &mut Bench, due: i64, count: usize) {
    bench.schedule_many("handler", due, count);
}

fn pause(bench: &mut Bench, paused: bool) {
    bench.call(Write::Pause { handler: "handler".into(), paused });
}

/// Timers of the other handler, one each half second, from `first` on.
fn checks(bench: &mut Bench, first: i64) {
    for number in 0..20 {
        let check = other(bench, first + number * SECOND / 2, "check");
        bench.call(Write::Schedule(Arc::new(vec![check])));
    }
}

/// How many of them have run, each at its time.
fn punctual(bench: &Bench) -> usize {
    let checks = bench.seen.iter().filter(|(text, ..)| text == "check");
    checks.filter(|(_, planned, begun, _)| begun == planned).count()
}

#[test]
fn a_paused_handler_whose_backlog_fills_the_memory_delays_no_other_and_runs_in_order_after_it() {
    let mut bench = two_handlers();
    pause(&mut bench, true);
    backlog(&mut bench, SECOND, BACKLOG);
    checks(&mut bench, 2 * SECOND);
    bench.run_until(15 * SECOND, done);
    assert_eq!((punctual(&bench), bench.seen.len()), (20, 20), "{:?}", bench.texts());
    assert!(bench.most_resident <= 100, "{}", bench.most_resident);
    assert!(bench.node().waiting(0).1, "what waits for memory is said");
    pause(&mut bench, false);
    bench.run_until(20 * SECOND, done);
    let backlog: Vec<i64> = bench.texts()[20..].iter().map(|it| it.parse().unwrap()).collect();
    assert_eq!(backlog.len(), BACKLOG);
    assert!(backlog.is_sorted(), "in the order of the identities");
}

#[test]
fn what_waits_in_the_store_behind_another_handlers_backlog_is_found_after_a_start() {
    let mut bench = two_handlers();
    pause(&mut bench, true);
    backlog(&mut bench, SECOND, BACKLOG);
    let (late, soon) = (other(&bench, 2 * SECOND, "late"), other(&bench, 40 * SECOND, "check"));
    bench.call(Write::Schedule(Arc::new(vec![late, soon])));
    bench.move_to(20 * SECOND);
    bench.live();
    bench.run_until(60 * SECOND, done);
    assert_eq!(bench.texts(), ["late", "check"]);
    assert_eq!(punctual(&bench), 1);
}

#[test]
fn a_handler_whose_runs_never_end_keeps_no_other_from_its_places() {
    let mut bench = two_handlers();
    bench.settings.max_in_flight = 16;
    bench.settings.max_resident = 1_000;
    bench.live();
    bench.run_until(30 * SECOND, done);
    let before = bench.now;
    bench.stuck = Some("handler");
    backlog(&mut bench, before, 500);
    checks(&mut bench, before + SECOND);
    bench.run_until(before + 15 * SECOND, done);
    assert_eq!(punctual(&bench), 20, "{:?}", bench.texts());
    assert_eq!(bench.node().counts().in_flight, 14, "a quarter is kept, for two");
}

#[test]
fn timers_for_later_that_fill_the_memory_make_room_for_one_that_is_due_now() {
    let mut bench = Bench::with(|settings| settings.max_resident = 100);
    backlog(&mut bench, 20 * SECOND, BACKLOG);
    for number in 1..=10 {
        bench.schedule(number * SECOND, "check", None);
    }
    bench.run_until(15 * SECOND, done);
    assert_eq!((punctual(&bench), bench.seen.len()), (10, 10));
    bench.run_until(30 * SECOND, done);
    assert_eq!(bench.seen.len(), BACKLOG + 10);
    assert!(bench.most_resident <= 100, "{}", bench.most_resident);
}

#[test]
fn what_was_cancelled_or_moved_while_it_was_left_in_the_store_is_as_it_was_told() {
    let mut bench = two_handlers();
    pause(&mut bench, true);
    backlog(&mut bench, SECOND, 500);
    for name in ["cancelled", "moved", "stays"] {
        bench.schedule(2 * SECOND, name, None);
    }
    bench.run_until(5 * SECOND, done);
    bench.call(Write::Cancel { which: "key cancelled 2000000".into() });
    let when = When::At(Timestamp(START + 8 * SECOND));
    bench.call(Write::Reset { which: "key moved 2000000".into(), when });
    pause(&mut bench, false);
    bench.run_until(7 * SECOND, done);
    assert_eq!((bench.seen.len(), bench.texts()[500]), (501, "stays"));
    bench.run_until(10 * SECOND, done);
    assert_eq!((bench.seen.len(), bench.texts()[501]), (502, "moved"));
    assert_eq!(bench.seen[501].2, 8 * SECOND);
}

/// A program that puts an order into the name of a handler, which no node has.
#[test]
fn more_names_of_handlers_than_can_be_told_apart_delay_nobody_and_none_of_their_timers_is_lost() {
    const NAMES: usize = 70_000;
    let mut bench = Bench::new();
    for batch in 0..NAMES / 1_000 {
        let timers = (0..1_000).map(|number| {
            let handler = format!("order {}", batch * 1_000 + number).into();
            NewTimer { handler, key: None, ..bench.timer(SECOND, "x", None) }
        });
        let timers = Arc::new(timers.collect());
        bench.call(Write::Schedule(timers));
    }
    for number in 2..12 {
        bench.schedule(number * SECOND, "check", None);
    }
    bench.run_until(15 * SECOND, done);
    assert_eq!((punctual(&bench), bench.seen.len()), (10, 10));
    let all = Request::Load {
        bucket: 0,
        after: (Timestamp::MIN, i64::MIN),
        until: Timestamp::NEVER,
        limit: usize::MAX,
        letters: Letters::default(),
    };
    let reply = bench.store.transact(&[all]).unwrap().replies.pop();
    let Some(Reply::Loaded(left)) = reply else { panic!("{reply:?}") };
    assert_eq!(left.len(), NAMES);
}

/// Numbers are timers of one recipient; all others have one of their own.
fn recipient(text: &str) -> Recipient {
    Recipient::of(if text.parse::<u32>().is_ok() { "long" } else { text })
}

#[test]
fn a_recipient_whose_runs_never_end_keeps_no_other_of_its_handler_from_a_place() {
    let mut bench = Bench::with(|settings| {
        settings.handlers[0].recipient = Some(recipient);
        settings.max_in_flight = 64;
    });
    bench.stuck = Some("handler");
    backlog(&mut bench, SECOND, BACKLOG);
    bench.run_until(2 * SECOND, done);
    assert_eq!(bench.stuck_runs.len(), 60, "a quarter of a quarter is kept");
    for name in ["a", "b", "a", "c", "d"] {
        bench.schedule(bench.now + SECOND, name, None);
        bench.run_until(bench.now + 2 * SECOND, done);
    }
    assert_eq!(bench.stuck_runs.len(), 64);
    // What is free again is the long line's only if that leaves enough for others.
    bench.stuck = None;
    let (id, fence) = bench.stuck_runs[0];
    let now = Mono(bench.now);
    bench.node().ended(now, id, fence, RunEnd::Done);
    bench.run_until(bench.now + SECOND, done);
    assert_eq!(bench.texts(), ["d"]);
}

#[test]
fn what_each_recipient_has_runs_in_its_order_whoever_has_more() {
    let mut bench = Bench::with(|settings| {
        settings.handlers[0].recipient = Some(|text| Recipient::of(&text[..1]));
        settings.handlers[0].concurrency = 8;
    });
    let mut rng = fastrand::Rng::with_seed(11);
    for number in 0..600 {
        let whose = ["a", "a", "a", "a", "b", "c"][rng.usize(..6)];
        bench.schedule(SECOND * rng.i64(1..4), &format!("{whose}{number:03}"), None);
    }
    bench.run_until(10 * SECOND, done);
    assert_eq!(bench.seen.len(), 600);
    for whose in ["a", "b", "c"] {
        let own = bench.seen.iter().filter(|(text, ..)| text.starts_with(whose));
        let own: Vec<(i64, &str)> = own.map(|(text, due, ..)| (*due, text.as_str())).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
}

#[test]
fn timers_that_nobody_handles_are_put_off_a_batch_at_a_time_however_many_are_due_together() {
    let mut bench = Bench::new();
    bench.schedule_many("unknown", SECOND, 5_500);
    bench.schedule(2 * SECOND, "check", None);
    bench.run_until(3 * SECOND, done);
    assert_eq!(bench.most_named, bench.settings.batch);
    assert_eq!(bench.texts(), ["check"]);
    assert_eq!(bench.node().counts().resident, 5_500, "all of them, until later");
}

#[test]
fn timers_of_which_others_tell_are_read_a_batch_at_a_time_and_all_run() {
    let mut bench = Bench::new();
    // As another node makes them.
    let timer = |id| NewTimer { id, ..bench.timer(2 * SECOND, &id.to_string(), None) };
    let write = Write::Schedule(Arc::new((10_001..=15_500).map(timer).collect()));
    bench.store.transact(&[Request::Write(write)]).unwrap();
    bench.node().notified((10_001..=15_500).map(|id| (0, id)));
    bench.run_until(SECOND, done);
    assert_eq!(bench.most_named, bench.settings.batch);
    assert_eq!(bench.node().counts().resident, 5_500);
}
