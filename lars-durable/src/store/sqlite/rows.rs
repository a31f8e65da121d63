//! Rows and values, both ways.

use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Result, ToSql};

use crate::model::{Fence, Listed, Loaded, Row};
use crate::sync::Arc;
use crate::time::Timestamp;

/// What [`loaded`] reads.
pub(super) const LOADED: &str = "id, bucket, due_at, planned_at, handler, fence";

pub(super) fn loaded(row: &rusqlite::Row<'_>) -> Result<Loaded> {
    Ok(Loaded {
        id: row.get(0)?,
        bucket: row.get(1)?,
        due: row.get(2)?,
        planned: row.get(3)?,
        handler: Arc::from(row.get_ref(4)?.as_str()?),
        fence: row.get(5)?,
    })
}

/// What [`row`] reads.
pub(super) const ROW: &str =
    "id, handler, payload_version, payload, key, deadline, planned_at, attempt, deaths, repeat";

pub(super) fn row(row: &rusqlite::Row<'_>) -> Result<Row> {
    Ok(Row {
        id: row.get(0)?,
        handler: Arc::from(row.get_ref(1)?.as_str()?),
        payload_version: row.get(2)?,
        payload: row.get(3)?,
        key: row.get(4)?,
        deadline: row.get(5)?,
        planned: row.get(6)?,
        attempt: row.get(7)?,
        deaths: row.get(8)?,
        series: row.get(9)?,
    })
}

/// What `lars_parked` keeps of a timer.
pub(super) const PARKED: &str = "id, grp, bucket, deadline, planned_at, key, handler, \
     payload_version, payload, repeat, remember, attempt, deaths, last_error";

/// What [`listed`] reads.
pub(super) const LISTED: &str = "id, key, handler, payload_version, payload, deadline, attempt, \
     deaths, repeat IS NOT NULL, last_error, fence IS NOT NULL, NULL, NULL";

/// What [`listed`] reads of what is parked.
pub(super) const LISTED_PARKED: &str = "id, key, handler, payload_version, payload, deadline, \
     attempt, deaths, repeat IS NOT NULL, last_error, 0, reason, parked_at";

pub(super) fn listed(row: &rusqlite::Row<'_>) -> Result<Listed> {
    let reason: Option<String> = row.get(11)?;
    Ok(Listed {
        id: row.get(0)?,
        key: row.get(1)?,
        handler: row.get(2)?,
        payload_version: row.get(3)?,
        payload: row.get(4)?,
        deadline: row.get(5)?,
        attempt: row.get(6)?,
        deaths: row.get(7)?,
        repeats: row.get(8)?,
        last_error: row.get(9)?,
        running: row.get(10)?,
        parked: match reason {
            Some(reason) => Some((reason, row.get(12)?)),
            None => None,
        },
    })
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
