//! Series that end by themselves, or because their handler says so.

use super::leases::OTHER;
use super::*;
use crate::model::End;

/// A series at a fixed rate of a second.
fn every_second(missed: MissedTick) -> Series {
    Series::FixedRate { every: SECOND, missed }
}

fn times(times: u64) -> End {
    End { until: None, times: Some(times) }
}

fn until(time: i64) -> End {
    End { until: Some(START + time), times: None }
}

/// When the runs were planned for, in seconds.
fn planned(bench: &Bench) -> Vec<i64> {
    bench.seen.iter().map(|(_, planned, ..)| planned / SECOND).collect()
}

fn is_empty(bench: &mut Bench) -> bool {
    let all = Request::Load {
        bucket: 0,
        after: (Timestamp::MIN, i64::MIN),
        until: Timestamp::NEVER,
        limit: 1,
        letters: Letters::default(),
    };
    let reply = bench.store.transact(&[all]).unwrap().replies.pop();
    matches!(reply, Some(Reply::Loaded(rows)) if rows.is_empty())
}

#[test]
fn a_series_ends_after_so_many_runs_however_often_each_is_tried_and_also_if_one_is_parked() {
    let mut bench = Bench::with(|settings| settings.handlers[0].max_attempts = 3);
    bench.schedule(SECOND, "x", Some(every_second(MissedTick::Burst).with_end(times(4))));
    // The first is tried twice, and the second is given up.
    let end = |launch: &Launch| match (launch.row.run, launch.row.attempt) {
        (0, 1) | (1, _) => RunEnd::Retry { error: "failed".into() },
        _ => RunEnd::Done,
    };
    bench.run_until(60 * SECOND, end);
    let tries: Vec<(i64, u32)> =
        bench.seen.iter().map(|(_, planned, _, attempt)| (planned / SECOND, *attempt)).collect();
    assert_eq!(tries, [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (4, 1)]);
    assert_eq!(bench.parked().len(), 1);
    assert!(is_empty(&mut bench));
}

#[test]
fn a_last_run_that_is_given_up_is_parked_with_its_series_which_is_over_when_it_succeeds() {
    let mut bench = Bench::with(|settings| settings.handlers[0].max_attempts = 1);
    bench.schedule(SECOND, "x", Some(every_second(MissedTick::Burst).with_end(times(2))));
    bench.run_until(60 * SECOND, |launch| match launch.row.run {
        0 => RunEnd::Done,
        _ => RunEnd::Retry { error: "failed".into() },
    });
    assert_eq!((planned(&bench), bench.parked().len()), (vec![1, 2], 1));
    bench.call(Write::RetryParked { id: 1 });
    bench.run_until(120 * SECOND, done);
    assert_eq!((planned(&bench).len(), bench.parked().len()), (3, 0));
    assert!(is_empty(&mut bench));
}

#[test]
fn a_series_ends_before_the_first_run_that_is_planned_for_later_than_its_end() {
    for (end, expected) in
        [(4 * SECOND, vec![1, 2, 3, 4]), (4 * SECOND - 1, vec![1, 2, 3]), (SECOND, vec![1])]
    {
        let mut bench = Bench::new();
        bench.schedule(SECOND, "x", Some(every_second(MissedTick::Burst).with_end(until(end))));
        bench.run_until(60 * SECOND, done);
        assert_eq!(planned(&bench), expected, "{end}");
        assert!(is_empty(&mut bench));
    }
    // From the end of each run: 1, 3, 5 s.
    let mut bench = Bench::new();
    let rule = Series::FixedDelay { delay: 2 * SECOND };
    bench.schedule(SECOND, "x", Some(rule.with_end(until(6 * SECOND))));
    bench.run_until(60 * SECOND, done);
    assert_eq!(planned(&bench), [1, 3, 5]);
    assert!(is_empty(&mut bench));
}

/// A series of a second up to 10 s whose process is down from 3.5 s on, and back at `back`.
fn down_until(back: i64, missed: MissedTick) -> Vec<i64> {
    let mut bench = Bench::new();
    let rule = every_second(missed).with_end(until(10 * SECOND));
    bench.schedule(SECOND, "x", Some(rule));
    bench.run_until(3 * SECOND + SECOND / 2, done);
    bench.node().close();
    bench.turn();
    assert!(bench.closed);
    bench.alarms.clear();
    bench.move_to(back);
    bench.live();
    bench.run_until(back + 60 * SECOND, done);
    assert!(is_empty(&mut bench));
    planned(&bench)
}

