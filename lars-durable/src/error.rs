//! Errors, by what is known of the outcome.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use lars_jobs::wall_clock::CronError;

/// Why a call failed. The variant says what is known of its effect.
///
/// # Examples
///
/// ```
/// use lars_durable::{Durable, Error, Payload, Refused};
/// use std::time::{Duration, SystemTime};
///
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Hello(String);
/// # impl Payload for Hello { const NAME: &'static str = "hello"; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let durable = Durable::in_memory().start()?;
/// let hello = Hello("x".repeat(70_000));
/// let error = durable.timers().schedule_once(Duration::ZERO, hello).submit().wait().unwrap_err();
/// assert_eq!(error, Error::Refused(Refused::PayloadSize { given: 70_002, max: 65_536 }));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call was wrong, or came too late. Nothing was done, and repeating it will not help.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The store could not be used. Nothing was done; the call can be repeated.
    #[error("nothing was done, because the store cannot be used: {reason}")]
    Unavailable {
        /// What the store said last.
        reason: String,
    },
    /// The store did not say whether it committed. Repeat the call with the same key.
    #[error(
        "the store did not say whether the call took effect (repeat it with the same key): {reason}"
    )]
    OutcomeUnknown {
        /// What the store said last.
        reason: String,
    },
}

/// Why a call is refused: the value, and the limit that it breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The payload's JSON is too long.
    #[error("the payload has {given} bytes of JSON, but at most {max} are allowed")]
    PayloadSize {
        /// Its length in bytes.
        given: usize,
        /// The limit.
        max: usize,
    },
    /// The payload could not be made into JSON.
    #[error("the payload cannot be serialised: {reason}")]
    Payload {
        /// What `serde_json` says.
        reason: String,
    },
    /// The key is too long.
    #[error("the key has {given} bytes, but at most {max} are allowed")]
    KeySize {
        /// Its length in bytes.
        given: usize,
        /// The limit.
        max: usize,
    },
    /// The key is empty.
    #[error("the key is empty")]
    KeyEmpty,
    /// The key has a NUL byte, which databases do not store in text.
    #[error("the key has a NUL byte at {position}")]
    KeyNul {
        /// Where.
        position: usize,
    },
    /// A timer with this key exists, and the call asked to fail then.
    #[error("a timer with the key {key:?} exists, or its key is remembered")]
    KeyTaken {
        /// The key.
        key: String,
    },
    /// The tag is empty, too long, or has a NUL byte, which databases do not store in text.
    #[error("the tag has {given} bytes, but it must have from 1 to {max}, and none that is NUL")]
    Tag {
        /// Its length in bytes.
        given: usize,
        /// The limit.
        max: usize,
    },
    /// The call asks to remember the key, but has no key.
    #[error("`remember` needs a key")]
    RememberWithoutKey,
    /// A series without a run.
    #[error("the series has 0 runs, but at least 1 is needed")]
    TimesZero,
    /// A period of zero would run without end.
    #[error("the period is zero, but it must be at least 1 µs")]
    PeriodZero,
    /// The cron expression or its zone is wrong.
    #[error(transparent)]
    Cron(#[from] CronError),
    /// The address of an actor is wrong, or not one of the message's kind.
    #[cfg(feature = "actors")]
    #[error(
        "the address is {given:?}, but it must be {kind:?}, a slash and a name, up to {max} bytes"
    )]
    Address {
        /// The address.
        given: String,
        /// The kind that receives this message.
        kind: &'static str,
        /// The limit.
        max: usize,
    },
    /// No statement can do this: it takes a call of the node.
    #[cfg(feature = "postgres")]
    #[error("a statement cannot make {what}; `submit` can")]
    NotInSql {
        /// What the statement was asked for.
        what: &'static str,
    },
    /// Too many calls wait for their answers.
    #[error("too many calls wait for their answers: the limit is {max}")]
    PendingCalls {
        /// The limit.
        max: usize,
    },
    /// A batch is too long.
    #[error("the batch has {given} timers, but at most {max} are allowed")]
    BatchSize {
        /// How many timers it has.
        given: usize,
        /// The limit.
        max: usize,
    },
    /// The limit of a query is out of range.
    #[error("the limit of the query is {given}, but it must be from 1 to {max}")]
    QueryLimit {
        /// The limit that was asked for.
        given: usize,
        /// The greatest there may be.
        max: usize,
    },
    /// A query asks for no state that the call is for.
    #[error("the query has no state that `{call}` is for; at least 1 of these is needed: {needed}")]
    QueryStates {
        /// The call.
        call: &'static str,
        /// The states that it is for.
        needed: String,
    },
    /// A query asks for timers between two times of which the first is not before the second.
    #[error(
        "the query asks for timers from {from:?} on and before {before:?}: there is no such time"
    )]
    QueryTimes {
        /// From when on.
        from: SystemTime,
        /// Before when.
        before: SystemTime,
    },
    /// A text is not one of a place, as a step of a query shows it.
    #[error(
        "the place is {given:?}, but it must be the text of a `Place`, such as `parked.17`, \
         unchanged"
    )]
    QueryPlace {
        /// The text, up to 100 characters of it.
        given: String,
    },
    /// The payloads, keys and tags of a batch are too long.
    #[error(
        "the batch has {given} bytes of payloads, keys and tags, but at most {max} are allowed"
    )]
    BatchBytes {
        /// How many bytes they have.
        given: usize,
        /// The limit.
        max: usize,
    },
    /// The node was closed.
    #[error("the node is closed")]
    Closed,
    /// This process was forked from the one that has the node.
    #[error("the node is the parent process's: a fork takes no threads along")]
    Forked,
    /// Another process has opened the file, although this one had it, and owns it now: somebody
    /// removed the lock file. The node has ended.
    #[error("the node has ended, because another process has opened its file since")]
    FileTaken,
}

