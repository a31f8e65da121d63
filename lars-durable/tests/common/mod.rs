//! What the tests share.
#![allow(dead_code, reason = "not every test file uses all of it")]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lars_durable::inspection::Parked;
use lars_durable::query::{Found, Query, State};
use lars_durable::{Builder, Durable, Error, Fired, Payload, Refused, Timers};
use serde::{Deserialize, Serialize};

/// Long enough for any machine, and only waited for in a test that fails.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A directory that goes with the test.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let unique = format!("lars-durable-{name}-{}-{}", std::process::id(), fastrand::u64(..));
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("timers.db")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What was given up, as far as a page shows it.
pub(crate) fn parked(timers: &Timers) -> Vec<Parked> {
    let page = timers.list(&Query::new().states([State::Parked]).limit(1_000)).wait().unwrap();
    let found = page.timers.into_iter().map(|found| match found {
        Found::Parked(parked) => parked,
        Found::Timer(timer) => panic!("{timer:?}"),
    });
    found.collect()
}

/// Runs `test` on a node of each kind.
pub(crate) fn on_each_store(name: &str, test: impl Fn(Builder)) {
    test(Durable::in_memory());
    let directory = Directory::new(name);
    test(Durable::sqlite(directory.file()));
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Refused {
    match result {
        Err(Error::Refused(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note(pub(crate) String);

impl Payload for Note {
    const NAME: &'static str = "note";
}

pub(crate) fn note(text: &str) -> Note {
    Note(text.into())
}

/// Asserts that two long lists are the same: where they first differ is enough to read.
#[track_caller]
pub(crate) fn assert_same<T: PartialEq + std::fmt::Debug>(found: &[T], expected: &[T]) {
    let at = found.iter().zip(expected).take_while(|(one, other)| one == other).count();
    assert!(
        found == expected,
        "{} instead of {}; the first difference is at {at}: {:?} instead of {:?}",
        found.len(),
        expected.len(),
        found.get(at),
        expected.get(at)
    );
}

/// A run, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
}

/// A handler's closure that tells what it sees.
pub(crate) fn telling() -> (impl Fn(&Fired<Note>) + Send + Sync + 'static, Receiver<Seen>) {
    let (sender, receiver) = channel();
    (tell(sender), receiver)
}

pub(crate) fn tell(sender: Sender<Seen>) -> impl Fn(&Fired<Note>) + Send + Sync + 'static {
    let sender = Arc::new(Mutex::new(sender));
    move |fired| {
        let seen = Seen {
            text: fired.payload().0.clone(),
            attempt: fired.attempt(),
            fence: fired.fence(),
        };
        let _ = sender.lock().unwrap().send(seen);
    }
}
