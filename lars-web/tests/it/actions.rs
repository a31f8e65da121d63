//! What pages change.

use axum::http::StatusCode;
use lars_durable::query::{Query, State};
use lars_durable::{Durable, Fired};
use lars_web::Console;

use crate::browser::{Answer, Bill, Browser, HOUR, TOKEN, node, park, schedule};

fn browser(durable: &Durable) -> Browser {
    let console = Console::new().group(durable.timers()).token(TOKEN).actions();
    Browser::known(console.start().unwrap())
}

/// Sends the first form of a page, as this button does.
fn press(browser: &Browser, page: &str, button: &str, more: &[(&str, &str)]) -> Answer {
    let page = browser.get(page);
    let csrf = page.hidden("csrf").unwrap_or_else(|| panic!("no form in {}", page.text));
    page.has([&format!("value=\"{button}\"")]);
    let mut form = vec![("csrf", csrf), ("do", button)];
    form.extend(page.hidden("id").map(|id| ("id", id)));
    form.extend(more);
    browser.post("/act", &form)
}

fn count(durable: &Durable, states: &[State]) -> usize {
    let query = Query::new().limit(1_000).states(states.iter().copied());
    durable.timers().count(&query).wait().unwrap().matched
}

#[test]
fn one_timer_is_cancelled_moved_retried_and_discarded() {
    let durable = node(Durable::in_memory());
    let browser = browser(&durable);
    let one = schedule(&durable, "one", HOUR, "x");
    let page = format!("/timers/{one}");
    press(&browser, &page, "move", &[("delay", "2h")]).has(["It is moved."]);
    browser.get(&page).has(["in 1 h 59 min"]);
    let wrong = press(&browser, &page, "move", &[("delay", "soon")]);
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    wrong.has(["must be such as 90s or 2h 30m"]);
    press(&browser, &page, "cancel", &[]).has(["It is cancelled."]);
    assert_eq!(browser.get(&page).status, StatusCode::NOT_FOUND);

    let two = park(&durable, "two", "no");
    let page = format!("/timers/{two}");
    browser.get(&page).has_not(["value=\"cancel\""]);
    press(&browser, &page, "retry", &[]).has(["It runs again, now."]);
    browser.until(&page, "<dd>parked</dd>");
    press(&browser, &page, "discard", &[]).has(["It is deleted."]);
    assert_eq!(browser.get(&page).status, StatusCode::NOT_FOUND);
    assert_eq!(count(&durable, &[State::Waiting, State::Due, State::Parked]), 0);
}

#[test]
fn a_handler_is_paused_and_resumed() {
    let durable = node(Durable::in_memory());
    let browser = browser(&durable);
    browser.until("/group", "value=\"pause\"");
    press(&browser, "/group", "pause", &[("handler", "bill")]).has(["starts no more timers"]);
    schedule(&durable, "one", std::time::Duration::ZERO, "x");
    browser.until("/group", ">paused<");
    assert_eq!(count(&durable, &[State::Paused]), 1);
    press(&browser, "/group", "resume", &[("handler", "bill")]).has(["starts its timers again"]);
    while count(&durable, &[State::Parked]) == 0 {
        std::thread::yield_now();
    }
}

