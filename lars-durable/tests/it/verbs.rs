//! The calls, as users see them, over both stores.

use crate::common;

use std::time::{Duration, SystemTime};

use common::{Directory, LONG, Note, assert_same, note, on_each_store, refused, telling};
use lars_durable::schedule::{Cancel, Once, Placement, Schedule};
use lars_durable::{Durable, Error, Fired, OnConflict, Refused, Timers};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_timer_runs_once_with_what_it_carries_and_never_before_its_time() {
    on_each_store("once", |builder| {
        let (sender, seen) = std::sync::mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let handler = move |due: &Fired<Note>| {
            let early = SystemTime::now() < due.due();
            let told =
                (due.payload().0.clone(), due.key().map(str::to_owned), due.attempt(), early);
            sender.lock().unwrap().send(told).unwrap();
        };
        let durable = builder.handle(handler).start().unwrap();
        let timers = durable.timers();
        let accepted = timers
            .schedule_once(Duration::from_millis(30), note("ä"))
            .key("ключ")
            .submit()
            .wait()
            .unwrap();
        assert_eq!(accepted.placement, Placement::New);
        let told = seen.recv_timeout(LONG).unwrap();
        assert_eq!(told, ("ä".into(), Some("ключ".into()), 1, false));
        durable.close().unwrap();
        assert!(seen.try_recv().is_err(), "once");
    });
}

#[test]
fn a_time_of_day_that_has_passed_is_now() {
    on_each_store("past", |builder| {
        let (tell, seen) = telling();
        let durable = builder.handle(tell).start().unwrap();
        let past = SystemTime::now() - HOUR;
        durable.timers().schedule_at(past, note("past")).submit().wait().unwrap();
        assert_eq!(seen.recv_timeout(LONG).unwrap().text, "past");
    });
}

#[test]
fn the_longest_delay_is_kept_and_never_comes_due() {
    on_each_store("longest", |builder| {
        let durable = builder.start().unwrap();
        let timers = durable.timers();
        timers.schedule_once(Duration::MAX, note("never")).key("never").submit().wait().unwrap();
        let kept = timers.get("never").wait().unwrap().unwrap();
        assert_eq!(kept.deadline, None);
    });
}

#[test]
fn a_fixed_delay_and_a_fixed_rate_go_on_until_they_are_cancelled() {
    on_each_store("repeats", |builder| {
        let (tell, seen) = telling();
        let durable = builder.handle(tell).start().unwrap();
        let timers = durable.timers();
        let (first, every) = (Duration::ZERO, Duration::from_millis(5));
        timers.schedule_with_fixed_delay(first, every, note("d")).key("d").submit().wait().unwrap();
        timers.schedule_at_fixed_rate(first, every, note("r")).key("r").submit().wait().unwrap();
        let (mut delays, mut rates) = (0, 0);
        while delays < 5 || rates < 5 {
            match seen.recv_timeout(LONG).unwrap().text.as_str() {
                "d" => delays += 1,
                _ => rates += 1,
            }
        }
        for key in ["d", "r"] {
            // The run that is recorded is the last.
            while timers.cancel(key).wait().unwrap() == Cancel::Running {}
            assert_eq!(timers.get(key).wait().unwrap(), None);
        }
        durable.close().unwrap();
    });
}

#[test]
fn a_cron_expression_is_checked_by_the_call_and_waits_for_its_next_occurrence() {
    on_each_store("cron", |builder| {
        let durable = builder.start().unwrap();
        let timers = durable.timers();
        let wrong = timers.schedule_by_cron("0 24 * * *", "UTC", note("never")).submit().wait();
        assert!(refused(wrong).to_string().contains("hour"));
        let wrong = timers.schedule_by_cron("0 9 * * *", "Mars/Olympus", note("x")).submit().wait();
        assert!(refused(wrong).to_string().contains("Mars/Olympus"));
        let monday = timers.schedule_by_cron("0 9 * * MON", "Europe/Berlin", note("report"));
        monday.key("report").spread(Duration::from_secs(120)).submit().wait().unwrap();
        let timer = timers.get("report").wait().unwrap().unwrap();
        assert!(timer.rule.is_some());
        let wait = timer.deadline.unwrap().duration_since(SystemTime::now()).unwrap();
        assert!(wait < 8 * 24 * HOUR);
    });
}