/// Why a node could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another process, or another `Durable` of this one, owns the file.
    #[error("{} is owned by another process ({owner}); one at a time may open it", path.display())]
    Owned {
        /// The file.
        path: PathBuf,
        /// What the owner wrote into the lock file.
        owner: String,
    },
    /// The file is not an SQLite database, or is damaged.
    #[error("{} is not a usable SQLite database: {reason}", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// A newer version of this crate made the schema.
    #[error(
        "the schema of {} has version {found}, but this crate knows versions up to {known}",
        path.display()
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The newest version that this crate knows.
        known: i64,
    },
    /// The file, or its directory, cannot be written.
    #[error("{} cannot be written: {reason}", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What the operating system or SQLite says.
        reason: String,
    },
    /// The file could not be opened, or its schema not made.
    #[error("{} cannot be opened: {reason}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the operating system or SQLite says.
        reason: String,
    },
    /// The database cannot be used: it does not answer, refuses the node, or lacks something.
    #[error("the database cannot be used: {reason}")]
    Database {
        /// What the server says, and a cure where there is one. Never the connection string.
        reason: String,
    },
    /// A newer version of this crate made the schema in the database.
    #[error("the schema `lars` has version {found}, but this crate knows versions up to {known}")]
    NewerDatabase {
        /// The version in the database.
        found: i64,
        /// The newest version that this crate knows.
        known: i64,
    },
    /// An older version of this crate made the schema in the database, and this node could not
    /// upgrade it.
    #[error(
        "the schema `lars` has version {found}, but this crate needs {known}, and could not \
         upgrade it (run the newer scripts of sql/ as its owner): {reason}"
    )]
    OlderDatabase {
        /// The version in the database.
        found: i64,
        /// The version that this crate needs.
        known: i64,
        /// What the server said.
        reason: String,
    },
    /// The group that was to be looked at does not exist: no node of it has ever joined.
    #[error("there is no group {group:?}; {}", groups(known))]
    NoGroup {
        /// The group.
        group: String,
        /// Those that there are, by name, at most 20.
        known: Vec<String>,
    },
    /// A setting is out of range.
    #[error("{name} is {given}, but it must be {limit}")]
    Setting {
        /// Which one.
        name: &'static str,
        /// Its value.
        given: String,
        /// What is allowed.
        limit: &'static str,
    },
    /// Two handlers have the same name.
    #[error("there are two handlers for {name:?}")]
    HandlerTwice {
        /// The name.
        name: String,
    },
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] io::Error),
}

fn groups(known: &[String]) -> String {
    if known.is_empty() { "there is none".to_owned() } else { format!("there are {known:?}") }
}

/// A node did not close in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the node did not close within {limit:?}: {running} runs had not ended")]
pub struct CloseError {
    /// How long the call waited.
    pub limit: Duration,
    /// Runs that had not ended. They were given back, and run again on this node or another one.
    /// Those of handlers that run at most once do not.
    pub running: usize,
}

/// Why something could not be done in the user's own transaction. Roll that back.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError<E> {
    /// The run is not the current one any more: another one has begun, or the timer is gone.
    #[error("the run is not the current one any more; roll the transaction back")]
    Stale,
    /// The call was wrong. Repeating it will not help.
    #[error(transparent)]
    Refused(Refused),
    /// The node keeps its timers elsewhere than where the call could be made: in memory, in a
    /// database of the other kind, or in another file than the one that the connection has opened.
    /// A file that is attached to the connection is another one.
    #[error("the timers of the node are not in the database of this transaction")]
    OtherStore,
    /// A statement failed.
    #[error(transparent)]
    Failed(#[from] E),
}
