//! The view of a group of durable timers: drawn into a buffer, and driven in a terminal beside a
//! real PostgreSQL.
#![cfg(unix)]
#![allow(missing_docs, clippy::disallowed_methods)]

use crate::postgres::Server;
use crate::pty;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent};
use lars_durable::inspection::Inspection;
use lars_durable::{Durable, Fired, Payload};
use lars_top::Flow;
use lars_top::durable::{GroupNews, GroupView};
use lars_top::libpq::Database;
use pty::Terminal;
use ratatui::backend::TestBackend;
use serde::{Deserialize, Serialize};

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Serialize, Deserialize)]
struct Payment(u64);
impl Payload for Payment {
    const NAME: &'static str = "payment-due";
}

#[derive(Serialize, Deserialize)]
struct Feedback(u64);
impl Payload for Feedback {
    const NAME: &'static str = "feedback";
}

fn handlers(builder: lars_durable::Builder) -> Durable {
    // A machine that is busy with other things may take long.
    let builder = builder.lease(Duration::from_secs(60)).call_timeout(Duration::from_secs(300));
    let builder = builder.handle(|_: &Fired<Payment>| {}).handle(|_: &Fired<Feedback>| {});
    builder.start().unwrap()
}

fn schedule(durable: &Durable) {
    let timers = durable.timers();
    for number in 0..12 {
        timers.schedule_once(HOUR, Payment(number)).submit().wait().unwrap();
    }
    timers.schedule_once(HOUR * 30, Feedback(1)).submit().wait().unwrap();
}

/// When the node has told of itself, as it does with each renewal of its lease.
fn inspected(durable: &Durable) -> Inspection {
    loop {
        let seen = durable.inspect().wait().unwrap();
        if seen.nodes.iter().any(|node| node.name == "shop-1") {
            return seen;
        }
    }
}

fn drawn(view: &GroupView, width: u16, height: u16) -> String {
    let mut terminal = ratatui::Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    terminal.backend().to_string()
}

fn press(view: &mut GroupView, keys: &str) {
    for key in keys.chars() {
        let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
        assert_eq!(view.press(KeyEvent::from(code)), Flow::On);
    }
}

#[test]
fn a_group_is_shown_with_its_nodes_and_handlers() {
    let durable = handlers(Durable::in_memory().name("shop-1"));
    schedule(&durable);
    let mut view = GroupView::new();
    assert!(drawn(&view, 130, 30).contains("Looking into the database"));
    view.tell(GroupNews::Trouble("the server is away".to_owned()));
    assert!(drawn(&view, 130, 30).contains("the server is away"));
    let mut seen = inspected(&durable);
    view.tell(GroupNews::Inspection(Box::new(seen.clone()), Instant::now()));
    let screen = drawn(&view, 130, 30);
    assert!(!screen.contains("timers counted"), "few timers are counted by each look:\n{screen}");
    seen.counted_ago = Duration::from_secs(7);
    view.tell(GroupNews::Inspection(Box::new(seen), Instant::now()));
    let screen = drawn(&view, 130, 30);
    assert!(screen.contains("timers counted 7.00 s ago"), "{screen}");
    let line = |text: &str| {
        let found = screen.lines().find(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("no line has `{text}`:\n{screen}")).to_owned()
    };
    assert!(line("shop-1").contains("runs"), "{screen}");
    assert!(line("payment-due").contains(" 12 "), "{screen}");
    assert!(line("payment-due").contains("in 59 min"), "{screen}");
    assert!(screen.contains("by name") && screen.contains("no dead rows"), "{screen}");
    let position = |screen: &str, text: &str| screen.find(text).unwrap();
    assert!(position(&screen, "feedback") < position(&screen, "payment-due"), "{screen}");

    press(&mut view, "s");
    let screen = drawn(&view, 130, 30);
    assert!(position(&screen, "payment-due") < position(&screen, "feedback"), "{screen}");
    press(&mut view, "/pay\n");
    assert!(!drawn(&view, 130, 30).contains("feedback"));
    press(&mut view, "h");
    assert!(drawn(&view, 130, 30).contains("quit the view"));
    press(&mut view, "hp");
    assert!(drawn(&view, 130, 30).contains("PAUSED"));
    view.tell(GroupNews::Trouble("the server is away".to_owned()));
    let screen = drawn(&view, 130, 30);
    assert!(screen.contains("NO ANSWER") && screen.contains("the server is away"), "{screen}");
    for (width, height) in [(1, 1), (10, 3), (40, 10), (80, 24)] {
        drawn(&view, width, height);
    }
    assert_eq!(view.press(KeyEvent::from(KeyCode::Char('q'))), Flow::Quit);
}

#[test]
fn of_very_many_nodes_those_that_are_late_are_shown_and_the_others_counted() {
    let durable = handlers(Durable::in_memory().name("shop-1"));
    let mut seen = inspected(&durable);
    let node = seen.nodes.remove(0);
    seen.nodes = vec![node; 20];
    for (number, node) in (1..).zip(&mut seen.nodes) {
        node.name = format!("node-{number}");
    }
    seen.nodes[19].lease_left = Duration::ZERO;
    let mut view = GroupView::new();
    view.tell(GroupNews::Inspection(Box::new(seen), Instant::now()));
    let screen = drawn(&view, 130, 30);
    assert!(screen.contains("Nodes, 8 of 20"), "{screen}");
    assert!(screen.contains("node-20") && !screen.contains("node-19"), "{screen}");
    press(&mut view, "/node-1\n");
    let screen = drawn(&view, 130, 30);
    assert!(screen.contains("Nodes, 8 of 11") && screen.contains("node-10"), "{screen}");
}