#[test]
fn what_was_planned_by_the_end_and_missed_is_made_up_for_after_it_and_nothing_more() {
    let all: Vec<i64> = (1..=10).collect();
    assert_eq!(down_until(20 * SECOND, MissedTick::Burst), all);
    assert_eq!(down_until(20 * SECOND, MissedTick::Skip), [1, 2, 3, 4]);
    assert_eq!(down_until(8 * SECOND + 1, MissedTick::Burst), all);
    assert_eq!(down_until(8 * SECOND + 1, MissedTick::Skip), [1, 2, 3, 4, 9, 10]);
}

#[test]
fn what_is_left_out_or_passed_over_is_no_run() {
    let minute = 60 * SECOND;
    let mut bench = Bench::new();
    let missed = MissedRuns::Skip(Duration::from_secs(60));
    let rule = cron_series("*/10 * * * *", "UTC", missed, Duration::ZERO).unwrap();
    bench.schedule(10 * minute, "x", Some(rule.with_end(times(4))));
    bench.run_until(25 * minute, done);
    bench.node().close();
    bench.turn();
    bench.alarms.clear();
    // 30 is left out, 40 and 50 were never planned.
    bench.move_to(55 * minute);
    bench.live();
    bench.run_until(300 * minute, done);
    let minutes: Vec<i64> = planned(&bench).iter().map(|second| second / 60).collect();
    assert_eq!(minutes, [10, 20, 60, 70]);
    assert_eq!(bench.node().counts().skipped, 1);
    assert!(is_empty(&mut bench));
}

#[test]
fn a_run_that_was_moved_behind_the_end_runs_and_is_the_last() {
    let mut bench = Bench::new();
    let rule = every_second(MissedTick::Burst).with_end(until(5 * SECOND));
    bench.schedule(SECOND, "x", Some(rule));
    bench.run_until(2 * SECOND, done);
    let when = When::At(Timestamp(START + 30 * SECOND));
    bench.call(Write::Reset { which: Which::Id(1), when });
    bench.run_until(60 * SECOND, done);
    assert_eq!(planned(&bench), [1, 2, 30]);
    assert!(is_empty(&mut bench));
}

/// The third run says that it is the last.
fn last_at_three(launch: &Launch) -> RunEnd {
    if launch.row.run == 2 { RunEnd::Last } else { RunEnd::Done }
}

#[test]
fn a_handler_ends_its_series_whether_the_row_is_still_there_or_has_gone_on() {
    for at_most_once in [false, true] {
        let mut bench = Bench::with(|settings| settings.handlers[0].at_most_once = at_most_once);
        bench.schedule(SECOND, "x", Some(every_second(MissedTick::Burst)));
        bench.schedule(SECOND, "once", None);
        bench.run_until(60 * SECOND, |launch| match &*launch.row.payload {
            "x" => last_at_three(launch),
            _ => RunEnd::Last,
        });
        let texts = bench.texts();
        let count = |text| texts.iter().filter(|it| **it == text).count();
        assert_eq!((count("x"), count("once")), (3, 1), "{at_most_once}");
        assert!(is_empty(&mut bench));
    }
}

#[test]
fn a_handler_that_has_acknowledged_its_run_itself_ends_its_series_if_that_was_committed() {
    for commits in [true, false] {
        let mut bench = Bench::with(|settings| settings.handlers[0].max_attempts = 2);
        bench.schedule(SECOND, "x", Some(every_second(MissedTick::Burst)));
        bench.run_until(SECOND - 1, done);
        let launch = bench.launched[0].clone();
        let (id, fence) = (launch.row.id, launch.fence);
        if commits {
            let then = launch.row.after_success(Timestamp(START + SECOND));
            let finish = crate::model::Finish { id, fence, then };
            bench.store.transact(&[Request::Finish(vec![finish])]).unwrap();
        }
        bench.node().acknowledged(id, fence);
        bench.run_until(SECOND, |_| RunEnd::Last);
        bench.run_until(4 * SECOND, done);
        let expected = if commits { vec![1] } else { vec![1, 1, 2, 3, 4] };
        assert_eq!(planned(&bench), expected, "what was rolled back has not ended it");
        assert_eq!(is_empty(&mut bench), commits);
    }
}

#[test]
fn an_end_that_could_not_be_recorded_is_recorded_when_the_store_is_back_before_the_next_run() {
    let mut bench = Bench::with(|settings| settings.handlers[0].at_most_once = true);
    bench.schedule(SECOND, "x", Some(every_second(MissedTick::Burst)));
    bench.run_until(SECOND - 1, done);
    bench.stalled = true;
    bench.run_until(2 * SECOND, |_| RunEnd::Last);
    bench.stalled = false;
    // What was sent meanwhile never arrived.
    for lane in [Lane::Runner, Lane::Writer] {
        let now = Mono(bench.now);
        bench.node().replied(lane, now, Err(StoreError::nothing_done("away")));
    }
    bench.run_until(60 * SECOND, done);
    assert_eq!(planned(&bench), [1]);
    assert!(is_empty(&mut bench));
}

