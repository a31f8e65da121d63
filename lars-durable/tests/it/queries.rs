//! Many timers at once, over both stores.

use crate::common;

use std::time::{Duration, SystemTime};

use common::{LONG, note, on_each_store, refused, telling};
use lars_durable::query::{Place, Query, State, Step};
use lars_durable::{Error, Fired, Outcome, Refused, Submitted, Timers};

const HOUR: Duration = Duration::from_secs(3600);

/// All steps of a query, added up.
fn all_steps(mut query: Query, step: impl Fn(&Query) -> Submitted<Step>) -> (usize, usize) {
    let (mut matched, mut changed) = (0, 0);
    loop {
        let step = step(&query).wait().unwrap();
        matched += step.matched;
        changed += step.changed;
        match step.next {
            Some(place) => query = query.after(place),
            None => return (matched, changed),
        }
    }
}

fn count(timers: &Timers, query: Query) -> usize {
    all_steps(query, |query| timers.count(query)).0
}

#[test]
fn timers_with_something_in_common_are_counted_listed_moved_and_cancelled() {
    on_each_store("many", |builder| {
        let (tell, seen) = telling();
        let durable = builder.handle(tell).start().unwrap();
        let timers = durable.timers();
        let keyed = |n: u32| {
            let key = format!("order/{}/{n}", n % 2);
            timers.schedule_once(HOUR, note(&n.to_string())).key(key)
        };
        timers.schedule_batch((0..2_000).map(keyed)).wait().unwrap();
        timers
            .schedule_batch((0..50).map(|_| timers.schedule_once(HOUR, note("x"))))
            .wait()
            .unwrap();
        assert_eq!(count(&timers, Query::new().limit(1_000)), 2_050);
        let one = Query::new().key_prefix("order/1/");
        assert_eq!(count(&timers, one.clone()), 1_000);
        let page = timers.list(&one.clone().limit(3)).wait().unwrap();
        let keys: Vec<_> = page.timers.iter().map(|it| it.timer().key.clone().unwrap()).collect();
        assert_eq!(keys, ["order/1/1", "order/1/1001", "order/1/1003"]);

        let cancelled = all_steps(one.clone().limit(300), |query| timers.cancel_all(query));
        assert_eq!(cancelled, (1_000, 1_000));
        assert_eq!(count(&timers, one), 0);
        let few = Query::new().key_prefix("order/0/10").states([State::Waiting]);
        let moved = all_steps(few, |query| timers.reset_all(query, Duration::ZERO));
        assert_eq!(moved.0, moved.1);
        let expected = (0..2_000).filter(|n| n % 2 == 0 && n.to_string().starts_with("10")).count();
        assert_eq!(moved.1, expected);
        for _ in 0..expected {
            let text = seen.recv_timeout(LONG).unwrap().text;
            assert!(text.starts_with("10"), "{text}");
        }
        let soon = Query::new().due_before(SystemTime::now() + HOUR / 2);
        while count(&timers, soon.clone()) > 0 {}
        assert_eq!(count(&timers, Query::new().due_from(SystemTime::now())), 1_050 - expected);
        durable.close().unwrap();
    });
}

#[test]
fn what_failed_for_one_reason_is_retried_or_discarded_at_once() {
    on_each_store("parked", |builder| {
        let handler = |due: &Fired<common::Note>| match due.payload().0.as_str() {
            "away" => Outcome::Park("the service is away".into()),
            _ => Outcome::Park("no such order".into()),
        };
        let durable = builder.handle(handler).start().unwrap();
        let timers = durable.timers();
        let text = |n: u32| note(if n.is_multiple_of(3) { "away" } else { "wrong" });
        let all = (0..300).map(|n| timers.schedule_once(Duration::ZERO, text(n)));
        timers.schedule_batch(all).wait().unwrap();
        let parked = Query::new().states([State::Parked]);
        while count(&timers, parked.clone()) < 300 {}
        timers.pause("note").wait().unwrap();
        let away = Query::new().failed_with("is away").limit(7);
        let retried = all_steps(away.clone(), |query| timers.retry_all(query));
        assert_eq!(retried, (100, 100));
        assert_eq!(count(&timers, Query::new().states([State::Paused])), 100);
        let discarded = all_steps(parked.handler("note"), |query| timers.discard_all(query));
        assert_eq!(discarded, (200, 200));
        timers.resume("note").wait().unwrap();
        while count(&timers, away.clone().states([State::Parked])) < 100 {}
        durable.close().unwrap();
    });
}

