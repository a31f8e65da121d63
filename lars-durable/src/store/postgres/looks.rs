//! What people want to see, in SQL. Each statement reads a bounded number of rows. Those that read
//! timers have a limit of a second, because dead rows at the head of the index take time although
//! they are not counted.

use tokio_postgres::Error;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::rows::{bucket, count};
use super::session::Session;
use super::transaction::{Result, Transaction};
use super::values::Id;
use crate::model::{
    Counted, Look, LookedDatabase, LookedHandler, LookedNode, LookedSnapshot, MAX_NODES,
};
use crate::sync::Arc;

const NODES: &str = "SELECT id, serves, started_at, renewed_at, report FROM lars.node
      WHERE grp = $1 ORDER BY started_at, id LIMIT $2";

const BUCKETS: &str = "SELECT bucket, owner, epoch FROM lars.bucket WHERE grp = $1 ORDER BY bucket";

const PAUSED: &str = "SELECT handler FROM lars.paused WHERE grp = $1 ORDER BY handler";

pub(super) async fn look(transaction: &Transaction<'_>, limit: usize) -> Result<Look> {
    let group = &transaction.group;
    let most = i64::try_from(MAX_NODES).unwrap_or(i64::MAX);
    let nodes = transaction.query(NODES, &[group, &most]).await?;
    let buckets = transaction.query(BUCKETS, &[group]).await?;
    let paused = transaction.query(PAUSED, &[group]).await?;
    let database = database(transaction).await?;
    let timers = timers(transaction, buckets.len(), limit).await?;
    let parked = parked(transaction, limit).await?;
    Ok(Look {
        clock: transaction.clock,
        counted: transaction.clock,
        nodes: nodes.iter().map(node).collect(),
        buckets: (buckets.iter())
            .map(|row| {
                let owner = row.get::<_, Option<Id>>(1).map(|owner| owner.0);
                (bucket(row.get(0)), owner, count(row.get(2)))
            })
            .collect(),
        paused: paused.iter().map(|row| Arc::from(row.get::<_, &str>(0))).collect(),
        timers,
        parked,
        database: Some(database),
    })
}

fn node(row: &Row) -> LookedNode {
    LookedNode {
        id: row.get::<_, Id>(0).0,
        serves: row.get(1),
        joined: row.get(2),
        renewed: row.get(3),
        report: row.get::<_, Option<&str>>(4).map(Arc::from),
    }
}

const TIMERS: &str = "SELECT handler, count(*) FILTER (WHERE fence IS NULL),
            count(*) FILTER (WHERE fence IS NULL AND deadline <= $2),
            count(*) FILTER (WHERE fence IS NULL AND attempt > 0),
            count(*) FILTER (WHERE fence IS NOT NULL),
            min(deadline) FILTER (WHERE fence IS NULL)
       FROM lars.bucket b CROSS JOIN LATERAL (
            SELECT handler, deadline, attempt, fence FROM lars.timer t
             WHERE t.grp = b.grp COLLATE \"POSIX\" AND t.bucket = b.bucket
             ORDER BY due_at, id LIMIT $3) AS first
      WHERE b.grp = $1 GROUP BY handler ORDER BY handler COLLATE \"C\"";

const MORE_TIMERS: &str = "SELECT EXISTS (SELECT FROM lars.bucket b CROSS JOIN LATERAL (
      SELECT FROM lars.timer t WHERE t.grp = b.grp COLLATE \"POSIX\" AND t.bucket = b.bucket
       ORDER BY due_at, id LIMIT 1 OFFSET $2) AS next WHERE b.grp = $1)";

