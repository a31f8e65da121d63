//! A group in a real PostgreSQL, which comes and goes.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use axum::http::StatusCode;
use lars_durable::Durable;
use lars_web::Console;

use crate::browser::{Browser, HOUR, TOKEN, node, park, schedule};

/// A server of its own, which ends when this process does. It logs all statements.
struct Server {
    watch: Child,
    said: BufReader<ChildStdout>,
    data: PathBuf,
    parameters: String,
}

/// Starts and stops the server as it is told, and ends it when the standard input ends.
const WATCH: &str = r#"
"$1/initdb" -D "$2" -A trust -U postgres --no-sync -E UTF8 --locale=C >/dev/null || exit
while read -r word; do
    "$1/pg_ctl" -D "$2" -w -l "$2/log" -m fast "$word" -o "-p $3 -k $2 -c fsync=off \
        -c listen_addresses=127.0.0.1 -c log_statement=all" >/dev/null && echo "$word"
done
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
        let data = format!("lars-web-pg-{}-{port}", std::process::id());
        let data = std::env::temp_dir().join(data);
        // PostgreSQL refuses to be root's.
        let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let mut command = Command::new(if root { "setpriv" } else { "sh" });
        if root {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"]);
        }
        command.args(["-c", WATCH, "sh"]).arg(&programs).arg(&data).arg(port.to_string());
        let pipes = command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut watch = pipes.spawn().unwrap();
        let said = BufReader::new(watch.stdout.take().unwrap());
        let parameters = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
        let mut server = Self { watch, said, data, parameters };
        server.tell("start");
        Some(server)
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.watch.stdin.as_mut().unwrap(), "{word}").unwrap();
        let mut said = String::new();
        self.said.read_line(&mut said).unwrap();
        assert_eq!(said.trim(), word, "the server did not {word}");
    }

    /// How many statements with this text it has logged.
    fn logged(&self, text: &str) -> usize {
        let log = std::fs::read_to_string(self.data.join("log")).unwrap();
        log.lines().filter(|line| line.contains(text)).count()
    }

    fn console(&self, group: &'static str) -> Console {
        let parameters = self.parameters.clone();
        Console::new().observe(move || Durable::postgres(&parameters).group(group))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watch.stdin.take());
        let _ = self.watch.wait();
    }
}

#[test]
fn a_hundred_open_pages_cost_the_database_no_more_than_one() {
    let Some(server) = Server::start() else { return };
    let shop = node(Durable::postgres(&server.parameters).group("shop"));
    schedule(&shop, "order/1", HOUR, "later");
    let browser = Browser::new(server.console("shop").start().unwrap());
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
fn from_a_wrong_address_to_the_group_and_back_a_page_says_what_is_wrong() {
    let Some(mut server) = Server::start() else { return };
    let browser = Browser::known(server.console("shop").token(TOKEN).actions().start().unwrap());
    let mut events = browser.events("/events/group");
    events.until("there is no schema `lars`");
    let shop = node(Durable::postgres(&server.parameters).group("shop"));
    schedule(&shop, "order/1", HOUR, "later");
    let parked = park(&shop, "order/2", "no money");
    let seen = events.until("bill");
    assert!(seen.contains("shop-1") && seen.contains("64 buckets, 0 without"), "{seen}");
    let misspelt = Browser::new(server.console("shpo").start().unwrap());
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