/// The first run of a series of a second has ended itself in a transaction, which was committed or
/// not; its handler says that it is the last, and the answer to its finish is lost.
fn last_whose_answer_is_lost(commits: bool, attempts: u32) -> Bench {
    let mut bench = Bench::with(|settings| settings.handlers[0].max_attempts = attempts);
    bench.schedule(SECOND, "x", Some(every_second(MissedTick::Burst)));
    bench.run_until(SECOND - 1, done);
    let launch = bench.launched[0].clone();
    let (id, fence) = (launch.row.id, launch.fence);
    if commits {
        let then = launch.row.after_success(Timestamp(START + SECOND));
        let finish = crate::model::Finish { id, fence, then };
        bench.store.transact(&[Request::Finish(vec![finish])]).unwrap();
    }
    bench.node().acknowledged(id, fence);
    bench.move_to(SECOND);
    bench.turn();
    bench.loses = Some(Lane::Runner);
    let launch = bench.launched.remove(0);
    bench.seen.push(("x".into(), SECOND, bench.now, launch.row.attempt));
    let now = Mono(bench.now);
    bench.node().ended(now, id, fence, RunEnd::Last);
    bench.turn();
    assert_eq!(bench.loses, None, "it was the finish");
    bench
}

#[test]
fn a_last_run_whose_transaction_was_rolled_back_ends_no_series_although_an_answer_is_lost() {
    for commits in [true, false] {
        let mut bench = last_whose_answer_is_lost(commits, 2);
        bench.run_until(4 * SECOND, done);
        let expected = if commits { vec![1] } else { vec![1, 1, 2, 3, 4] };
        assert_eq!(planned(&bench), expected, "{commits}");
        assert_eq!(is_empty(&mut bench), commits);
        let counts = bench.node().counts();
        let expected = if commits { (1, 0) } else { (4, 1) };
        assert_eq!((counts.done, counts.retried), expected, "{commits}");
    }
}

#[test]
fn a_last_run_that_was_rolled_back_and_is_given_up_ends_no_series_although_an_answer_is_lost() {
    let mut bench = last_whose_answer_is_lost(false, 1);
    bench.run_until(4 * SECOND, done);
    assert_eq!(planned(&bench), [1, 2, 3, 4]);
    assert_eq!((bench.parked().len(), bench.told.len()), (1, 1));
}

#[test]
fn a_last_run_that_another_owner_has_repeated_ends_no_series() {
    let mut bench = Bench::new();
    bench.schedule(SECOND, "x", Some(every_second(MissedTick::Burst)));
    bench.run_until(SECOND - 1, done);
    let launch = bench.launched.remove(0);
    let (id, fence) = (launch.row.id, launch.fence);
    bench.node().acknowledged(id, fence);
    // Frozen in its transaction, which is rolled back; another node repeats that run, and the
    // series goes on.
    let newer = Fence::new(bench.lose_bucket(), 1);
    bench.move_to(SECOND);
    let starts = vec![crate::model::Start { id, bucket: 0, fence: newer }];
    let start = Request::Start { node: OTHER, lead: Micros::ZERO, starts };
    let then = launch.row.after_success(Timestamp(START + SECOND));
    let finish = Request::Finish(vec![crate::model::Finish { id, fence: newer, then }]);
    bench.store.transact(&[start, finish]).unwrap();

    let now = Mono(bench.now);
    bench.node().ended(now, id, fence, RunEnd::Last);
    bench.turn();
    assert!(!is_empty(&mut bench), "its second run is to come");
    assert_eq!((bench.node().counts().stale, bench.node().counts().done), (1, 0));
}

#[test]
fn a_new_rule_whose_answer_comes_before_that_to_the_start_plans_the_next_run() {
    let mut bench = Bench::new();
    bench.schedule(SECOND, "x", Some(every_second(MissedTick::Burst)));
    bench.run_until(SECOND - 6_000, done);
    bench.move_to(SECOND - 4_000);
    let now = Mono(bench.now);
    bench.node().turn(now);
    let sent = bench.node().take_outputs().into_iter().find_map(|output| match output {
        Output::Send { lane: Lane::Runner, requests } => Some(requests),
        _ => None,
    });
    let started = bench.store.transact(&sent.unwrap());
    let missed = MissedTick::Burst;
    let rule = Series::FixedRate { every: 10 * SECOND, missed };
    let conflict = OnConflict::Update;
    let timer = NewTimer { conflict, ..bench.timer(SECOND, "x", Some(rule)) };
    bench.call(Write::Schedule(Arc::new(vec![timer])));
    assert_eq!(bench.answers.len(), 2);
    bench.node().replied(Lane::Runner, now, started);
    bench.run_until(12 * SECOND, done);
    assert_eq!(planned(&bench), [1, 11]);
}
