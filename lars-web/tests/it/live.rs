//! A live scheduler and its actors, mounted into a router of the program's own.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use lars_durable::Durable;
use lars_scheduler::{LightArrayRevolverScheduler, Task};
use lars_web::{Console, Probe};
use mini_actor::{Actor, ActorSystem, Context};

use crate::browser::{Browser, HOUR, TOKEN, node, park, schedule};

struct Greeter;

impl Actor for Greeter {
    type Message = &'static str;

    fn receive(&mut self, _: &'static str, _: &mut Context<Self>) {}
}

#[test]
fn a_scheduler_and_its_actors_are_shown_and_kept_up_to_date() {
    let system = ActorSystem::new("shop").unwrap();
    let greeter = system.spawn("greeter", || Greeter).unwrap();
    let probe = Probe::of_system(&system.system());
    let browser = Browser::new(Console::new().program(probe).start().unwrap());
    let timers = system.scheduler().timers().clone();
    let task = Task::new(|| ()).named("<i>send the bill</i>");
    let _bill = timers.schedule_once(HOUR, task).unwrap();
    let mut events = browser.events("/events/scheduler");
    let seen = events.until("&lt;i&gt;send the bill&lt;/i&gt;");
    for part in ["fired/s", "Lateness", "level 0", "tests/it/live.rs", "Threads"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    greeter.tell("hello").unwrap();
    let seen =
        browser.events("/events/actors").until("<div class=\"tile \"><b>1</b><span>received");
    assert!(seen.contains("/greeter"), "{seen}");
    // There is no group.
    for path in ["/group", "/timers", "/timers/1", "/events/group"] {
        assert_eq!(browser.get(path).status, StatusCode::NOT_FOUND, "{path}");
    }
    browser.get("/").has(["href=\"scheduler\"", "href=\"actors\""]);
    browser.get("/").has_not(["href=\"group\""]);
    system.close().unwrap();
    browser.events("/events/scheduler").until("The scheduler was stopped.");
}

#[test]
fn late_tasks_are_shown_by_cause_and_culprit_and_a_page_without_them_says_how_to_switch_it_on() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let probe = Probe::new(scheduler.handle());
    let browser = Browser::new(Console::new().program(probe).start().unwrap());
    browser.events("/events/scheduler").until("Builder::explain_late switches it on.");

    let builder = LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1));
    let scheduler = builder.explain_late(Duration::from_millis(2)).build().unwrap();
    let probe = Probe::new(scheduler.handle());
    let browser = Browser::new(Console::new().program(probe).start().unwrap());
    let mut events = browser.events("/events/scheduler");
    // (On a busy machine a task of the scheduler may be late already.)
    let seen = events.until("<h2>Began late, ");
    assert!(!seen.contains("explain_late"), "{seen}");
    assert_eq!(seen.matches("<h2>Began late, since the start").count(), 1, "{seen}");
    let (release, held) = channel::<()>();
    let holds = Task::new(move || _ = held.recv()).named("<b>holds</b>\u{202e}");
    scheduler.schedule_once(Duration::ZERO, holds).unwrap();
    scheduler.schedule_once(Duration::ZERO, || ()).unwrap();
    while scheduler.metrics().pool.queued == 0 {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(5));
    drop(release);
    let late = "<th scope=\"row\">all threads of the pool were busy</th>\
                <td data-title=\"Culprit\">&lt;b&gt;holds&lt;/b&gt;\u{fffd} <code>";
    let seen = events.until(late);
    for part in ["Began late, since the start", "by more than 2.00 ms, ", "tests/it/live.rs"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
}

#[test]
fn late_messages_are_shown_on_the_page_of_the_actors_if_the_system_explains_them() {
    // Nothing is received before its time, so everything is late by something.
    let builder = ActorSystem::builder("shop").tick_duration(Duration::from_nanos(1));
    let system = builder.explain_late(Duration::ZERO).build().unwrap();
    let greeter = system.spawn("greeter", || Greeter).unwrap();
    let probe = Probe::of_system(&system.system());
    let browser = Browser::new(Console::new().program(probe).start().unwrap());
    let mut events = browser.events("/events/actors");
    let seen = events.until("No message of a timer was received more than ");
    assert!(!seen.contains("data-title=\"Messages\""), "{seen}");
    let _ = system.scheduler().schedule_once(Duration::ZERO, &greeter, "hello").unwrap();
    let seen = events.until("<td data-title=\"Messages\">1</td>");
    assert!(seen.contains("Received late, since the start"), "{seen}");
    system.close().unwrap();

    let system = ActorSystem::new("shop").unwrap();
    let probe = Probe::of_system(&system.system());
    let browser = Browser::new(Console::new().program(probe).start().unwrap());
    let seen = browser.events("/events/actors").until("Deepest mailboxes");
    assert!(!seen.contains("Received late"), "{seen}");
}

