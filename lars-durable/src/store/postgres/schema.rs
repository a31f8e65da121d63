//! The tables, how a database comes to have them, and whether the server is suitable.

use futures::StreamExt;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::errors::words;
use super::session::open_client;
use super::{Failure, Place};
use crate::error::StartError;
use crate::time::Timestamp;

/// One script for each version of the schema, each from the version before it. Scripts that were
/// released never change.
pub(super) const UPGRADES: [&str; 3] = [
    include_str!("../../../sql/1.sql"),
    include_str!("../../../sql/2.sql"),
    include_str!("../../../sql/3.sql"),
];

/// Whoever creates or upgrades the schema holds this lock. The others wait, and find it done.
const LOCK: i64 = 4_713_022_045_823_907_890;

/// The group of those who name none.
const DEFAULT_GROUP: &str = "default";

/// The oldest server that this works with.
const OLDEST: i32 = 140_000;

/// Makes what is missing: the schema, and the group. Returns what the database's clock shows.
pub(super) async fn prepare(place: &Place, upgrades: &[&str]) -> Result<Timestamp, StartError> {
    let (client, messages) = open_client(place).await.map_err(failed)?;
    tokio::spawn(messages.for_each(|_| std::future::ready(())));
    check_server(&client).await?;
    check_sessions(place, &client).await?;
    let known = i64::try_from(upgrades.len()).unwrap_or(i64::MAX);
    // Most starts find the schema as it should be, perhaps with a role that may not change it.
    if version(&client).await? != known {
        upgrade(&client, upgrades, known).await?;
    }
    // From now on SQL may make timers for it.
    let group = "SELECT lars.clock(), lars.make_buckets($1)";
    let row = client.query_one(group, &[&&*place.group]).await.map_err(refused)?;
    Ok(row.get(0))
}

/// A node of the group that lives, as far as its last report says, and handles nothing of what this
/// one handles.
const STRANGER: &str = "SELECT (SELECT pg_catalog.string_agg(h ->> 'name', ', ')
                 FROM pg_catalog.json_array_elements(n.report::json -> 'handlers') AS h)
       FROM lars.node n
      WHERE n.grp = $1 AND n.serves AND n.report IS NOT NULL
        AND n.renewed_at > lars.clock()
            - 2 * (n.report::json ->> 'lease')::bigint * interval '1 microsecond'
        AND NOT EXISTS (
            SELECT FROM pg_catalog.json_array_elements(n.report::json -> 'handlers') AS h
             WHERE h ->> 'name' = ANY ($2))
      LIMIT 1";

/// Refuses to share a group that nobody has named with another service: each would put the timers
/// of the other one off. In a group that was named, that is said and nothing more.
pub(super) async fn check_strangers(place: &Place, handlers: &[&str]) -> Result<(), StartError> {
    if handlers.is_empty() {
        return Ok(());
    }
    let (client, messages) = open_client(place).await.map_err(failed)?;
    tokio::spawn(messages.for_each(|_| std::future::ready(())));
    let found = client.query_opt(STRANGER, &[&&*place.group, &handlers]).await.map_err(refused)?;
    let Some(row) = found else { return Ok(()) };
    let (group, own) = (&place.group, handlers.join(", "));
    let theirs: String = row.get(0);
    let reason = format!(
        "the group {group:?} has nodes with other handlers: they handle {theirs}, and this one \
         {own}; give each service a group of its own (Builder::group)"
    );
    if &**group == DEFAULT_GROUP {
        return Err(StartError::Database { reason });
    }
    tracing::warn!(target: "lars_durable", %reason, "timers may be put off");
    Ok(())
}

/// How often an upgrade is tried that waits for a transaction which waits for the upgrade.
const TRIES: u32 = 8;

async fn upgrade(client: &Client, upgrades: &[&str], known: i64) -> Result<(), StartError> {
    let mut tries = 1;
    while !try_upgrade(client, upgrades, known, tries == TRIES).await? {
        tries += 1;
    }
    Ok(())
}

/// `false` if the server has ended it for the sake of another transaction, such as one of an older
/// node: each held a table, and waited for one of the other's. The `last` one fails then.
async fn try_upgrade(
    client: &Client,
    upgrades: &[&str],
    known: i64,
    last: bool,
) -> Result<bool, StartError> {
    // Another node may be making it, which takes longer than other statements.
    let begin = "SET statement_timeout = 0; SET lock_timeout = 0; BEGIN";
    client.batch_execute(begin).await.map_err(refused)?;
    let lock = "SELECT pg_catalog.pg_advisory_xact_lock($1)";
    client.query(lock, &[&LOCK]).await.map_err(refused)?;
    let found = version(client).await?;
    if found > known {
        return Err(StartError::NewerDatabase { found, known });
    }
    for (number, script) in (1..).zip(upgrades) {
        if number > found {
            match client.batch_execute(script).await {
                Err(error) if !last && error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {
                    client.batch_execute("ROLLBACK").await.map_err(refused)?;
                    return Ok(false);
                }
                upgraded => upgraded.map_err(|error| not_upgraded(found, known, &error))?,
            }
        }
    }
    let set = "UPDATE lars.meta SET version = $1 WHERE version < $1";
    client.query(set, &[&i32::try_from(known).unwrap_or(i32::MAX)]).await.map_err(refused)?;
    client.batch_execute("COMMIT").await.map_err(refused)?;
    Ok(true)
}

