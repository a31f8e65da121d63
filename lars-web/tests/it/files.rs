//! A file that is shown from outside.

use std::path::{Path, PathBuf};

use lars_durable::Durable;
use lars_web::Console;

use crate::browser::{Browser, HOUR, node, park, schedule};

/// A file in a directory that goes with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let directory = format!("lars-web-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        std::fs::create_dir(&directory).unwrap();
        Self(directory.join("timers.db"))
    }

    fn browser(&self) -> Browser {
        let path = self.0.clone();
        let console = Console::new().observe(move || Durable::sqlite(&path)).about("a file");
        Browser::new(console.start().unwrap())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

/// Gives the schema another version, and returns the one before.
fn set_version(file: &Path, version: u32) -> u32 {
    let connection = rusqlite::Connection::open(file).unwrap();
    let read = "SELECT version FROM lars_meta";
    let before = connection.query_row(read, [], |row| row.get(0)).unwrap();
    connection.execute("UPDATE lars_meta SET version = ?1", [version]).unwrap();
    before
}

#[test]
fn a_file_is_shown_while_its_owner_runs_and_when_it_does_not() {
    let file = File::new("shown");
    let owner = node(Durable::sqlite(&file.0));
    schedule(&owner, "order/1", HOUR, "later");
    let parked = park(&owner, "order/2", "no money");
    let browser = file.browser();
    let mut events = browser.events("/events/group");
    let process = format!("process {}", std::process::id());
    let seen = events.until(&process);
    assert!(seen.contains("bill"), "{seen}");
    browser.get("/group").has(["<span class=\"about\">a file</span>"]);
    browser.get(&format!("/timers/{parked}")).has(["no money"]);
    owner.close().unwrap();
    let seen = events.until("No node is there: timers wait.");
    assert!(seen.contains("bill") && !seen.contains(&process), "{seen}");
    browser.get("/timers").has(["order/1", "no money"]);
}

#[test]
fn what_is_wrong_with_a_file_is_said_on_the_page_and_it_comes_back_by_itself() {
    let file = File::new("wrong");
    let browser = file.browser();
    let mut events = browser.events("/events/group");
    events.until("No such file");
    browser.get("/timers").has(["No answer", "No such file"]);
    let owner = node(Durable::sqlite(&file.0));
    schedule(&owner, "order/1", HOUR, "later");
    let seen = events.until("bill");
    assert!(!seen.contains("No answer"), "{seen}");
    owner.close().unwrap();
    let known = set_version(&file.0, 999);
    // What was seen last is still there.
    let seen = events.until("has version 999");
    assert!(seen.contains("bill") && seen.contains("What is shown is older."), "{seen}");
    browser.get("/timers").has(["has version 999"]);
    set_version(&file.0, known);
    while events.next().unwrap().contains("No answer") {}
    browser.get("/timers").has(["order/1"]);
}
