//! Who may see the pages, and who may change something.

use axum::http::StatusCode;
use lars_durable::Durable;
use lars_web::{Console, ConsoleError};

use crate::browser::{Browser, HOUR, TOKEN, node, schedule};

fn console(durable: &Durable) -> Console {
    Console::new().group(durable.timers())
}

const PATHS: [&str; 9] = [
    "/",
    "/group",
    "/timers",
    "/timers/1",
    "/work",
    "/login",
    "/style.css",
    "/script.js",
    "/nowhere",
];

#[test]
fn a_name_that_was_not_allowed_gets_nothing_and_changes_nothing() {
    let durable = node(Durable::in_memory());
    let pages = console(&durable).host("ops.example").token(TOKEN).actions().start().unwrap();
    let mut browser = Browser::known(pages);
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7878", "[::1]:7878", "ops.example:443"] {
        browser.host = host;
        assert_ne!(browser.get("/style.css").status, StatusCode::FORBIDDEN, "{host}");
    }
    let wrong = [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:7878",
        "localhost@evil.example",
        "localhost:7878:1",
        "[::1",
        "::1",
        "0.0.0.0",
        "ops.example.",
    ];
    for host in wrong {
        browser.host = host;
        for path in PATHS {
            let answer = browser.get(path);
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{host} {path}");
            answer.has(["does not answer to the name"]);
        }
        assert_eq!(browser.post("/act", &[]).status, StatusCode::FORBIDDEN, "{host}");
    }
}

#[test]
fn every_answer_has_a_policy_that_lets_a_page_load_nothing_from_elsewhere() {
    let durable = node(Durable::in_memory());
    let mut browser = Browser::new(console(&durable).start().unwrap());
    for host in ["localhost", "evil.example"] {
        browser.host = host;
        for path in PATHS {
            let answer = browser.get(path);
            let policy = answer.header("content-security-policy");
            assert!(
                policy.starts_with("default-src 'none'; script-src 'self'"),
                "{path}: {policy}"
            );
            assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
            assert_eq!(answer.header("x-content-type-options"), "nosniff");
            assert_eq!(answer.header("cache-control"), "no-store");
            if answer.header("content-type").starts_with("text/html") {
                // All scripts and styles are the files of this crate.
                assert_eq!(answer.text.matches("<script").count(), 1, "{path}");
                answer.has(["<script src=\"script.js\" defer>"]);
                answer.has_not([" style=", "<style", " onclick", "http://", "https://"]);
            }
        }
    }
}

#[test]
fn without_its_token_nothing_is_shown_and_a_wrong_one_is_refused() {
    let durable = node(Durable::in_memory());
    let pages = console(&durable).token(TOKEN).start().unwrap();
    let mut browser = Browser::new(pages.clone());
    for path in ["/", "/group", "/timers", "/timers/1", "/work", "/nowhere"] {
        let answer = browser.get(path);
        assert_eq!((answer.status, answer.header("location")), (StatusCode::SEE_OTHER, "/login"));
        answer.has_not(["bill"]);
    }
    assert_eq!(browser.get("/events/group").status, StatusCode::UNAUTHORIZED);
    assert_eq!(browser.post("/act", &[]).status, StatusCode::UNAUTHORIZED);
    for wrong in ["", "a token of many letter", "a token of many letters!"] {
        let answer = browser.post("/login", &[("token", wrong)]);
        assert_eq!((answer.status, answer.header("set-cookie")), (StatusCode::UNAUTHORIZED, ""));
        answer.has(["This is not the token."]);
    }
    browser.cookie = Some(format!("lars-web-7878={TOKEN}"));
    assert_eq!(browser.get("/group").status, StatusCode::SEE_OTHER, "the cookie is no token");
    let known = Browser::known(pages);
    known.until("/group", "bill");
    // The same cookie is worth nothing after the next start.
    let next = console(&durable).token(TOKEN).start().unwrap();
    let other = Browser { cookie: known.cookie.clone(), ..Browser::new(next) };
    assert_eq!(other.get("/group").status, StatusCode::SEE_OTHER);
}

