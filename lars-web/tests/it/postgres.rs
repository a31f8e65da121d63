//! A group in a real PostgreSQL, which comes and goes.
#![cfg(unix)]

use std::time::Instant;

use axum::http::StatusCode;
use lars_durable::Durable;
use lars_web::Console;

use crate::browser::{Browser, HOUR, TOKEN, node, park, schedule};
use crate::server::Server;

fn console(server: &Server, group: &'static str) -> Console {
    let parameters = server.parameters.clone();
    Console::new().observe(move || Durable::postgres(&parameters).group(group))
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_hundred_open_pages_cost_the_database_no_more_than_one() {
    let server = Server::start();
    let shop = node(Durable::postgres(&server.parameters).group("shop"));
    schedule(&shop, "order/1", HOUR, "later");
    let browser = Browser::new(console(&server, "shop").start().unwrap());
    let looks = || server.logged("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY");
    let (begin, before) = (Instant::now(), looks());
    let mut pages: Vec<_> = (0..100).map(|_| browser.events("/events/group")).collect();
    for _ in 0..3 {
        pages.iter_mut().for_each(|page| _ = page.until("bill"));
    }
    // One look a second, as for one page.
    let (looked, passed) = (looks() - before, begin.elapsed());
    assert!(looked as u64 <= passed.as_secs() + 2, "{looked} looks in {passed:?}");
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn from_a_wrong_address_to_the_group_and_back_a_page_says_what_is_wrong() {
    let mut server = Server::start();
    let browser = Browser::known(console(&server, "shop").token(TOKEN).actions().start().unwrap());
    let mut events = browser.events("/events/group");
    events.until("there is no schema `lars`");
    let shop = node(Durable::postgres(&server.parameters).group("shop"));
    schedule(&shop, "order/1", HOUR, "later");
    let parked = park(&shop, "order/2", "no money");
    // At first the node has none of them.
    let seen = events.until("64 buckets, 0 without");
    assert!(seen.contains("shop-1") && seen.contains("bill"), "{seen}");
    let misspelt = Browser::new(console(&server, "shpo").start().unwrap());
    let seen = misspelt.events("/events/group").until("there is no group");
    assert!(seen.contains("[&quot;shop&quot;]"), "{seen}");

    server.tell("stop");
    let seen = events.until("No answer");
    assert!(seen.contains("bill") && seen.contains("What is shown is older."), "{seen}");
    let answer = browser.get("/timers");
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    answer.has(["No answer"]);
    server.tell("start");
    while events.next().unwrap().contains("No answer") {}
    let page = browser.until(&format!("/timers/{parked}"), "no money");
    let csrf = page.hidden("csrf").unwrap();
    let form = [("csrf", csrf), ("do", "discard"), ("id", &*parked.to_string())];
    browser.post("/act", &form).has(["It is deleted."]);
    // The node that did it has gone.
    while events.next().unwrap().contains("without handlers") {}
    drop(shop);
}
