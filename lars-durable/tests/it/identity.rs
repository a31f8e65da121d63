//! What tells a run apart from all others, for whatever lies outside the store.

use crate::common;

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::{Directory, LONG, Note, note};
use lars_durable::{Durable, Fired, StartError};

/// What the one run of a life shows: its key for the outside, its fence, and its timer.
fn one_run(file: &Path) -> (String, u64, u64) {
    let (sender, seen) = channel();
    let handler = move |due: &Fired<Note>| {
        sender.send((due.idempotency_key(), due.fence(), due.id())).unwrap();
    };
    let durable = Durable::sqlite(file).handle(handler).start().unwrap();
    durable.timers().schedule_once(Duration::ZERO, note("pay")).submit().wait().unwrap();
    let run = seen.recv_timeout(LONG).unwrap();
    durable.close().unwrap();
    run
}

#[test]
fn no_run_of_another_file_or_of_one_made_anew_has_the_idempotency_key_of_a_run() {
    let directory = Directory::new("identity");
    let (file, other) = (directory.file(), directory.path().join("other.db"));
    let mut keys = vec![one_run(&file).0, one_run(&file).0, one_run(&other).0];
    for name in ["timers.db", "timers.db-wal", "timers.db-shm"] {
        let _ = std::fs::remove_file(directory.path().join(name));
    }
    keys.push(one_run(&file).0);
    let mut different = keys.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), 4, "{keys:?}");
    assert!(keys.iter().all(|key| key.len() <= 80), "{keys:?}");
}

#[test]
fn after_a_restore_that_is_declared_keys_and_timers_are_new_and_fences_greater_than_since() {
    let directory = Directory::new("restored");
    let (file, backup) = (directory.file(), directory.path().join("backup.db"));
    let mut before = vec![one_run(&file)];
    std::fs::copy(&file, &backup).unwrap();
    before.extend((0..4).map(|_| one_run(&file)));
    // Twice the same backup, with fewer openings in between than seconds.
    for _ in 0..2 {
        for name in ["timers.db-wal", "timers.db-shm"] {
            let _ = std::fs::remove_file(directory.path().join(name));
        }
        std::fs::copy(&backup, &file).unwrap();
        Durable::declare_restored(&file).unwrap();
        let (key, fence, id) = one_run(&file);
        assert!(before.iter().all(|(earlier, ..)| *earlier != key), "{key} of {before:?}");
        assert!(before.iter().all(|(_, earlier, _)| *earlier < fence), "{fence} after {before:?}");
        assert!(before.iter().all(|(.., earlier)| *earlier < id), "{id} after {before:?}");
        before.push((key, fence, id));
        std::thread::sleep(Duration::from_secs(3));
    }
}

#[test]
fn a_file_that_was_opened_or_restored_too_often_is_refused_with_the_limit() {
    let directory = Directory::new("epochs");
    let file = directory.file();
    let before = one_run(&file).1;
    let set = |epoch: i64| {
        let shell = rusqlite::Connection::open(&file).unwrap();
        shell.execute("UPDATE lars_meta SET epoch = ?1", [epoch]).unwrap();
    };
    let words = |refused: Result<(), StartError>| match refused.unwrap_err() {
        StartError::Open { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    let most = i64::from(i32::MAX);
    set(most - 1);
    let fence = one_run(&file).1;
    assert!(before < fence && fence >> 32 == u64::try_from(most).unwrap(), "{fence}");
    for epoch in [most, most + 1, 1 << 32, 1 << 40, -1] {
        set(epoch);
        let reason = words(Durable::sqlite(&file).start().map(drop));
        assert!(reason.contains(&epoch.to_string()) && reason.contains("2147483647"), "{reason}");
    }
    set(most - (1 << 20));
    let reason = words(Durable::declare_restored(&file));
    assert!(reason.contains("restored, too often") && reason.contains("1048576"), "{reason}");
    set(most - (1 << 20) - 1);
    Durable::declare_restored(&file).unwrap();
}

#[test]
fn a_restore_is_declared_of_a_file_that_is_there_and_that_no_node_has() {
    let directory = Directory::new("undeclared");
    let missing = Durable::declare_restored(directory.file()).unwrap_err();
    assert!(matches!(missing, StartError::Open { .. }), "{missing}");
    assert!(!directory.file().exists());
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    let owned = Durable::declare_restored(directory.file()).unwrap_err();
    assert!(matches!(owned, StartError::Owned { .. }), "{owned}");
    durable.close().unwrap();
}

/// In virtual time.
mod series {
    use std::sync::{Arc, Mutex};

    use lars_durable::test_kit::Store;
    use lars_durable::{Handler, Outcome};
    use lars_scheduler::{LightArrayRevolverScheduler, VirtualTime};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    type Seen = Arc<Mutex<Vec<(u32, String)>>>;

    /// A series of a second whose third attempt of each run succeeds.
    fn series(time: &VirtualTime) -> (Durable, Seen) {
        let seen = Seen::default();
        let here = Arc::clone(&seen);
        let handler = Handler::new(move |due: &Fired<Note>| {
            here.lock().unwrap().push((due.attempt(), due.idempotency_key()));
            if due.attempt() < 3 { Outcome::RetryAfter(SECOND / 10) } else { Outcome::Done }
        });
        let node = Store::new(&time.handle()).node().handler(handler).start().unwrap();
        let rate = node.timers().schedule_at_fixed_rate(SECOND, SECOND, note("job")).key("job");
        rate.submit().wait().unwrap();
        (node, seen)
    }

    #[test]
    fn each_run_of_a_series_has_an_idempotency_key_that_all_its_attempts_have() {
        let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
        let (_node, seen) = series(&time);
        time.advance(SECOND * 7 / 2);
        let seen = seen.lock().unwrap();
        let attempts: Vec<u32> = seen.iter().map(|(attempt, _)| *attempt).collect();
        assert_eq!(attempts, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        for run in seen.chunks(3) {
            assert!(run.iter().all(|(_, key)| *key == run[0].1), "{run:?}");
        }
        assert_ne!(seen[0].1, seen[3].1);
        assert_ne!(seen[3].1, seen[6].1);
    }

    #[test]
    fn a_run_that_is_moved_between_its_attempts_keeps_its_idempotency_key() {
        let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
        let (node, seen) = series(&time);
        time.advance(SECOND + SECOND / 20);
        assert!(node.timers().reset("job", SECOND * 60).wait().unwrap());
        time.advance(SECOND * 61);
        let seen = seen.lock().unwrap();
        assert!(seen.len() >= 3 && seen[..3].iter().all(|(_, key)| *key == seen[0].1), "{seen:?}");
    }
}