#[test]
fn a_handler_that_was_not_known_before_has_no_rate_yet() {
    let durable = handlers(Durable::in_memory().name("shop-1"));
    let mut seen = inspected(&durable);
    seen.handlers.iter_mut().for_each(|handler| handler.started = 1_000);
    let at = Instant::now();
    let unknown = seen.handlers.pop().unwrap();
    let mut view = GroupView::new();
    view.tell(GroupNews::Inspection(Box::new(seen.clone()), at));
    seen.handlers[0].started += 50;
    seen.handlers.push(unknown);
    view.tell(GroupNews::Inspection(Box::new(seen), at + Duration::from_secs(10)));
    let screen = drawn(&view, 130, 30);
    let rates = || screen.lines().filter(|line| line.contains("/s"));
    assert!(rates().any(|line| line.contains(" 5/s")), "{screen}");
    assert!(rates().any(|line| line.contains(" 0/s")), "{screen}");
}

fn start(arguments: &[&str]) -> Terminal {
    Terminal::start(env!("CARGO_BIN_EXE_durable_top"), arguments)
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn durable_top_shows_the_nodes_that_share_a_database_and_obeys_keys() {
    let server = Server::start();
    let shop = handlers(Durable::postgres(&server.parameters).group("shop").name("shop-1"));
    schedule(&shop);
    let mut terminal = start(&[&server.parameters, "shop"]);
    terminal.shows_all(["shop-1", "payment-due", "feedback", "12", "dead"]);
    terminal.press("s");
    terminal.shows("by pending");
    terminal.press("/feed\r");
    terminal.shows_without("feedback", Some("payment-due"));
    terminal.press("\x1b");
    terminal.shows("payment-due");
    // The view is no node.
    terminal.shows("1 nodes, 64 buckets");
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
    let seen = shop.inspect().wait().unwrap();
    assert_eq!((seen.nodes.len(), seen.handler("payment-due").unwrap().pending.value), (1, 12));
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn durable_top_writes_nothing_wherever_it_is_pointed() {
    let server = Server::start();
    // A database that has no timers, and that goes without them.
    for _ in 0..2 {
        let (code, screen) = start(&[&server.parameters]).end();
        assert!(code == 1 && screen.contains("there is no schema `lars`"), "{screen}");
    }
    let shop = handlers(Durable::postgres(&server.parameters).group("shop").name("shop-1"));
    schedule(&shop);
    for _ in 0..2 {
        let (code, screen) = start(&[&server.parameters, "shpo"]).end();
        assert!(code == 1 && screen.contains("there is no group \"shpo\""), "{screen}");
        assert!(screen.contains("there are [\"shop\"]"), "{screen}");
    }
    // A role that may read, and nothing else; all of its parameters are in the environment.
    server.psql(
        "CREATE ROLE looks LOGIN; GRANT USAGE ON SCHEMA lars TO looks; \
         GRANT SELECT ON ALL TABLES IN SCHEMA lars TO looks",
    );
    let port = server.port.to_string();
    let variables = [
        ("PGHOST", "127.0.0.1"),
        ("PGPORT", &*port),
        ("PGUSER", "looks"),
        ("PGDATABASE", "postgres"),
    ];
    let program = env!("CARGO_BIN_EXE_durable_top");
    let mut terminal = Terminal::start_with(program, &["", "shop"], &variables);
    terminal.shows_all(["shop-1", "payment-due"]);
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn durable_top_says_what_is_wrong_when_it_cannot_start() {
    let (code, screen) = start(&["a", "b", "c"]).end();
    assert!(code == 2 && screen.contains("at most two arguments are expected"), "{screen}");
    let (code, screen) = start(&["--group", "shop"]).end();
    assert!(code == 2 && screen.contains("there is no option --group"), "{screen}");
    let (code, screen) = start(&["service=none"]).end();
    assert!(code == 1 && screen.contains("there is no service \"none\""), "{screen}");
    // Nobody listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (code, screen) = start(&[&format!("host=127.0.0.1 port={port} user=nobody")]).end();
    assert!(code == 1 && screen.contains("durable_top: "), "{screen}");
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_connection_is_encrypted_and_the_server_is_checked_as_sslmode_says() {
    let server = Server::start_secure();
    server.psql("CREATE ROLE guarded LOGIN; GRANT CONNECT ON DATABASE postgres TO guarded");
    let file = |name: &str| server.data.join(name).display().to_string();
    let (own, other) = (file("server.crt"), file("other.crt"));
    let port = server.port;
    let ask = |more: &str| {
        let given = format!("port={port} user=guarded dbname=postgres {more}");
        let database = Database::find(&given, "test").unwrap();
        database.builder().observe().map(drop).unwrap_err().to_string()
    };
    let here = "host=127.0.0.1";
    // The certificate is for the address, and not for that name.
    let named = "host=localhost hostaddr=127.0.0.1";
    for reached in [
        here.to_owned(),
        "hostaddr=127.0.0.1".to_owned(),
        format!("{here} sslmode=prefer sslrootcert={other}"),
        format!("{here} sslmode=require"),
        format!("{named} sslmode=verify-ca sslrootcert={own}"),
        format!("{here} sslmode=verify-full sslrootcert={own}"),
    ] {
        let error = ask(&reached);
        assert!(error.contains("there is no schema `lars`"), "{reached}: {error}");
    }
    for (refused, why) in [
        (format!("{here} sslmode=disable"), "rejects"),
        (format!("{here} sslmode=require sslrootcert={other}"), "certificate"),
        (format!("{here} sslmode=verify-ca sslrootcert={other}"), "certificate"),
        (format!("{named} sslmode=verify-full sslrootcert={own}"), "certificate"),
    ] {
        let error = ask(&refused);
        assert!(error.contains(why), "{refused}: {error}");
    }
}
