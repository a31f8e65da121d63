//! Timers are found, listed and looked at.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use lars_durable::schedule::Cancel;
use lars_durable::{Durable, Fired, Payload};
use lars_web::Console;
use serde::{Deserialize, Serialize};

use crate::browser::{Answer, Bill, Browser, HOSTILE, HOUR, TOKEN, node, park, schedule};

fn browser(durable: &Durable) -> Browser {
    Browser::new(Console::new().group(durable.timers()).start().unwrap())
}

/// The timers that a page names.
fn named(page: &Answer) -> Vec<u64> {
    let links = page.text.split("<a href=\"timers/").skip(1);
    links.map(|it| it.split_once('"').unwrap().0.parse().unwrap()).collect()
}

#[test]
fn timers_are_listed_by_what_a_form_asks_for_a_page_at_a_time() {
    let durable = node(Durable::in_memory());
    let browser = browser(&durable);
    let mut all = BTreeSet::new();
    for number in 0..250 {
        all.insert(schedule(&durable, &format!("order/{number}"), HOUR, "x"));
    }
    let parked = park(&durable, "lost", "connection refused");
    let page = browser.get("/timers?key=order%2F24");
    assert_eq!(named(&page).len(), 11);
    page.has(["which were all.", "value=\"order/24\"", "in 59 min"]);
    assert_eq!(named(&browser.get("/timers?failed=refused")), [parked]);
    assert_eq!(named(&browser.get("/timers?state=parked&handler=bill")), [parked]);
    assert!(named(&browser.get("/timers?state=parked&handler=other")).is_empty());

    all.insert(parked);
    let mut page = browser.get("/timers");
    let mut found: Vec<u64> = Vec::new();
    loop {
        assert!(named(&page).len() <= 100);
        found.extend(named(&page));
        let Some((_, next)) = page.text.split_once("rel=\"next\" href=\"") else { break };
        let next = next.split_once('"').unwrap().0.replace("&amp;", "&");
        page = browser.get(&format!("/{next}"));
    }
    assert_eq!((found.len(), found.into_iter().collect::<BTreeSet<_>>()), (251, all));
}

#[test]
fn a_form_that_cannot_be_is_answered_with_what_it_may_be() {
    let durable = node(Durable::in_memory());
    let browser = browser(&durable);
    for (address, expected) in [
        ("/timers?state=lost", "must be one of any, waiting"),
        ("/timers?from=soon", "must be a time such as"),
        ("/timers?after=99", "99"),
        ("/timers?from=2030-01-02T00:00&before=2030-01-01T00:00", "there is no such time"),
        (&format!("/timers?key={}", "x".repeat(513)), "513 bytes, but at most 512"),
        ("/timers/seventeen", "a timer has a number"),
    ] {
        let page = browser.get(address);
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{address}");
        assert!(page.text.to_lowercase().contains(&expected.to_lowercase()), "{}", page.text);
    }
    // What was typed stands in the form again, also beside what is wrong.
    let page = browser.get("/timers?handler=bill&key=order%2F1&from=soon&state=parked");
    page.has(["value=\"bill\"", "value=\"order/1\"", "value=\"soon\"", "selected>parked</option>"]);
    for missing in ["/timers/17", "/timers/0", "/timers/18446744073709551615"] {
        assert_eq!(browser.get(missing).status, StatusCode::NOT_FOUND, "{missing}");
    }
}

#[test]
fn a_single_timer_is_shown_with_its_payload_its_attempts_and_what_went_wrong() {
    let durable = node(Durable::in_memory());
    let browser = browser(&durable);
    let waits = schedule(&durable, "order/1", HOUR, "{\n tab\t}");
    let page = browser.get(&format!("/timers/{waits}"));
    page.has(["<dd>order/1</dd>", "<dd>bill</dd>", "Payload, version 1", "in 59 min"]);
    let parked = park(&durable, "order/2", "no money\nno goods");
    let page = browser.get(&format!("/timers/{parked}"));
    page.has(["<dd>parked</dd>", "no money\nno goods</pre>", "<dt>Attempts</dt><dd>1</dd>"]);
}

#[test]
fn timers_are_listed_by_their_tag_and_show_it() {
    let durable = node(Durable::in_memory());
    let browser = browser(&durable);
    let timers = durable.timers();
    let bill = |tag: &str| {
        let bill = timers.schedule_once(HOUR, Bill("x".to_owned())).tag(tag);
        bill.submit().wait().unwrap().id
    };
    let (red, blue) = (bill("customer/1"), bill("customer/2"));
    let page = browser.get("/timers?tag=customer%2F1");
    assert_eq!(named(&page), [red]);
    page.has(["value=\"customer/1\"", "<span class=\"badge\">customer/1</span>"]);
    browser.get(&format!("/timers/{blue}")).has(["<dt>Tag</dt><dd>customer/2</dd>"]);
    let page = browser.get(&format!("/timers?tag={}", "t".repeat(129)));
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    page.has(["the tag has 129 bytes"]);
}

