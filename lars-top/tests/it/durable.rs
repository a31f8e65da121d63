//! The view of a group of durable timers: drawn into a buffer, and driven in a terminal beside a
//! real PostgreSQL.
#![cfg(all(unix, feature = "durable"))]
#![allow(missing_docs, clippy::disallowed_methods)]

use crate::pty;

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent};
use lars_durable::{Durable, Fired, Payload};
use lars_top::Flow;
use lars_top::durable::{GroupNews, GroupView};
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
    // A node tells of itself with each renewal.
    let seen = loop {
        let seen = durable.inspect().wait().unwrap();
        if seen.nodes.iter().any(|node| node.name == "shop-1") {
            break seen;
        }
    };
    view.tell(GroupNews::Inspection(Box::new(seen), Instant::now()));
    let screen = drawn(&view, 130, 30);
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

/// A server of its own, which ends when this process does.
struct Server {
    watch: Child,
    programs: PathBuf,
    port: u16,
    parameters: String,
}

/// Starts the server, and ends it when the standard input ends.
const WATCH: &str = r#"
"$1/initdb" -D "$2" -A trust -U postgres --no-sync -E UTF8 --locale=C >/dev/null &&
"$1/pg_ctl" -D "$2" -w -l "$2/log" start \
    -o "-p $3 -k $2 -c listen_addresses=127.0.0.1 -c fsync=off" >/dev/null && echo ready
cat >/dev/null
"$1/pg_ctl" -D "$2" -m immediate stop
rm -rf "$2"
"#;

impl Server {
    /// `None` where there is no PostgreSQL, unless there has to be one.
    fn start() -> Option<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let programs = versions.map(|version| version.unwrap().path().join("bin"));
        let Some(programs) = programs.filter(|bin| bin.join("initdb").exists()).max() else {
            let text = "no PostgreSQL on this machine (Debian: apt-get install postgresql)";
            assert!(std::env::var_os("LARS_REQUIRE_POSTGRES").is_none(), "{text}");
            eprintln!("!!!!! SKIPPED: {text} !!!!!");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let data = format!("lars-top-pg-{}-{port}", std::process::id());
        let data: PathBuf = std::env::temp_dir().join(data);
        // PostgreSQL refuses to be root's.
        let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let mut command = Command::new(if root { "setpriv" } else { "sh" });
        if root {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"]);
        }
        command.args(["-c", WATCH, "sh"]).arg(&programs).arg(&data).arg(port.to_string());
        let pipes = command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut watch = pipes.spawn().unwrap();
        let mut said = String::new();
        let output = watch.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut said).unwrap();
        assert_eq!(said, "ready\n", "the server did not start");
        let parameters = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
        Some(Self { watch, programs, port, parameters })
    }

    fn psql(&self, sql: &str) {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-qX", "-v", "ON_ERROR_STOP=1", &self.parameters, "-c", sql]);
        assert!(psql.status().unwrap().success(), "{sql}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watch.stdin.take());
        let _ = self.watch.wait();
    }
}

fn start(arguments: &[&str]) -> Terminal {
    Terminal::start(env!("CARGO_BIN_EXE_durable_top"), arguments)
}

#[test]
fn durable_top_shows_the_nodes_that_share_a_database_and_obeys_keys() {
    let Some(server) = Server::start() else { return };
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
fn durable_top_writes_nothing_wherever_it_is_pointed() {
    let Some(server) = Server::start() else { return };
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
    let (code, screen) = start(&["service=none"]).end();
    assert!(code == 1 && screen.contains("there is no service \"none\""), "{screen}");
    // Nobody listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (code, screen) = start(&[&format!("host=127.0.0.1 port={port} user=nobody")]).end();
    assert!(code == 1 && screen.contains("durable_top: "), "{screen}");
}