/// Whether the schema and the group are there. Changes nothing.
pub(super) async fn check(place: &Place, upgrades: &[&str]) -> Result<(), StartError> {
    let (client, messages) = open_client(place).await.map_err(failed)?;
    tokio::spawn(messages.for_each(|_| std::future::ready(())));
    check_server(&client).await?;
    let known = i64::try_from(upgrades.len()).unwrap_or(i64::MAX);
    match version(&client).await? {
        0 => {
            let reason = "it has no durable timers: there is no schema `lars`".to_owned();
            return Err(StartError::Database { reason });
        }
        found if found > known => return Err(StartError::NewerDatabase { found, known }),
        found if found < known => {
            let reason = "who only looks upgrades nothing".to_owned();
            return Err(StartError::OlderDatabase { found, known, reason });
        }
        _ => {}
    }
    let there = "SELECT EXISTS (SELECT FROM lars.bucket WHERE grp = $1)";
    if client.query_one(there, &[&&*place.group]).await.map_err(refused)?.get(0) {
        return Ok(());
    }
    let groups = "SELECT DISTINCT grp FROM lars.bucket ORDER BY grp LIMIT 20";
    let known = client.query(groups, &[]).await.map_err(refused)?;
    let known = known.iter().map(|row| row.get(0)).collect();
    Err(StartError::NoGroup { group: place.group.to_string(), known })
}

/// An older schema, and a role that may not change it.
fn not_upgraded(found: i64, known: i64, error: &Error) -> StartError {
    if found == 0 {
        return StartError::Database { reason: words(error) };
    }
    StartError::OlderDatabase { found, known, reason: words(error) }
}

/// The schema's version; zero for a database that has none.
async fn version(client: &Client) -> Result<i64, StartError> {
    // By a look into the catalog: `to_regclass` may not see what was committed while this waited.
    let there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c, pg_catalog.pg_namespace n
                                 WHERE c.relnamespace = n.oid AND n.nspname = 'lars'
                                   AND c.relname = 'meta')";
    if !client.query_one(there, &[]).await.map_err(refused)?.get::<_, bool>(0) {
        return Ok(0);
    }
    let row = client.query_one("SELECT version FROM lars.meta", &[]).await.map_err(refused)?;
    Ok(i64::from(row.get::<_, i32>(0)))
}

async fn check_server(client: &Client) -> Result<(), StartError> {
    let sql = "SELECT pg_catalog.current_setting('server_version_num')::int,
                      pg_catalog.current_setting('server_encoding'),
                      pg_catalog.current_setting('server_version')";
    let row = client.query_one(sql, &[]).await.map_err(refused)?;
    let (number, encoding, version): (i32, String, String) = (row.get(0), row.get(1), row.get(2));
    if number < OLDEST {
        let reason =
            format!("the server is PostgreSQL {version}, but 14 is the oldest that will do");
        return Err(StartError::Database { reason });
    }
    if encoding != "UTF8" {
        let reason = format!("the database's encoding is {encoding}, but it must be UTF8");
        return Err(StartError::Database { reason });
    }
    Ok(())
}

/// Whether a client keeps its session between two transactions. Behind a pooler in transaction mode
/// it loses the session as soon as another client needs one.
async fn check_sessions(place: &Place, client: &Client) -> Result<(), StartError> {
    let pid = "SELECT pg_catalog.pg_backend_pid()";
    let mine = |rows: Vec<tokio_postgres::SimpleQueryMessage>| {
        rows.iter().find_map(|row| match row {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    };
    let before = mine(client.simple_query(pid).await.map_err(refused)?);
    let (other, messages) = open_client(place).await.map_err(failed)?;
    tokio::spawn(messages.for_each(|_| std::future::ready(())));
    // Behind such a pooler this takes the free session, which the first client has just used.
    other.batch_execute("BEGIN; SELECT 1").await.map_err(refused)?;
    let after = mine(client.simple_query(pid).await.map_err(refused)?);
    other.batch_execute("COMMIT").await.map_err(refused)?;
    if before == after { Ok(()) } else { Err(failed(Failure::pooler())) }
}

fn failed(failure: Failure) -> StartError {
    StartError::Database { reason: failure.into_reason() }
}

fn refused(error: Error) -> StartError {
    StartError::Database { reason: words(&error) }
}
