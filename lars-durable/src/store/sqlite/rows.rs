//! Rows and values, both ways.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Result, ToSql};

use crate::model::{Fence, Listed, Loaded, Row};
use crate::sync::Arc;
use crate::time::{Micros, Timestamp};

/// What [`loaded`] reads. `?1` is the handlers whose payloads are asked for, as JSON, and `?2` how
/// much of them.
macro_rules! loaded_columns {
    () => {
        "id, bucket, due_at, planned_at, handler, fence, deaths, cancelled, \
         CASE WHEN handler IN (SELECT value FROM json_each(?1)) THEN substr(payload, 1, ?2) END"
    };
}

pub(super) use loaded_columns;

pub(super) fn loaded(row: &rusqlite::Row<'_>) -> Result<Loaded> {
    Ok(Loaded {
        id: row.get(0)?,
        bucket: row.get(1)?,
        due: row.get(2)?,
        planned: row.get(3)?,
        handler: name(row, 4)?,
        fence: row.get(5)?,
        deaths: row.get(6)?,
        cancelled: row.get(7)?,
        letter: maybe_text(row, 8)?,
    })
}

/// What [`row`] reads.
macro_rules! row_columns {
    () => {
        "id, handler, payload_version, payload, key, deadline, planned_at, attempt, deaths, \
         repeat, (SELECT store FROM lars_meta), coalesce(origin, id), run, unknown_since, \
         cancelled"
    };
}

pub(super) use row_columns;

pub(super) fn row(row: &rusqlite::Row<'_>) -> Result<Row> {
    Ok(Row {
        id: row.get(0)?,
        handler: name(row, 1)?,
        payload_version: row.get(2)?,
        payload: payload(row, 3)?,
        key: maybe_text(row, 4)?,
        deadline: row.get(5)?,
        planned: row.get(6)?,
        attempt: row.get(7)?,
        deaths: row.get(8)?,
        series: row.get(9)?,
        store: u128::from_be_bytes(row.get(10)?),
        origin: row.get(11)?,
        run: row.get(12)?,
        unknown_since: row.get(13)?,
        cancelled: row.get(14)?,
    })
}

/// What `lars_parked` keeps of a timer.
macro_rules! parked_columns {
    () => {
        "id, grp, bucket, deadline, planned_at, key, handler, \
         payload_version, payload, repeat, remember, attempt, deaths, last_error, run, origin, tag"
    };
}

pub(super) use parked_columns;

/// What [`listed`] reads.
macro_rules! listed_columns {
    () => {
        "id, key, handler, payload_version, payload, deadline, attempt, \
         deaths, repeat, last_error, fence IS NOT NULL, NULL, NULL, run, tag, \
         cancelled"
    };
}

pub(super) use listed_columns;

/// What [`listed`] reads of what is parked.
macro_rules! listed_parked_columns {
    () => {
        "id, key, handler, payload_version, payload, deadline, \
         attempt, deaths, repeat, last_error, 0, reason, parked_at, run, tag, 0"
    };
}

pub(super) use listed_parked_columns;

pub(super) fn listed(row: &rusqlite::Row<'_>) -> Result<Listed> {
    let reason: Option<String> = row.get(11)?;
    Ok(Listed {
        id: row.get(0)?,
        key: maybe_text(row, 1)?,
        handler: text(row, 2)?,
        payload_version: row.get(3)?,
        payload: payload(row, 4)?,
        deadline: row.get(5)?,
        attempt: row.get(6)?,
        deaths: row.get(7)?,
        series: row.get(8)?,
        last_error: row.get(9)?,
        running: row.get(10)?,
        run: row.get(13)?,
        parked: match reason {
            Some(reason) => Some((reason, row.get(12)?)),
            None => None,
        },
        tag: maybe_text(row, 14)?,
        cancelled: row.get(15)?,
    })
}

/// A text that another program may have written. SQLite takes any bytes for one, and those that are
/// not UTF-8 must not keep other rows from being read.
struct Text(String);

impl FromSql for Text {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Text(bytes) => Ok(Self(String::from_utf8_lossy(bytes).into_owned())),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

pub(super) fn text(row: &rusqlite::Row<'_>, column: usize) -> Result<String> {
    row.get(column).map(|Text(text)| text)
}

pub(super) fn maybe_text(row: &rusqlite::Row<'_>, column: usize) -> Result<Option<String>> {
    let text: Option<Text> = row.get(column)?;
    Ok(text.map(|Text(text)| text))
}

/// Of a handler.
pub(super) fn name(row: &rusqlite::Row<'_>, column: usize) -> Result<Arc<str>> {
    text(row, column).map(Arc::from)
}

/// What is not UTF-8 is no JSON here, either: no handler gets another payload than was stored.
pub(super) fn payload(row: &rusqlite::Row<'_>, column: usize) -> Result<String> {
    let shown = text(row, column)?;
    let is_text = row.get_ref(column)?.as_str().is_ok();
    Ok(if is_text { shown } else { format!("not UTF-8: {shown}") })
}

impl ToSql for Timestamp {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

impl FromSql for Timestamp {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Self)
    }
}

impl ToSql for Fence {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

impl FromSql for Fence {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Self)
    }
}

impl ToSql for Micros {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

impl FromSql for Micros {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Self)
    }
}
