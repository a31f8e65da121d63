//! What the server's errors mean, and how they are reported: never with a value of a row, a
//! connection string or a statement.

use std::error::Error as _;
use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// What people can do about a pooler.
const POOLER: &str = "the connection goes through a pooler that gives each transaction another \
     session; connect to the server itself, or to a pool in session mode";

/// Why a transaction did not say that it committed.
#[derive(Debug)]
pub(super) struct Failure {
    reason: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The server refused a statement; the transaction is rolled back.
    Refused,
    /// Another transaction was in the way; the same may succeed at once.
    Race,
    /// A new timer has the identity of one that is there, or may have.
    ForeignIds,
    /// Somebody holds a row.
    Locked,
    /// The connection is gone, or of no use.
    Broken,
    /// As `Broken`, before anything was asked.
    Idle,
    /// The schema, the server or the role is not suitable.
    Unfit,
}

impl Failure {
    pub(super) fn late(limit: Duration) -> Self {
        Self { reason: format!("no answer within {limit:?}"), kind: Kind::Broken }
    }

    pub(super) fn pooler() -> Self {
        Self { reason: POOLER.into(), kind: Kind::Unfit }
    }

    pub(super) fn race(reason: &str) -> Self {
        Self { reason: reason.into(), kind: Kind::Race }
    }

    /// Commits may have been lost, and with them what was drawn.
    pub(super) fn other_history() -> Self {
        let reason = "another server has taken over, and may not have received the last commits";
        Self { reason: reason.into(), kind: Kind::ForeignIds }
    }

    pub(super) fn unfit(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), kind: Kind::Unfit }
    }

    /// The failure of the first statement of a transaction.
    pub(super) fn at_begin(error: &Error) -> Self {
        let failure = Self::from(error);
        let kind = if failure.kind == Kind::Broken { Kind::Idle } else { failure.kind };
        Self { kind, ..failure }
    }

    pub(super) fn ends_session(&self) -> bool {
        matches!(self.kind, Kind::Broken | Kind::Idle | Kind::Unfit)
    }

    /// A commit that ended so may have taken effect.
    pub(super) fn leaves_commit_open(&self) -> bool {
        !matches!(self.kind, Kind::Refused | Kind::Race | Kind::ForeignIds | Kind::Locked)
    }

    pub(super) fn is_race(&self) -> bool {
        self.kind == Kind::Race
    }

    pub(super) fn has_foreign_ids(&self) -> bool {
        self.kind == Kind::ForeignIds
    }

    pub(super) fn is_locked(&self) -> bool {
        self.kind == Kind::Locked
    }

    pub(super) fn was_idle(&self) -> bool {
        self.kind == Kind::Idle
    }

    pub(super) fn into_reason(self) -> String {
        self.reason
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self { reason: words(error), kind: kind(error) }
    }
}

fn kind(error: &Error) -> Kind {
    let Some(code) = error.code() else { return Kind::Broken };
    let constraint = error.as_db_error().and_then(|error| error.constraint());
    match *code {
        SqlState::UNIQUE_VIOLATION if constraint == Some("timer_pkey") => Kind::ForeignIds,
        SqlState::UNIQUE_VIOLATION
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE => Kind::Race,
        SqlState::LOCK_NOT_AVAILABLE => Kind::Locked,
        // The statement's meaning has changed; a new session knows the new one.
        SqlState::INVALID_SQL_STATEMENT_NAME
        | SqlState::DUPLICATE_PSTATEMENT
        | SqlState::FEATURE_NOT_SUPPORTED => Kind::Broken,
        // Shutdown, crash, terminated, not yet started, and what ends connections.
        _ if code.code().starts_with("57P") || code.code().starts_with("08") => Kind::Broken,
        SqlState::READ_ONLY_SQL_TRANSACTION => Kind::Broken,
        _ if code.code().starts_with("25") || code.code().starts_with("XX") => Kind::Broken,
        _ => Kind::Refused,
    }
}

/// The error for people, with advice where they can help.
pub(super) fn words(error: &Error) -> String {
    let Some(database) = error.as_db_error() else {
        // The client's own, such as "error connecting to server", and what is below it.
        return match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
    };
    let cure = match *database.code() {
        SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT => POOLER,
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "the role needs what sql/roles.sql grants, or, to make the schema, CREATE on the \
             database"
        }
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => {
            "the schema `lars` is missing or incomplete; a node that may makes it, or run the \
             scripts of sql/"
        }
        SqlState::TOO_MANY_CONNECTIONS => "a node needs up to five connections",
        SqlState::READ_ONLY_SQL_TRANSACTION => "the server is a standby, or set to read only",
        SqlState::DISK_FULL => "the disk of the server is full",
        SqlState::QUERY_CANCELED => "a statement took too long for the lease",
        SqlState::LOCK_NOT_AVAILABLE => "another transaction holds a row of `lars` for too long",
        _ => "",
    };
    // Not the detail: it may show a key.
    let (message, code) = (database.message(), database.code().code());
    match cure {
        "" => format!("{message} (SQLSTATE {code})"),
        cure => format!("{message} (SQLSTATE {code}): {cure}"),
    }
}