#[test]
fn nothing_is_changed_unless_it_was_started_with_actions() {
    let durable = node(Durable::in_memory());
    let id = schedule(&durable, "order/1", HOUR, "hello").to_string();
    let browser = Browser::known(console(&durable).token(TOKEN).start().unwrap());
    for path in ["/group", "/timers", &format!("/timers/{id}")] {
        browser.until(path, "bill").has_not(["method=\"post\"", "csrf"]);
    }
    let answer = browser.post("/act", &[("do", "cancel"), ("id", &id), ("csrf", "")]);
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    answer.has(["Nothing may be changed here"]);
    assert_eq!(browser.post("/stop", &[]).status, StatusCode::FORBIDDEN);
    assert!(durable.timers().get("order/1").wait().unwrap().is_some());
}

#[test]
fn a_form_counts_only_if_it_comes_from_a_page_of_this_server_and_has_its_secret() {
    let durable = node(Durable::in_memory());
    let id = schedule(&durable, "order/1", HOUR, "hello").to_string();
    let mut browser = Browser::known(console(&durable).token(TOKEN).actions().start().unwrap());
    let page = browser.get(&format!("/timers/{id}"));
    let csrf = page.hidden("csrf").unwrap();
    let form = [("do", "cancel"), ("id", &*id), ("csrf", csrf)];
    for wrong in ["", "0", &csrf[1..], TOKEN] {
        let answer = browser.post("/act", &[("do", "cancel"), ("id", &*id), ("csrf", wrong)]);
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        answer.has(["no page of this server"]);
    }
    for elsewhere in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost:7879"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        browser.headers = vec![elsewhere];
        let answer = browser.post("/act", &form);
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{elsewhere:?}");
        answer.has(["The request comes from another page."]);
    }
    // No address changes something, with or without the secret.
    browser.headers = Vec::new();
    let address = format!("/act?do=cancel&id={id}&csrf={csrf}");
    assert_eq!(browser.get(&address).status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(durable.timers().get("order/1").wait().unwrap().is_some());
    browser.headers = vec![("origin", "http://localhost:7878"), ("sec-fetch-site", "same-origin")];
    let answer = browser.post("/act", &form);
    assert_eq!(answer.status, StatusCode::OK);
    answer.has(["It is cancelled."]);
    assert!(durable.timers().get("order/1").wait().unwrap().is_none());
}

#[test]
fn a_cookie_of_another_program_on_this_machine_is_not_in_the_way_whatever_its_bytes() {
    let durable = node(Durable::in_memory());
    let mut browser = Browser::known(console(&durable).token(TOKEN).start().unwrap());
    let ours = browser.cookie.take().unwrap();
    for others in [format!("theme=größe; {ours}"), format!("{ours}; theme=größe")] {
        browser.cookie = Some(others);
        assert_eq!(browser.get("/group").status, StatusCode::OK, "{:?}", browser.cookie);
    }
    browser.cookie = Some(format!("größe{ours}"));
    assert_eq!(browser.get("/group").status, StatusCode::SEE_OTHER);
}

#[test]
fn no_address_makes_a_page_that_links_to_another_server() {
    let durable = node(Durable::in_memory());
    let browser = Browser::new(console(&durable).start().unwrap());
    for path in ["//evil.example", "///evil.example/", "/\\evil.example"] {
        let page = browser.get(path);
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        page.has(["#main\">To the content"]);
        page.has_not(["href=\"//", "href=\"/\\"]);
    }
}

#[test]
fn a_form_that_is_too_long_is_refused() {
    let durable = node(Durable::in_memory());
    let browser = Browser::known(console(&durable).token(TOKEN).actions().start().unwrap());
    let answer = browser.post("/act", &[("do", &"x".repeat(100_000))]);
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[test]
fn what_would_be_unsafe_or_shows_nothing_does_not_start() {
    let durable = Durable::in_memory().start().unwrap();
    let error = console(&durable).actions().start().unwrap_err();
    assert!(matches!(error, ConsoleError::ActionsWithoutToken), "{error}");
    let error = console(&durable).token(" short \n").start().unwrap_err();
    assert_eq!(error.to_string(), "the token has 5 bytes, but it must have at least 16");
    assert!(matches!(Console::new().start(), Err(ConsoleError::Nothing)));
    // Nothing that is printed for debugging has the token.
    let shown = format!("{:?}", console(&durable).token(TOKEN).actions());
    assert!(!shown.contains(TOKEN), "{shown}");
}