#[test]
fn a_series_is_shown_with_its_end() {
    let durable = node(Durable::in_memory());
    let browser = browser(&durable);
    let timers = durable.timers();
    let series = timers.schedule_with_fixed_delay(HOUR, HOUR, Bill("x".to_owned())).times(1_000);
    let id = series.until(SystemTime::now() + 500 * HOUR).submit().wait().unwrap().id;
    let page = browser.get(&format!("/timers/{id}"));
    page.has(["<dt>Runs that are over</dt><dd>0 of 1,000</dd>", "<dt>Ends</dt>", "in 20 d"]);
    let once = schedule(&durable, "once", HOUR, "x");
    browser.get(&format!("/timers/{once}")).has_not(["Runs that are over", "<dt>Ends</dt>"]);
}

#[test]
fn the_last_runs_of_a_timer_are_shown_if_they_are_remembered_also_when_it_is_gone() {
    let durable = node(Durable::in_memory().history(HOUR, 100));
    let browser = browser(&durable);
    let parked = park(&durable, "parked", "no <money>");
    let page = format!("/timers/{parked}");
    browser.until(&page, "Last runs").has([
        "<td data-title=\"Outcome\">parked</td>",
        "<td data-title=\"Node\">shop-1</td>",
        "no &lt;money&gt;",
    ]);
    assert!(durable.timers().discard_parked(parked).wait().unwrap());
    let gone = browser.get(&page);
    assert_eq!(gone.status, StatusCode::OK);
    gone.has(["It has run, or was cancelled.", "<td data-title=\"Outcome\">parked</td>"]);
    let waits = schedule(&durable, "waits", HOUR, "x");
    browser.get(&format!("/timers/{waits}")).has_not(["Last runs"]);
}

#[test]
fn a_run_that_was_cancelled_is_shown_as_that_as_long_as_it_goes_on() {
    let handler = |bill: &Fired<Bill>| {
        while !bill.is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Nobody wants it, but it takes its time.
        while bill.payload().0 == "slow" && !GO.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    static GO: AtomicBool = AtomicBool::new(false);
    let durable = Durable::in_memory().handle(handler).start().unwrap();
    let browser = browser(&durable);
    let id = schedule(&durable, "slow", Duration::ZERO, "slow");
    let page = format!("/timers/{id}");
    browser.until(&page, "<dd>running</dd>");
    assert_eq!(durable.timers().cancel("slow").wait().unwrap(), Cancel::Running);
    browser.until(&page, "<dd>running, cancelled</dd>");
    GO.store(true, Ordering::Relaxed);
    durable.close().unwrap();
}

#[derive(Debug, Serialize, Deserialize)]
struct Evil(String);

impl Payload for Evil {
    const NAME: &'static str = "<b onclick=alert(3)>\"'&evil";
}

#[test]
fn a_hostile_payload_key_handler_and_reason_are_shown_as_text() {
    let durable = node(Durable::in_memory());
    let pages = Console::new().group(durable.timers()).token(TOKEN).actions().start().unwrap();
    let browser = Browser::known(pages);
    let evil = durable.timers().schedule_once(HOUR, Evil(HOSTILE.to_owned())).key(HOSTILE);
    let evil = evil.tag(HOSTILE);
    let id = evil.submit().wait().unwrap().id;
    let parked = park(&durable, &format!("{HOSTILE}2"), &format!("{HOSTILE}\u{202e}"));
    browser.until("/group", "evil");
    let query = "/timers?key=%3C%2Fpre%3E&failed=%22%3E%3Cscript%3E";
    for path in ["/group", "/timers", &format!("/timers/{id}"), &format!("/timers/{parked}"), query]
    {
        let page = browser.get(path);
        page.has_not(["<script>", "<img", "<b onclick", "\u{202e}", "value=\"\">"]);
    }
    let page = browser.get(&format!("/timers/{id}"));
    page.has([
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "&lt;b onclick=alert(3)&gt;&quot;'&amp;evil",
    ]);
    browser.get(query).has(["value=\"&quot;&gt;&lt;script&gt;\""]);
    // What is said about a form is a text, too.
    let csrf = browser.get(&format!("/timers/{id}")).hidden("csrf").unwrap().to_owned();
    let said = browser.post("/act", &[("csrf", &csrf), ("do", HOSTILE), ("id", HOSTILE)]);
    said.has_not(["<script>"]);
    let said = browser.post("/act", &[("csrf", &csrf), ("do", "pause"), ("handler", HOSTILE)]);
    said.has_not(["<script>"]);
    said.has(["&lt;script&gt;"]);
    let events = browser.events("/events/group").until("evil");
    assert!(!events.contains("<b onclick") && events.contains("&lt;b onclick"), "{events}");
}