/// Asks for an action on all, is asked whether that is meant, and waits until it is done.
fn all(browser: &Browser, button: &str, filter: &[(&str, &str)], expected: &str) -> String {
    let csrf = browser.get("/timers").hidden("csrf").unwrap().to_owned();
    let mut form = vec![("csrf", &*csrf), ("do", button), ("all", "1")];
    form.extend(filter);
    let asked = browser.post("/act", &form);
    assert_eq!(asked.status, StatusCode::OK);
    asked.has(["Are you sure?", expected]);
    form.push(("sure", "1"));
    let begun = browser.post("/act", &form);
    assert_eq!((begun.status, begun.header("location")), (StatusCode::SEE_OTHER, "/work"));
    browser.events("/events/work").until("<dd id=\"state\" data-rests>done</dd>")
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Spaced(String);

impl lars_durable::Payload for Spaced {
    const NAME: &'static str = " bill";
}

#[test]
fn a_handler_whose_name_begins_with_a_space_is_paused_and_no_other() {
    let builder = Durable::in_memory().handle(|_: &Fired<Spaced>| ());
    let durable = node(builder);
    let browser = browser(&durable);
    browser.until("/group", "value=\"pause\"");
    press(&browser, "/group", "pause", &[("handler", " bill")]).has(["starts no more timers"]);
    let seen = durable.timers().inspect().wait().unwrap();
    let paused = seen.handlers.iter().filter(|it| it.paused).map(|it| &*it.name);
    assert_eq!(paused.collect::<Vec<_>>(), [" bill"]);
}

#[test]
fn what_is_asked_again_turns_no_text() {
    let durable = node(Durable::in_memory());
    let browser = browser(&durable);
    all(&browser, "discard", &[("key", "a\u{202e}b")], "key begins with a\u{fffd}b");
}

#[test]
fn all_that_match_are_changed_in_steps_after_it_was_asked_whether_that_is_meant() {
    let durable = node(Durable::in_memory());
    let browser = browser(&durable);
    let timers = durable.timers();
    let many = (0..2_500).map(|number| {
        let bill = timers.schedule_once(HOUR, Bill("x".to_owned()));
        bill.key(format!("order/{}/{number}", number % 2))
    });
    timers.schedule_batch(many).wait().unwrap();
    for number in 0..3 {
        park(&durable, &format!("lost/{number}"), "no money");
    }
    let filter = [("key", "order/1/")];
    let done = all(&browser, "cancel", &filter, "1,250 timers");
    assert!(done.contains("<dd id=\"changed\">1,250</dd>"), "{done}");
    let asked = [("key", "order/0/"), ("delay", "2h")];
    let done = all(&browser, "move", &asked, "<b>2h from now</b>");
    assert!(done.contains("<dd id=\"changed\">1,250</dd>"), "{done}");
    assert_eq!(count(&durable, &[State::Waiting]), 1_000, "the limit of a step");

    let done = all(&browser, "retry", &[("failed", "money")], "<b>3 timers</b>");
    assert!(done.contains("<dd id=\"changed\">3</dd>"), "{done}");
    while count(&durable, &[State::Parked]) < 3 {
        std::thread::yield_now();
    }
    let done = all(&browser, "discard", &[("handler", "bill")], "This cannot be undone.");
    assert!(done.contains("<dd id=\"changed\">3</dd>"), "{done}");
    assert_eq!(count(&durable, &[State::Parked]), 0);
    let nothing = all(&browser, "discard", &[], "<b>0 timers</b>");
    assert!(nothing.contains("<dd id=\"changed\">0</dd>"), "{nothing}");
}

#[test]
fn an_action_that_cannot_be_done_says_why_and_changes_nothing() {
    let durable = node(Durable::in_memory());
    let browser = browser(&durable);
    schedule(&durable, "one", HOUR, "x");
    let csrf = browser.get("/timers").hidden("csrf").unwrap().to_owned();
    let post = |more: &[(&str, &str)]| {
        let mut form = vec![("csrf", &*csrf)];
        form.extend(more);
        browser.post("/act", &form)
    };
    let wrong = post(&[("do", "retry"), ("all", "1"), ("state", "waiting"), ("sure", "1")]);
    assert_eq!(wrong.status, StatusCode::SEE_OTHER);
    let failed = browser.events("/events/work").until("ended early");
    assert!(failed.contains("at least 1 of these is needed: Parked"), "{failed}");
    let wrong = post(&[("do", "cancel"), ("all", "1"), ("state", "lost")]);
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert_eq!(post(&[]).status, StatusCode::BAD_REQUEST);
    assert_eq!(count(&durable, &[State::Waiting]), 1);
    durable.close().unwrap();
    let closed = post(&[("do", "cancel"), ("id", "1")]);
    closed.has(["the node is closed"]);
}

#[test]
fn from_outside_actions_are_done_by_a_node_that_is_there_for_that_time_only() {
    let directory = std::env::temp_dir();
    let file = directory.join(format!("lars-web-outside-{}.db", std::process::id()));
    let owner = Durable::sqlite(&file).handle(|_: &Fired<Bill>| ()).start().unwrap();
    let id = schedule(&owner, "one", HOUR, "x");
    let path = file.clone();
    let console = Console::new().observe(move || Durable::sqlite(&path)).token(TOKEN).actions();
    let browser = Browser::known(console.start().unwrap());
    let page = format!("/timers/{id}");
    let refused = press(&browser, &page, "cancel", &[]);
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    refused.has(["is owned by another process"]);
    owner.close().unwrap();
    press(&browser, &page, "cancel", &[]).has(["It is cancelled."]);
    // The file has no owner any more.
    let owner = Durable::sqlite(&file).start().unwrap();
    assert!(owner.timers().get("one").wait().unwrap().is_none());
    owner.close().unwrap();
    for suffix in ["", ".lock"] {
        std::fs::remove_file(format!("{}{suffix}", file.display())).unwrap();
    }
}
