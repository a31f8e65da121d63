//! Who owns a file, by whatever name it is reached, and what is left of a node whose file is gone.

use crate::common;

use std::time::Duration;

use common::{Directory, LONG, note, telling};
use lars_durable::{Durable, Error, OnConflict, Refused, StartError};

/// Soon enough to be in memory, and late enough for another node to be started meanwhile.
const SOON: Duration = Duration::from_secs(2);

const TIMERS: usize = 40;

#[test]
fn what_sqlite_takes_for_something_else_than_a_file_is_refused() {
    for name in ["", ":memory:", "file:timers.db?mode=memory"] {
        let error = Durable::sqlite(name).start().unwrap_err();
        let StartError::Setting { name: "path", given, .. } = &error else { panic!("{error}") };
        assert_eq!(given, &format!("{name:?}"));
    }
}

#[cfg(unix)]
#[test]
fn a_new_file_and_what_is_beside_it_is_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("private");
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    durable.timers().schedule_once(LONG, note("secret")).submit().wait().unwrap();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        names.push(entry.file_name().into_string().unwrap());
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{names:?}");
    }
    assert_eq!(names.len(), 4, "{names:?}");
    durable.close().unwrap();
}

#[cfg(unix)]
#[test]
fn a_link_to_a_file_that_was_not_there_leads_to_the_owner_of_the_file() {
    use std::os::unix::fs::symlink;
    let directory = Directory::new("dangling");
    let (link, second) = (directory.path().join("link.db"), directory.path().join("second.db"));
    symlink("timers.db", &link).unwrap();
    symlink("link.db", &second).unwrap();
    let first = Durable::sqlite(&second).start().unwrap();
    for path in [directory.file(), link, second] {
        let error = Durable::sqlite(path).start().unwrap_err();
        assert!(matches!(&error, StartError::Owned { .. }), "{error}");
    }
    first.close().unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_with_two_names_is_refused_because_each_would_have_a_log_of_its_own() {
    let directory = Directory::new("names");
    Durable::sqlite(directory.file()).start().unwrap().close().unwrap();
    let other = directory.path().join("other.db");
    std::fs::hard_link(directory.file(), &other).unwrap();
    for path in [&directory.file(), &other] {
        let error = Durable::sqlite(path).start().unwrap_err();
        assert!(error.to_string().contains("2 names (hard links)"), "{error}");
    }
    std::fs::remove_file(&other).unwrap();
    Durable::sqlite(directory.file()).start().unwrap().close().unwrap();
}

/// In two processes, as the second owner comes from elsewhere: within one, a file that is owned is
/// not opened again, whatever became of the lock file. So here the first is a child.
#[cfg(unix)]
#[test]
fn whoever_opens_a_file_whose_lock_was_removed_runs_its_timers_and_the_node_before_ends() {
    const CHILD: &str = "LARS_DURABLE_TEST_FIRST_OWNER";
    if let Some(file) = std::env::var_os(CHILD) {
        return be_the_first_owner(std::path::Path::new(&file));
    }
    let directory = Directory::new("removed");
    let name = "file_owners::whoever_opens_a_file_whose_lock_was_removed_runs_its_timers_and_the_\
                node_before_ends";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, directory.file())
        .spawn()
        .unwrap();
    let ready = directory.path().join("ready");
    while !ready.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the first owner has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(directory.path().join("timers.db.lock")).unwrap();
    let (tell, seen) = telling();
    let second = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    let timers = second.timers();
    // The first has them in memory as well.
    let mut texts = std::collections::BTreeSet::new();
    while texts.len() < TIMERS {
        texts.insert(seen.recv_timeout(LONG).unwrap().text);
    }
    assert!(child.wait().unwrap().success(), "the first owner did not end as it should");
    assert!(timers.get("0").wait().unwrap().is_none());
    second.close().unwrap();
}

#[cfg(unix)]
fn be_the_first_owner(file: &std::path::Path) {
    let (tell, seen) = telling();
    let first = Durable::sqlite(file).handle(tell).start().unwrap();
    let timers = first.timers();
    // Until the second owner is there, they are pushed out.
    let push_out = || {
        timers.schedule_batch((0..TIMERS).map(|number| {
            let number = number.to_string();
            let timer = timers.schedule_once(SOON, note(&number)).key(number);
            timer.on_conflict(OnConflict::Replace)
        }))
    };
    push_out().wait().unwrap();
    std::fs::write(file.with_file_name("ready"), "").unwrap();
    let error = (0..3_000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        push_out().wait().err()
    });
    let error = error.expect("it does not notice that it owns the file no more");
    let ends = matches!(error, Error::OutcomeUnknown { .. } | Error::Refused(Refused::FileTaken));
    assert!(ends, "{error}");
    assert_eq!(timers.get("0").wait().unwrap_err(), Error::Refused(Refused::FileTaken));
    // On a machine that stood still, some had started before.
    let started = first.metrics().started;
    std::thread::sleep(SOON);
    assert_eq!(first.metrics().started, started);
    assert!(seen.try_iter().count() as u64 <= started, "it runs what it has not started");
}

#[cfg(unix)]
#[test]
fn nothing_is_accepted_into_a_file_that_was_deleted_or_moved() {
    for name in ["timers.db", "timers.db-wal"] {
        let directory = Directory::new("deleted");
        let builder = Durable::sqlite(directory.file());
        let durable = builder.call_timeout(Duration::from_millis(100)).start().unwrap();
        let timers = durable.timers();
        let schedule = |what| timers.schedule_once(LONG, note(what)).submit().wait();
        // (On a busy machine a call may take longer than its limit.)
        while schedule("before").is_err() {}
        let (path, away) = (directory.path().join(name), directory.path().join("away"));
        std::fs::rename(&path, &away).unwrap();
        let says_why = |error| {
            matches!(error, Error::Unavailable { reason }
            if reason.contains("deleted, moved or replaced"))
        };
        while !says_why(schedule("lost").unwrap_err()) {}
        // It was a mistake, and is undone.
        std::fs::rename(&away, &path).unwrap();
        while schedule("after").is_err() {}
        durable.close().unwrap();
    }
}