#[test]
fn timers_with_a_tag_are_found_by_it_and_show_it() {
    on_each_store("tags", |builder| {
        let durable = builder.start().unwrap();
        let timers = durable.timers();
        let tagged =
            |n: u32| timers.schedule_once(HOUR, note("x")).tag(format!("customer/{}", n % 3));
        timers.schedule_batch((0..300).map(tagged)).wait().unwrap();
        timers.schedule_once(HOUR, note("x")).submit().wait().unwrap();
        let query = Query::new().tag("customer/1").limit(30);
        let page = timers.list(&query).wait().unwrap();
        let tags = page.timers.iter().map(|found| found.timer().tag.as_deref());
        assert!(page.timers.len() == 30 && tags.into_iter().all(|tag| tag == Some("customer/1")));
        assert_eq!(page.looked_at, 30, "the others cost nothing");
        assert_eq!(count(&timers, Query::new().tag("customer")), 0);
        assert_eq!(all_steps(query, |query| timers.cancel_all(query)), (100, 100));
        assert_eq!(count(&timers, Query::new()), 201);
        for (tag, given) in [(String::new(), 0), ("t".repeat(129), 129), ("a\0".into(), 2)] {
            let error = Refused::Tag { given, max: 128 };
            assert_eq!(
                refused(timers.schedule_once(HOUR, note("x")).tag(&*tag).submit().wait()),
                error
            );
            assert_eq!(refused(timers.count(&Query::new().tag(&tag)).wait()), error);
        }
        let longest = timers.schedule_once(HOUR, note("x")).tag("t".repeat(128));
        let id = longest.submit().wait().unwrap().id;
        assert_eq!(timers.get(id).wait().unwrap().unwrap().tag.unwrap().len(), 128);
        durable.close().unwrap();
    });
}

#[test]
fn a_walk_goes_on_from_the_text_of_its_place() {
    on_each_store("places", |builder| {
        let handler = |_: &Fired<common::Note>| Outcome::Park("no such order".into());
        let durable = builder.handle(handler).start().unwrap();
        let timers = durable.timers();
        let keyed = |n: u32| {
            let delay = if n.is_multiple_of(2) { HOUR } else { Duration::ZERO };
            timers.schedule_once(delay, note("x")).key(format!("größe/{n}&?=%"))
        };
        timers.schedule_batch((0..20).map(keyed)).wait().unwrap();
        while count(&timers, Query::new().states([State::Parked])) < 10 {}
        for query in [Query::new(), Query::new().key_prefix("größe/")] {
            let (mut query, mut ids) = (query.limit(3), Vec::new());
            loop {
                let page = timers.list(&query).wait().unwrap();
                ids.extend(page.timers.iter().map(|found| found.timer().id));
                let Some(place) = page.next else { break };
                let text = place.to_string();
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
                assert!(text.chars().all(plain), "{text}");
                assert_eq!(text.parse(), Ok(place));
                query = query.after(text.parse().unwrap());
            }
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), 20);
        }
        durable.close().unwrap();
    });
    let hex = |bytes: usize| "61".repeat(bytes);
    assert!(format!("key.{}", hex(512)).parse::<Place>().is_ok());
    for wrong in [format!("key.{}", hex(513)), "key.6100".into(), "17".into(), String::new()] {
        let error = wrong.parse::<Place>().unwrap_err();
        let words = error.to_string();
        assert!(words.contains(&wrong[..wrong.len().min(90)]) && words.len() < 250, "{words}");
    }
}

#[test]
fn a_query_that_asks_for_what_cannot_be_is_refused_with_what_it_asked_for() {
    on_each_store("refused", |builder| {
        let durable = builder.start().unwrap();
        let timers = durable.timers();
        for given in [0, 1_001] {
            let limited = Query::new().limit(given);
            let error = refused(timers.list(&limited).wait());
            assert_eq!(error, Refused::QueryLimit { given, max: 1_000 });
            let words = format!("the limit of the query is {given}, but it must be from 1 to 1000");
            assert_eq!(error.to_string(), words);
            assert_eq!(refused(timers.cancel_all(&limited).wait()), error);
        }
        let words = |result: Result<Step, Error>| refused(result).to_string();
        let none = words(timers.count(&Query::new().states([])).wait());
        assert!(none.contains("`count`") && none.contains("Waiting, Due, Running"), "{none}");
        let running = Query::new().states([State::Running]);
        for (call, words) in [
            ("`reset_all`", words(timers.reset_all(&running, HOUR).wait())),
            ("`retry_all`", words(timers.retry_all(&running).wait())),
            ("`discard_all`", words(timers.discard_all(&running).wait())),
        ] {
            assert!(words.contains(call) && words.contains("at least 1 of these"), "{words}");
        }
        let now = SystemTime::now();
        let never = Query::new().due_from(now).due_before(now);
        let times = Refused::QueryTimes { from: now, before: now };
        assert_eq!(refused(timers.count(&never).wait()), times);
        let long = Query::new().key_prefix(&"k".repeat(513));
        assert_eq!(refused(timers.count(&long).wait()), Refused::KeySize { given: 513, max: 512 });
        let nul = Query::new().key_prefix("a\0");
        assert_eq!(refused(timers.count(&nul).wait()), Refused::KeyNul { position: 1 });
        assert_eq!(timers.count(&Query::new().key_prefix("")).wait().unwrap().matched, 0);
        durable.close().unwrap();
    });
}