/// Counts of timers, as far as a second allows.
async fn timers(
    transaction: &Transaction<'_>,
    buckets: usize,
    limit: usize,
) -> Result<Option<Counted<LookedHandler>>> {
    let share = i64::try_from((limit / buckets.max(1)).max(1)).unwrap_or(i64::MAX);
    let counted = within_a_second(transaction.session(), async |session| {
        let rows = session.query(TIMERS, &[&transaction.group, &transaction.clock, &share]).await?;
        let more = session.query(MORE_TIMERS, &[&transaction.group, &share]).await?;
        Ok((rows, more[0].get(0)))
    });
    let Some((rows, more)) = counted.await? else { return Ok(None) };
    let by_handler = rows.iter().map(|row| {
        let counted = LookedHandler {
            pending: number(row, 1),
            overdue: number(row, 2),
            retrying: number(row, 3),
            running: number(row, 4),
            next: row.get(5),
        };
        (Arc::from(row.get::<_, &str>(0)), counted)
    });
    Ok(Some(Counted { by_handler: by_handler.collect(), more }))
}

const PARKED: &str = "SELECT handler, count(*) FROM (
            SELECT handler FROM lars.parked WHERE grp = $1 COLLATE \"POSIX\"
             ORDER BY id LIMIT $2) AS first
      GROUP BY handler ORDER BY handler COLLATE \"C\"";

const MORE_PARKED: &str = "SELECT EXISTS (SELECT FROM lars.parked WHERE grp = $1 COLLATE \"POSIX\"
      ORDER BY id LIMIT 1 OFFSET $2)";

async fn parked(transaction: &Transaction<'_>, limit: usize) -> Result<Option<Counted<u64>>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let counted = within_a_second(transaction.session(), async |session| {
        let rows = session.query(PARKED, &[&transaction.group, &limit]).await?;
        let more = session.query(MORE_PARKED, &[&transaction.group, &limit]).await?;
        Ok((rows, more[0].get(0)))
    });
    let Some((rows, more)) = counted.await? else { return Ok(None) };
    let by_handler = rows.iter().map(|row| (Arc::from(row.get::<_, &str>(0)), number(row, 1)));
    Ok(Some(Counted { by_handler: by_handler.collect(), more }))
}

/// `None` if a statement of `ask` took longer than a second.
async fn within_a_second<T>(
    session: &Session,
    ask: impl AsyncFnOnce(&Session) -> std::result::Result<T, Error>,
) -> Result<Option<T>> {
    session.execute("SAVEPOINT look; SET LOCAL statement_timeout = 1000").await?;
    match ask(session).await {
        Ok(found) => {
            session.execute("RELEASE SAVEPOINT look").await?;
            Ok(Some(found))
        }
        Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
            session.execute("ROLLBACK TO SAVEPOINT look").await?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

const TABLE: &str = "SELECT greatest(c.reltuples, 0)::bigint,
           coalesce(pg_stat_get_dead_tuples(c.oid), 0)::bigint,
           greatest(pg_stat_get_last_vacuum_time(c.oid),
                    pg_stat_get_last_autovacuum_time(c.oid))
      FROM pg_class c WHERE c.oid = 'lars.timer'::regclass";

/// The transactions that VACUUM waits for. A role sees those of others if it may read all
/// statistics.
const OLDEST: &str = "SELECT pid,
            (extract(epoch FROM clock_timestamp() - xact_start) * 1000000)::bigint,
            coalesce(state, ''), coalesce(application_name, '')
       FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
        AND xact_start IS NOT NULL AND backend_type <> 'autovacuum worker'
      ORDER BY xact_start LIMIT 1";

async fn database(transaction: &Transaction<'_>) -> Result<LookedDatabase> {
    let table = transaction.query(TABLE, &[]).await?;
    let oldest = transaction.query(OLDEST, &[]).await?;
    let (rows, dead_rows, vacuumed) = match table.first() {
        Some(row) => (number(row, 0), number(row, 1), row.get(2)),
        None => (0, 0, None),
    };
    let oldest = oldest.first().map(|row| LookedSnapshot {
        pid: row.get(0),
        micros: row.get(1),
        state: row.get(2),
        application: row.get(3),
    });
    Ok(LookedDatabase { rows, dead_rows, vacuumed, oldest })
}

fn number(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}