#[test]
fn late_runs_are_shown_on_the_page_of_the_group_if_the_node_in_this_program_explains_them() {
    // Nothing begins before it is due, so everything is late by something.
    let durable = node(Durable::in_memory().explain_late(Duration::ZERO));
    let browser = Browser::new(Console::new().group(durable.timers()).start().unwrap());
    let mut events = browser.events("/events/group");
    let seen = events.until("No run began more than ");
    assert!(!seen.contains("data-title=\"Runs\""), "{seen}");
    for number in 0.. {
        park(&durable, &format!("order/{number}"), "no money");
        if durable.lateness().count > 0 {
            break;
        }
    }
    let seen = events.until("<td data-title=\"Runs\">");
    assert!(seen.contains("Began late on this node, since the start"), "{seen}");
    let table = seen.split("Began late on this node, since the start").nth(1).unwrap();
    assert!(table.contains(" by more than 0 ns, "), "{table}");
    durable.close().unwrap();

    let durable = node(Durable::in_memory());
    let browser = Browser::new(Console::new().group(durable.timers()).start().unwrap());
    let seen = browser.events("/events/group").until("Handlers");
    assert!(!seen.contains("Began late"), "{seen}");
}

#[test]
fn mounted_under_a_path_all_links_and_the_cookie_are_below_it() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let durable = node(Durable::in_memory());
    let id = schedule(&durable, "order/1", HOUR, "hello");
    let probe = Probe::new(scheduler.handle());
    let console = Console::new().program(probe).group(durable.timers()).token(TOKEN).actions();
    let pages = Router::new()
        .route("/", get(async || "the service itself"))
        .nest_service("/ops/timers", console.start().unwrap());
    let mut browser = Browser::new(pages);
    assert_eq!(browser.get("/").text, "the service itself");
    assert_eq!(browser.get("/ops/timers/group").header("location"), "/ops/timers/login");
    browser.get("/ops/timers/login").has(["<base href=\"/ops/timers/\">", "action=\"login\""]);
    let answer = browser.post("/ops/timers/login", &[("token", TOKEN)]);
    assert_eq!(answer.header("location"), "/ops/timers/group");
    let cookie = answer.header("set-cookie").to_owned();
    assert!(cookie.contains("; Path=/ops/timers;"), "{cookie}");
    browser.cookie = cookie.split(';').next().map(str::to_owned);
    for path in ["/ops/timers", "/ops/timers/", "/ops/timers/group", "/ops/timers/scheduler"] {
        let page = browser.get(path);
        assert_eq!(page.status, StatusCode::OK, "{path}");
        page.has(["<base href=\"/ops/timers/\">", "href=\"timers\"", "src=\"script.js\""]);
        page.has([&format!("href=\"{path}#main\"")]);
    }
    let page = browser.get(&format!("/ops/timers/timers/{id}"));
    let csrf = page.hidden("csrf").unwrap();
    let form = [("csrf", csrf), ("do", "cancel"), ("all", "1"), ("sure", "1")];
    let answer = browser.post("/ops/timers/act", &form);
    assert_eq!(answer.header("location"), "/ops/timers/work");
    browser.events("/ops/timers/events/work").until("done");
    assert!(durable.timers().get("order/1").wait().unwrap().is_none());
}

#[test]
fn a_page_has_its_address_with_and_without_a_slash_at_the_end() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let durable = node(Durable::in_memory());
    let id = schedule(&durable, "order/1", HOUR, "hello");
    let probe = Probe::new(scheduler.handle());
    let pages = Console::new().program(probe).group(durable.timers()).start().unwrap();
    let paths = ["/group", "/timers", "/scheduler", "/actors", "/work", "/login"];
    let paths = paths.map(str::to_owned).into_iter().chain([format!("/timers/{id}")]);
    let paths: Vec<_> = paths.collect();
    let mounts = [
        ("", pages.clone()),
        ("/ops", Router::new().nest("/ops", pages.clone())),
        ("/ops", Router::new().nest_service("/ops", pages)),
    ];
    for (prefix, router) in mounts {
        let browser = Browser::new(router);
        for path in &paths {
            for path in [format!("{prefix}{path}"), format!("{prefix}{path}/")] {
                let page = browser.get(&path);
                assert_eq!(page.status, StatusCode::OK, "{path}");
                page.has([&format!("<base href=\"{prefix}/\">"), &format!("href=\"{path}#main\"")]);
            }
        }
        let nowhere = browser.get(&format!("{prefix}/nowhere/"));
        assert_eq!(nowhere.status, StatusCode::NOT_FOUND);
        nowhere.has(["<a href=\"group\">To the first page</a>"]);
    }
}

#[test]
fn a_node_that_is_closed_is_said_to_be_closed() {
    let durable = node(Durable::in_memory());
    let browser = Browser::new(Console::new().group(durable.timers()).start().unwrap());
    let mut events = browser.events("/events/group");
    events.until("bill");
    durable.close().unwrap();
    let seen = events.until("the node is closed");
    assert!(seen.contains("bill") && seen.contains("What is shown is older."), "{seen}");
}