#[test]
fn a_cron_of_every_second_runs_each_second() {
    on_each_store("seconds", |builder| {
        let (tell, seen) = telling();
        let durable = builder.handle(tell).start().unwrap();
        let timers = durable.timers();
        timers
            .schedule_by_cron("* * * * * *", "UTC", note("tick"))
            .key("t")
            .submit()
            .wait()
            .unwrap();
        for _ in 0..2 {
            assert_eq!(seen.recv_timeout(LONG).unwrap().text, "tick");
        }
    });
}

#[test]
fn keys_keep_replace_or_fail_by_name() {
    on_each_store("keys", |builder| {
        let durable = builder.start().unwrap();
        let timers = durable.timers();
        let make = |text: &str, conflict| {
            timers.schedule_once(HOUR, note(text)).key("key").on_conflict(conflict).submit().wait()
        };
        let first = make("first", OnConflict::Fail).unwrap();
        let kept = make("second", OnConflict::Keep).unwrap();
        assert_eq!((kept.id, kept.placement), (first.id, Placement::Kept));
        assert_eq!(
            refused(make("third", OnConflict::Fail)),
            Refused::KeyTaken { key: "key".into() }
        );
        let replaced = make("fourth", OnConflict::Replace).unwrap();
        assert_eq!(replaced.placement, Placement::Replaced);
        let timer = timers.get("key").wait().unwrap().unwrap();
        assert_eq!((timer.id, timer.payload.as_str()), (replaced.id, "\"fourth\""));
    });
}

#[test]
fn groups_do_not_see_each_others_keys_and_timers() {
    let directory = Directory::new("groups");
    for group in ["one", "two"] {
        let durable = Durable::sqlite(directory.file()).group(group).start().unwrap();
        let timers = durable.timers();
        assert_eq!(timers.get("key").wait().unwrap(), None, "{group}");
        let made = timers.schedule_once(Duration::ZERO, note(group)).key("key").submit().wait();
        assert_eq!(made.unwrap().placement, Placement::New);
        durable.close().unwrap();
    }
    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).group("two").handle(tell).start().unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap().text, "two");
    durable.close().unwrap();
    assert!(seen.try_recv().is_err(), "the other group's timer waits");
}

#[test]
fn a_reset_moves_the_deadline_both_ways_and_says_whether_it_did() {
    on_each_store("reset", |builder| {
        let (tell, seen) = telling();
        let durable = builder.handle(tell).start().unwrap();
        let timers = durable.timers();
        let idle = |after| {
            timers.schedule_once(after, note("idle")).key("idle").submit().wait().unwrap();
            timers.reset("idle", HOUR).wait().unwrap()
        };
        // A machine that stands still may run it before it is reset: later then.
        let mut after = Duration::from_millis(50);
        while !idle(after) {
            assert_eq!(seen.recv_timeout(LONG).unwrap().text, "idle");
            while timers.get("idle").wait().unwrap().is_some() {}
            after *= 4;
            assert!(after < LONG, "it is never reset");
        }
        assert!(seen.recv_timeout(Duration::from_millis(200)).is_err(), "the old deadline is over");
        assert!(timers.reset("idle", Duration::from_millis(10)).wait().unwrap());
        assert_eq!(seen.recv_timeout(LONG).unwrap().text, "idle");
        assert!(!timers.reset("nobody", HOUR).wait().unwrap());
    });
}

#[test]
fn a_timer_without_a_key_is_found_moved_and_cancelled_by_its_identity() {
    on_each_store("identity", |builder| {
        let (tell, seen) = telling();
        let durable = builder.handle(tell).start().unwrap();
        let timers = durable.timers();
        let keyless = |text| timers.schedule_once(HOUR, note(text)).submit().wait().unwrap().id;
        let (moved, cancelled) = (keyless("moved"), keyless("cancelled"));
        assert_eq!(timers.get(moved).wait().unwrap().unwrap().payload, "\"moved\"");
        assert!(timers.reset(cancelled, 2 * HOUR).wait().unwrap());
        assert_eq!(timers.cancel(cancelled).wait().unwrap(), Cancel::Prevented);
        assert_eq!(timers.cancel(cancelled).wait().unwrap(), Cancel::NotFound);
        assert!(!timers.reset(cancelled, HOUR).wait().unwrap());
        assert!(timers.reset(moved, Duration::ZERO).wait().unwrap());
        assert_eq!(seen.recv_timeout(LONG).unwrap().text, "moved");
        for no_timer in [0, moved, u64::MAX] {
            while timers.get(no_timer).wait().unwrap().is_some() {}
            assert_eq!(timers.cancel(no_timer).wait().unwrap(), Cancel::NotFound);
        }
        durable.close().unwrap();
    });
}

