//! What tells a run apart from all others, for whatever lies outside the store.

use crate::common;

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::{Directory, LONG, Note, note};
use lars_durable::{Durable, Fired, StartError};

/// What the one run of a life shows: its key for the outside, and its fence.
fn one_run(file: &Path) -> (String, u64) {
    let (sender, seen) = channel();
    let handler = move |due: &Fired<Note>| {
        sender.send((due.idempotency_key(), due.fence())).unwrap();
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
fn after_a_restore_that_is_declared_keys_are_new_and_fences_are_greater_than_since_the_backup() {
    let directory = Directory::new("restored");
    let (file, backup) = (directory.file(), directory.path().join("backup.db"));
    let mut before = vec![one_run(&file)];
    std::fs::copy(&file, &backup).unwrap();
    before.extend((0..4).map(|_| one_run(&file)));
    for name in ["timers.db-wal", "timers.db-shm"] {
        let _ = std::fs::remove_file(directory.path().join(name));
    }
    std::fs::copy(&backup, &file).unwrap();
    Durable::declare_restored(&file).unwrap();
    let (key, fence) = one_run(&file);
    assert!(before.iter().all(|(earlier, _)| *earlier != key), "{key} of {before:?}");
    assert!(before.iter().all(|(_, earlier)| *earlier < fence), "{fence} after {before:?}");
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
#[cfg(feature = "test-kit")]
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
