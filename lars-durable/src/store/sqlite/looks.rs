//! What people want to see, in SQL: each statement reads a bounded number of rows.

use rusqlite::{Connection, Result, Row, params};

use super::rows;
use crate::model::{Counted, LookedHandler};
use crate::time::Timestamp;

const TIMERS: &str = "SELECT handler, sum(fence IS NULL), sum(fence IS NULL AND deadline <= ?2),
            sum(fence IS NULL AND attempt > 0), sum(fence IS NOT NULL),
            min(deadline) FILTER (WHERE fence IS NULL)
       FROM (SELECT handler, deadline, attempt, fence FROM lars_timer
              WHERE grp = ?1 AND bucket = 0 ORDER BY due_at, id LIMIT ?3)
      GROUP BY handler ORDER BY handler";

const MORE_TIMERS: &str = "SELECT 1 FROM lars_timer WHERE grp = ?1 AND bucket = 0
      ORDER BY due_at, id LIMIT 1 OFFSET ?2";

/// Counts of the timers that are due first.
pub(super) fn timers(
    connection: &Connection,
    group: &str,
    now: Timestamp,
    limit: usize,
) -> Result<Counted<LookedHandler>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(TIMERS)?;
    let rows = statement.query_map(params![group, now, limit], |row| {
        let counted = LookedHandler {
            pending: number(row, 1)?,
            overdue: number(row, 2)?,
            retrying: number(row, 3)?,
            running: number(row, 4)?,
            next: row.get(5)?,
        };
        Ok((rows::name(row, 0)?, counted))
    })?;
    let by_handler: Vec<_> = rows.collect::<Result<_>>()?;
    let more = connection.prepare_cached(MORE_TIMERS)?.exists(params![group, limit])?;
    Ok(Counted { by_handler, more })
}

/// By the index: the handler is read for those that are counted only.
const PARKED: &str = "SELECT handler, count(*) FROM (SELECT handler FROM lars_parked
      WHERE grp = ?1 ORDER BY id LIMIT ?2) GROUP BY handler ORDER BY handler";

const MORE_PARKED: &str = "SELECT 1 FROM lars_parked WHERE grp = ?1 ORDER BY id LIMIT 1 OFFSET ?2";

/// Counts of what was given up first.
pub(super) fn parked(connection: &Connection, group: &str, limit: usize) -> Result<Counted<u64>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(PARKED)?;
    let rows = statement
        .query_map(params![group, limit], |row| Ok((rows::name(row, 0)?, number(row, 1)?)))?;
    let by_handler: Vec<_> = rows.collect::<Result<_>>()?;
    let more = connection.prepare_cached(MORE_PARKED)?.exists(params![group, limit])?;
    Ok(Counted { by_handler, more })
}

/// A count.
fn number(row: &Row<'_>, column: usize) -> Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}