#[test]
fn a_batch_is_made_whole_or_not_at_all() {
    on_each_store("batch", |builder| {
        let (tell, seen) = telling();
        let durable = builder.handle(tell).start().unwrap();
        let timers = durable.timers();
        let all = |timers: &Timers, count: u32| -> Vec<Schedule<Once>> {
            let one = |n: u32| timers.schedule_once(Duration::ZERO, note(&n.to_string()));
            (0..count).map(one).collect()
        };
        for count in [0, 1, 7, 1_000, 3_000] {
            let accepted = timers.schedule_batch(all(&timers, count)).wait().unwrap();
            assert_eq!(accepted.len(), count as usize);
            let mut texts: Vec<u32> = (0..count)
                .map(|_| seen.recv_timeout(LONG).unwrap().text.parse().unwrap())
                .collect();
            texts.sort_unstable();
            assert_same(&texts, &(0..count).collect::<Vec<_>>());
        }
        let mut wrong = all(&timers, 3);
        wrong.push(timers.schedule_once(HOUR, note("x")).key(""));
        assert_eq!(refused(timers.schedule_batch(wrong).wait()), Refused::KeyEmpty);
        durable.close().unwrap();
        assert!(seen.try_recv().is_err());
    });
}

#[test]
fn every_limit_is_an_error_with_the_value_and_the_limit() {
    on_each_store("limits", |builder| {
        let durable = builder.start().unwrap();
        let timers = durable.timers();
        let key = |key: String| timers.schedule_once(HOUR, note("x")).key(key).submit().wait();
        assert_eq!(refused(key("k".repeat(513))), Refused::KeySize { given: 513, max: 512 });
        assert_eq!(refused(key("a\0b".into())), Refused::KeyNul { position: 1 });
        assert_eq!(refused(key(String::new())), Refused::KeyEmpty);
        assert!(key("k".repeat(512)).is_ok());

        let sized =
            |size: usize| timers.schedule_once(HOUR, note(&"x".repeat(size - 2))).submit().wait();
        assert!(sized(65_536).is_ok());
        let too_long = Refused::PayloadSize { given: 65_537, max: 65_536 };
        assert_eq!(refused(sized(65_537)), too_long);

        let zero = timers.schedule_at_fixed_rate(HOUR, Duration::ZERO, note("x")).submit().wait();
        assert_eq!(refused(zero), Refused::PeriodZero);
        let zero =
            timers.schedule_with_fixed_delay(HOUR, Duration::ZERO, note("x")).submit().wait();
        assert_eq!(refused(zero), Refused::PeriodZero);
        let keyless = timers.schedule_once(HOUR, note("x")).remember(HOUR).submit().wait();
        assert_eq!(refused(keyless), Refused::RememberWithoutKey);
        assert_eq!(
            refused(timers.cancel(&"k".repeat(600)).wait()),
            Refused::KeySize { given: 600, max: 512 }
        );
    });
}

#[test]
fn a_remembered_key_keeps_a_late_repetition_of_the_call_out() {
    on_each_store("remember", |builder| {
        let (tell, seen) = telling();
        let durable = builder.handle(tell).start().unwrap();
        let timers = durable.timers();
        let call = || {
            let timer = timers.schedule_once(Duration::ZERO, note("pay")).key("pay");
            timer.remember(HOUR).submit().wait().unwrap()
        };
        assert_eq!(call().placement, Placement::New);
        seen.recv_timeout(LONG).unwrap();
        while timers.get("pay").wait().unwrap().is_some() {}
        assert_eq!(call().placement, Placement::Kept);
        durable.close().unwrap();
        assert!(seen.try_recv().is_err());
    });
}

#[test]
fn what_a_paused_handler_misses_runs_when_it_is_resumed_also_after_a_restart() {
    let directory = Directory::new("pause");
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    durable.timers().pause("note").wait().unwrap();
    durable.timers().schedule_once(Duration::ZERO, note("held")).submit().wait().unwrap();
    durable.close().unwrap();

    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    assert!(seen.recv_timeout(Duration::from_millis(300)).is_err());
    durable.timers().resume("note").wait().unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap().text, "held");
    durable.close().unwrap();
}

#[test]
fn calls_after_the_close_are_refused() {
    on_each_store("closed", |builder| {
        let durable = builder.start().unwrap();
        let timers = durable.timers();
        durable.close().unwrap();
        assert_eq!(refused(timers.cancel("key").wait()), Refused::Closed);
    });
}

