//! Rows, as the engine takes them.

use tokio_postgres::Row;

use crate::model::{self, Fence, Listed, Loaded};
use crate::sync::Arc;
use crate::time::Timestamp;

/// Reads what the statements select as `id, bucket, due_at, planned_at, handler, fence`.
pub(super) fn loaded(row: &Row) -> Loaded {
    Loaded {
        id: row.get(0),
        bucket: bucket(row.get(1)),
        due: row.get(2),
        planned: row.get(3),
        handler: Arc::from(row.get::<_, &str>(4)),
        fence: row.get::<_, Option<i64>>(5).map(Fence),
    }
}

/// Reads `id, handler, payload_version, payload, key, deadline, planned_at, attempt, deaths,
/// repeat`.
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
    }
}

/// Reads `id, key, handler, payload_version, payload, deadline, attempt, deaths, repeat IS NOT
/// NULL, last_error, fence IS NOT NULL, reason, parked_at`.
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
        repeats: row.get(8),
        last_error: row.get(9),
        running: row.get(10),
        parked: reason.map(|reason| (reason, row.get::<_, Timestamp>(12))),
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

fn version(stored: i32) -> u16 {
    u16::try_from(stored).unwrap_or(u16::MAX)
}
