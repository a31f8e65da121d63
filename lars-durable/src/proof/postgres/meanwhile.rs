//! Statements and calls that wait for a transaction, and find something else when it has committed.

use std::time::{Duration, Instant};

use super::opening::SCRIPTS;
use super::server::{Connected, Database, server};
use crate::schedule::Cancel;
use crate::store::PostgresStore;

const HOUR: Duration = Duration::from_secs(3_600);

/// What is asked for while `before` is not committed, and is answered afterwards.
fn meanwhile<T: Send>(database: &Database, before: &str, ask: impl FnOnce() -> T + Send) -> T {
    meanwhile_with(database, before, |user| user.execute("COMMIT"), ask)
}

/// The same, with what `then` does once somebody waits.
fn meanwhile_with<T: Send>(
    database: &Database,
    before: &str,
    then: impl FnOnce(&Connected),
    ask: impl FnOnce() -> T + Send,
) -> T {
    let (user, watch) = (database.client(), database.client());
    user.execute(&format!("BEGIN; {before}"));
    std::thread::scope(|scope| {
        let asked = scope.spawn(ask);
        // A call waits, and may then come again. It gets the same answer if it comes too late.
        let waits = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
                      WHERE NOT l.granted AND a.datname = current_database()";
        let end = Instant::now() + Duration::from_secs(5);
        while watch.number(waits) == 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        then(&user);
        asked.join().unwrap()
    })
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn an_upgrade_and_a_transaction_that_wait_for_each_other_both_come_to_their_end() {
    let server = server();
    let database = server.database();
    let user = database.client();
    SCRIPTS[..2].iter().for_each(|script| user.execute(script));
    // As an older node does that lets a parked timer run again. Whoever of the two waits first is
    // the one whose transaction the server ends.
    let before = "SELECT id FROM lars.parked FOR UPDATE";
    let place = database.place();
    let while_it_waits = |user: &Connected| {
        let end = if user.try_execute(MAKE).is_ok() { "COMMIT" } else { "ROLLBACK" };
        user.execute(end);
    };
    meanwhile_with(&database, before, while_it_waits, || PostgresStore::prepare(&place).unwrap());
    assert_eq!(user.number("SELECT version FROM lars.meta"), 3);
}

/// A timer of the first version.
const MAKE: &str = "SELECT lars.schedule('default', 'a', '1', '1 day', new_group => true)";

/// A node without handlers made the group.
fn group(database: &Database) -> Connected {
    let client = database.client();
    database.durable().start().unwrap().close().unwrap();
    let any = "SELECT lars.schedule('default', 'a', '1', '1 day', key => 'any', new_group => true)";
    client.execute(any);
    client
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_key_whose_timer_a_transaction_replaces_meanwhile_is_cancelled_and_moved_all_the_same() {
    let server = server();
    let database = server.database();
    let (client, durable) = (group(&database), database.durable().start().unwrap());
    let (timers, other) = (durable.timers(), database.client());
    let replace = "SELECT lars.schedule('default', 'a', '1', '1 day', key => 'key',
                                        on_conflict => 'replace')";
    let due = "SELECT count(*) FROM lars.timer
                WHERE key = 'key' AND deadline < now() + interval '2 hours'";
    for _ in 0..3 {
        client.execute(replace);
        let did = meanwhile(&database, replace, || timers.reset("key", HOUR).wait().unwrap());
        assert!(did);
        assert_eq!(client.number(due), 1);
        let reset = "SELECT lars.reset('default', 'key', '1 hour')";
        assert_eq!(meanwhile(&database, replace, || other.text(reset)).unwrap(), "moved");
        assert_eq!(client.number(due), 1);
        let did = meanwhile(&database, replace, || timers.cancel("key").wait().unwrap());
        assert_eq!(did, Cancel::Prevented);
        client.execute(replace);
        let cancel = "SELECT lars.cancel('default', 'key')";
        assert_eq!(meanwhile(&database, replace, || other.text(cancel)).unwrap(), "prevented");
        assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE key = 'key'"), 0);
    }
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_series_whose_run_ends_meanwhile_is_cancelled_by_its_identity_and_runs_no_more() {
    let server = server();
    let database = server.database();
    let (client, other) = (group(&database), database.client());
    let id = client.number(
        "SELECT lars.schedule('default', 'a', '1', '1 hour', fixed_delay => '1 hour',
                              key => 'key')",
    );
    client.execute("UPDATE lars.timer SET fence = 1 WHERE key = 'key'");
    let end = "UPDATE lars.timer SET fence = NULL, run = run + 1 WHERE key = 'key'";
    let cancel = format!("SELECT lars.cancel('default', {id})");
    assert_eq!(meanwhile(&database, end, || other.text(&cancel)).unwrap(), "prevented");
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE key = 'key'"), 0);
}

/// Whom a statement notifies.
const WATCH: &str = "
    CREATE TABLE public.told (bucket smallint, id bigint);
    CREATE OR REPLACE FUNCTION lars.tell_owner(grp text, bucket smallint, id bigint,
                                               due timestamptz) RETURNS void
    LANGUAGE sql AS 'INSERT INTO public.told SELECT $2, $3'";

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn the_owner_of_a_run_that_sql_replaces_is_told_wherever_the_new_timer_is() {
    let server = server();
    let database = server.database();
    let client = group(&database);
    client.execute(WATCH);
    let make = "SELECT lars.schedule('default', 'a', '1', '1 day', key => 'key',
                                     on_conflict => 'replace')";
    let id = client.number(make);
    // As a reminder, which is in the bucket of its actor.
    client.execute("UPDATE lars.timer SET fence = 1, bucket = (bucket + 1) % 64 WHERE key = 'key'");
    let bucket = client.number("SELECT bucket FROM lars.timer WHERE key = 'key'");
    client.execute("DELETE FROM public.told");
    client.execute(make);
    let told = format!("SELECT bucket FROM public.told WHERE id = {id}");
    assert_eq!(client.number(&told), bucket);
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_key_that_is_remembered_once_the_run_has_ended_is_not_taken_by_what_waited_for_that() {
    let server = server();
    let database = server.database();
    let (client, other) = (group(&database), database.client());
    client.execute(
        "INSERT INTO lars.parked (id, grp, bucket, deadline, planned_at, key, handler,
                                  payload_version, payload, remember, attempt, deaths, run, reason,
                                  parked_at)
         VALUES (1000000, 'default', 0, now(), now(), 'key', 'a', 1, '1', 0, 1, 0, 0, 'away',
                 now())",
    );
    let end = "INSERT INTO lars.used_key VALUES ('default', 'key', now() + interval '1 day');
               DELETE FROM lars.timer WHERE key = 'key'";
    let schedule = |more: &str| {
        format!("SELECT lars.schedule('default', 'a', '1', '1 hour', key => 'key'{more})")
    };
    let asked = |sql: &str| {
        client.execute("DELETE FROM lars.used_key");
        client.execute(&schedule(""));
        let answer = meanwhile(&database, end, || {
            let sql = format!("CREATE TABLE answer AS SELECT ({sql})::text AS it");
            let refused = other.try_execute(&sql).err();
            refused.map(|error| error.as_db_error().unwrap().message().to_owned())
        });
        assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE key = 'key'"), 0, "{sql}");
        if answer.is_some() {
            return answer;
        }
        let it = client.text("SELECT it FROM answer");
        client.execute("DROP TABLE answer");
        it
    };
    assert_eq!(asked(&schedule("")), None, "it is remembered");
    let remembered = Some("the key of the timer is remembered".to_owned());
    assert_eq!(asked(&schedule(", on_conflict => 'fail'")), remembered);
    assert_eq!(asked("SELECT lars.retry_parked('default', 1000000)"), remembered);
    let all = "SELECT format('%s %s', changed, passed_over)
                 FROM lars.retry_all('default', handler => 'a')";
    assert_eq!(asked(all).unwrap(), "0 1");
    assert_eq!(client.number("SELECT count(*) FROM lars.parked"), 1);
}