#[test]
fn answers_can_be_awaited_inside_and_outside_of_a_runtime_and_dropped() {
    on_each_store("await", |builder| {
        let durable = builder.start().unwrap();
        let timers = durable.timers();
        let here = timers.clone();
        let call = async move {
            here.schedule_once(HOUR, note("x")).key("k").submit().await.unwrap();
            here.cancel("k").await.unwrap()
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        assert_eq!(runtime.block_on(call), Cancel::Prevented);
        drop(timers.schedule_once(HOUR, note("x")).key("dropped").submit());
        let kept = futures::executor::block_on(timers.get("dropped")).unwrap();
        assert!(kept.is_some(), "dropping the answer does not take the call back");
        let waited = timers.get("dropped").wait_timeout(LONG).unwrap().unwrap();
        assert!(waited.is_some());
    });
}

#[test]
fn a_waker_that_panics_or_closes_the_node_harms_nobody_else() {
    struct Waker(std::sync::Mutex<Option<Durable>>);
    impl std::task::Wake for Waker {
        fn wake(self: std::sync::Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            panic!("a waker");
        }
    }
    let durable = Durable::in_memory().start().unwrap();
    let timers = durable.timers();
    for closes in [None, Some(durable)] {
        let waker = std::sync::Arc::new(Waker(std::sync::Mutex::new(closes))).into();
        let mut context = std::task::Context::from_waker(&waker);
        let mut call = timers.get("key");
        let _ = std::future::Future::poll(std::pin::Pin::new(&mut call), &mut context);
        assert!(matches!(call.wait_timeout(LONG), Ok(Ok(None))));
    }
    while timers.get("key").wait() != Err(Error::Refused(Refused::Closed)) {}
}

/// In virtual time: three starts of a program, the third with another rule.
#[test]
fn a_program_declares_its_jobs_at_each_start_and_sees_the_rule() {
    let second = Duration::from_secs(1);
    let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let store = lars_durable::test_kit::Store::new(&time.handle());
    let (sender, ran) = std::sync::mpsc::channel();
    let start = |expression: &str| {
        let sender = sender.clone();
        let node = store.node().handle(move |_: &Fired<Note>| sender.send(()).unwrap());
        let node = node.start().unwrap();
        let cron = node.timers().schedule_by_cron(expression, "UTC", note("report"));
        let declared = cron.key("report").submit().wait().unwrap();
        (node, declared.placement)
    };
    // The clock shows 22:13:20. The process is down from 22:30 to 00:13.
    let (node, placement) = start("0 * * * *");
    assert_eq!(placement, Placement::New);
    time.advance(second * 1_000);
    node.close().unwrap();
    time.advance(second * 6_200);
    let (node, placement) = start("0 * * * *");
    assert_eq!(placement, Placement::Kept);
    time.advance(second * 60);
    assert_eq!(ran.try_iter().count(), 1, "what was missed meanwhile");
    node.close().unwrap();
    // Down past 01:00, and started with another rule: what is owed by the old one still runs.
    time.advance(second * 4_000);
    let (node, placement) = start("30 3 * * *");
    assert_eq!(placement, Placement::Updated);
    let rule = node.timers().get("report").wait().unwrap().unwrap().rule;
    assert_eq!(rule.as_deref(), Some("30 3 * * * UTC, missed: Once"));
    time.advance(second * 60);
    assert_eq!(ran.try_iter().count(), 1, "that of 01:00");
    time.advance(second * 2 * 3_600);
    assert_eq!(ran.try_iter().count(), 0, "the new rule holds");
    time.advance(second * 3_600);
    assert_eq!(ran.try_iter().count(), 1, "that of 03:30");
}

#[test]
fn a_batch_with_too_many_bytes_is_refused_with_their_number_before_anything_is_sent() {
    on_each_store("bytes", |builder| {
        let durable = builder.start().unwrap();
        let timers = durable.timers();
        let letter = "x".repeat(60_000);
        let batch = |count: usize| {
            timers.schedule_batch((0..count).map(|_| timers.schedule_once(HOUR, note(&letter))))
        };
        // With two quotation marks each.
        let given = 280 * 60_002;
        let error = refused(batch(280).wait());
        assert_eq!(error, Refused::BatchBytes { given, max: 16 << 20 });
        assert_eq!(batch(279).wait().unwrap().len(), 279);
        durable.close().unwrap();
    });
}
