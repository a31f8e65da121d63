//! A file is looked at from outside, by whoever is no node.

use crate::common;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use common::{Directory, LONG, Note, note};
use lars_durable::query::{Query, State};
use lars_durable::{Durable, Error, Fired, Handler, Outcome, Refused, StartError};

const HOUR: Duration = Duration::from_secs(3_600);

/// What is in a directory.
fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A node that gives up what is due, with one timer given up and one that waits.
fn node(file: &Path) -> Durable {
    let park = Handler::new(|_: &Fired<Note>| Outcome::Park("no <money>".into()));
    let durable = Durable::sqlite(file).handler(park).start().unwrap();
    let timers = durable.timers();
    timers.schedule_once(HOUR, note("later")).key("order/1").submit().wait().unwrap();
    timers.schedule_once(Duration::ZERO, note("now")).submit().wait().unwrap();
    while durable.metrics().parked == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    durable
}

#[test]
fn a_file_is_seen_from_outside_while_its_owner_runs_and_when_it_does_not() {
    let directory = Directory::new("observed file");
    let file = directory.path().join("what's? 100% #1.db");
    let durable = node(&file);
    let mut observer = Durable::sqlite(&file).observe().unwrap();
    let own = format!("process {}", std::process::id());
    let seen = observer.inspect().unwrap();
    let [node] = &seen.nodes[..] else { panic!("{seen:?}") };
    assert_eq!((&node.name, node.buckets, seen.free_buckets), (&own, 1, 0));
    assert!(node.lease_left > Duration::ZERO);

    // It is the owner's still, although its lock file was looked at.
    assert!(matches!(Durable::sqlite(&file).start(), Err(StartError::Owned { .. })));
    durable.close().unwrap();
    let before = names(directory.path());
    for _ in 0..2 {
        let seen = observer.inspect().unwrap();
        assert_eq!((seen.nodes.len(), seen.buckets, seen.free_buckets), (0, 1, 1));
        let note = seen.handler("note").unwrap();
        assert_eq!((note.pending.value, note.parked.value, note.nodes), (1, 1, 0));
    }
    assert_eq!(names(directory.path()), before, "who looks leaves nothing behind");
    assert!(!before.iter().any(|name| name.ends_with("-wal")), "{before:?}");

    // A next life, which the same observer sees.
    let durable = Durable::sqlite(&file).start().unwrap();
    durable.timers().schedule_once(HOUR, note("new")).submit().wait().unwrap();
    let seen = observer.inspect().unwrap();
    assert_eq!((seen.nodes.len(), seen.handler("note").unwrap().pending.value), (1, 2));
}

#[test]
fn an_observer_of_a_file_answers_as_its_node_does() {
    let directory = Directory::new("answers");
    let durable = node(&directory.file());
    let timers = durable.timers();
    let mut observer = Durable::sqlite(directory.file()).observe().unwrap();
    for query in [Query::new(), Query::new().key_prefix("order/"), Query::new().failed_with("<m")] {
        assert_eq!(observer.list(&query).unwrap(), timers.list(&query).wait().unwrap());
        assert_eq!(observer.count(&query).unwrap(), timers.count(&query).wait().unwrap());
    }
    let [parked] = &common::parked(&timers)[..] else { panic!("one was given up") };
    let id = parked.timer.id;
    assert_eq!(timers.get_parked(id).wait().unwrap().as_ref(), Some(parked));
    assert_eq!(observer.get_parked(id).unwrap().as_ref(), Some(parked));
    for other in [0, id - 1, id + 1, u64::MAX] {
        assert_eq!(timers.get_parked(other).wait().unwrap(), None);
        assert_eq!(observer.get_parked(other).unwrap(), None);
    }
    let found = observer.get("order/1").unwrap().unwrap();
    assert_eq!(Some(&found), timers.get("order/1").wait().unwrap().as_ref());
    assert_eq!(observer.get(found.id).unwrap().as_ref(), Some(&found));
    assert_eq!(observer.get("order/2").unwrap(), None);
    let refused = |error| matches!(error, Error::Refused(Refused::KeyEmpty));
    assert!(refused(observer.get("").unwrap_err()));
    let query = Query::new().limit(0);
    assert!(matches!(observer.list(&query), Err(Error::Refused(Refused::QueryLimit { .. }))));
    let none = Query::new().states([State::Running]);
    assert_eq!(observer.count(&none).unwrap().matched, 0);
}

#[test]
fn an_observer_says_what_is_wrong_with_a_file_and_sees_it_when_it_is_there_again() {
    let directory = Directory::new("wrong");
    let file = directory.file();
    let refused = || Durable::sqlite(&file).observe().unwrap_err().to_string();
    assert!(refused().contains("No such file"), "{}", refused());
    assert!(names(directory.path()).is_empty(), "it makes no file");
    std::fs::write(&file, "no database, but a text that is long enough for a header of one")
        .unwrap();
    assert!(refused().contains("is not a usable SQLite database"), "{}", refused());
    std::fs::write(&file, "").unwrap();
    assert!(refused().contains("it has no durable timers"), "{}", refused());
    assert!(Durable::in_memory().observe().unwrap_err().to_string().contains("a file or Postgre"));

    std::fs::remove_file(&file).unwrap();
    node(&file).close().unwrap();
    let error = Durable::sqlite(&file).group("shpo").observe().unwrap_err();
    assert_eq!(error.to_string(), "there is no group \"shpo\"; there are [\"default\"]");
    let mut observer = Durable::sqlite(&file).observe().unwrap();
    let away = directory.path().join("away.db");
    std::fs::rename(&file, &away).unwrap();
    let error = observer.inspect().unwrap_err();
    assert!(matches!(&error, Error::Unavailable { reason } if reason.contains("No such file")));
    std::fs::rename(&away, &file).unwrap();
    assert_eq!(observer.inspect().unwrap().handler("note").unwrap().parked.value, 1);

    let newer = "UPDATE lars_meta SET version = 999";
    rusqlite::Connection::open(&file).unwrap().execute_batch(newer).unwrap();
    let error = observer.inspect().unwrap_err();
    assert!(error.to_string().contains("has version 999"), "{error}");
    assert!(refused().contains("has version 999"), "{}", refused());
}

/// In two processes, because a process sees its own locks nowhere but in its own memory.
#[cfg(unix)]
#[test]
fn an_observer_names_the_process_that_owns_a_file_and_sees_what_it_left_when_it_was_killed() {
    const CHILD: &str = "LARS_DURABLE_TEST_OBSERVED";
    if let Some(file) = std::env::var_os(CHILD) {
        let _durable = node(Path::new(&file));
        println!("ready");
        std::thread::sleep(LONG);
        return;
    }
    let directory = Directory::new("other-process");
    let name = "an_observer_names_the_process_that_owns_a_file_and_sees_what_it_left";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--nocapture"])
        .env(CHILD, directory.file())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(child.stdout.take().unwrap());
    assert!(std::io::BufRead::lines(output).any(|line| line.unwrap().ends_with("ready")));
    let mut observer = Durable::sqlite(directory.file()).observe().unwrap();
    let seen = observer.inspect().unwrap();
    assert_eq!(seen.nodes[0].name, format!("process {}", child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    let seen = observer.inspect().unwrap();
    let note = seen.handler("note").unwrap();
    assert_eq!((seen.nodes.len(), note.pending.value, note.parked.value), (0, 1, 1));
}
