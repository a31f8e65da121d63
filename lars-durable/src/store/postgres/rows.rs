//! Rows, as the engine takes them.

use tokio_postgres::Row;

use super::values::Id;
use crate::model::{self, Fence, Listed, Loaded};
use crate::sync::Arc;
use crate::time::Timestamp;

/// The second half of a statement that parks what it has deleted as `gone`. The argument says where
/// the reason is; `$3` is the clock.
macro_rules! park_gone {
    ($reason:literal) => {
        concat!(
            "INSERT INTO lars.parked (id, grp, bucket, deadline, planned_at, key, handler,
                                      payload_version, payload, repeat, remember, attempt, deaths,
                                      last_error, run, origin, tag, reason, parked_at)
             SELECT id, grp, bucket, deadline, planned_at, key, handler, payload_version, payload,
                    repeat, remember, attempt, deaths, last_error, run, origin, tag, ",
            $reason,
            ", $3 FROM gone RETURNING id",
        )
    };
}

pub(super) use park_gone;

/// Which rows of `lars.timer t` a statement is about: those of the group `$1` whose identities are
/// in `$2`, each with its row of the columns that are named.
///
/// The server plans a statement once, perhaps while the table is empty. So there is one way only to
/// carry it out, which is right for any number of rows: the identities are looked up in the primary
/// key, and what is found is hashed. `+ 0` keeps the planner from reading that index from its
/// beginning to its end instead, because it is in the order of the join. Sessions do without
/// sequential scans and nested loops, and no other condition fits an index (see `timer_due` in
/// `sql/1.sql`).
macro_rules! by_id {
    ($columns:literal) => {
        concat!("t.grp = $1 AND t.id = ANY ($2) AND t.id + 0 = ", $columns, ".id")
    };
}

pub(super) use by_id;

/// Reads what the statements select as `id, bucket, due_at, planned_at, handler, fence, deaths,
/// cancelled`, and how the payload begins, if that was asked for.
pub(super) fn loaded(row: &Row) -> Loaded {
    Loaded {
        id: row.get(0),
        bucket: bucket(row.get(1)),
        due: row.get(2),
        planned: row.get(3),
        handler: Arc::from(row.get::<_, &str>(4)),
        fence: row.get::<_, Option<i64>>(5).map(Fence),
        deaths: count(row.get(6)),
        cancelled: row.get(7),
        letter: row.get(8),
    }
}

/// Reads `id, handler, payload_version, payload, key, deadline, planned_at, attempt, deaths,
/// repeat, store, origin, run, unknown_since, cancelled`.
pub(super) fn started(row: &Row) -> model::Row {
    model::Row {
        id: row.get(0),
        handler: Arc::from(row.get::<_, &str>(1)),
        payload_version: version(row.get(2)),
        payload: row.get(3),
        key: row.get(4),
        deadline: row.get(5),
        planned: row.get(6),
        attempt: count(row.get(7)),
        deaths: count(row.get(8)),
        series: row.get(9),
        store: row.get::<_, Id>(10).0,
        origin: row.get(11),
        run: row.get(12),
        unknown_since: row.get(13),
        cancelled: row.get(14),
    }
}

/// Reads `id, key, handler, payload_version, payload, deadline, attempt, deaths, repeat,
/// last_error, fence IS NOT NULL, reason, parked_at, run, tag, cancelled`.
pub(super) fn listed(row: &Row) -> Listed {
    let reason: Option<String> = row.get(11);
    Listed {
        id: row.get(0),
        key: row.get(1),
        handler: row.get(2),
        payload_version: version(row.get(3)),
        payload: row.get(4),
        deadline: row.get(5),
        attempt: count(row.get(6)),
        deaths: count(row.get(7)),
        series: row.get(8),
        last_error: row.get(9),
        running: row.get(10),
        run: row.get(13),
        parked: reason.map(|reason| (reason, row.get::<_, Timestamp>(12))),
        tag: row.get(14),
        cancelled: row.get(15),
    }
}

// What a row holds was put there by these types.

pub(super) fn bucket(stored: i16) -> model::BucketNo {
    model::BucketNo::try_from(stored).unwrap_or(0)
}

pub(super) fn number(bucket: model::BucketNo) -> i16 {
    i16::try_from(bucket).unwrap_or(i16::MAX)
}

pub(super) fn count(stored: i32) -> u32 {
    u32::try_from(stored).unwrap_or(0)
}

pub(super) fn version(stored: i32) -> u16 {
    u16::try_from(stored).unwrap_or(u16::MAX)
}
