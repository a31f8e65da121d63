//! Another server takes over that had not received the last commits.

use std::collections::BTreeSet;
use std::time::Duration;

use super::node::Tagged;
use super::server::{Server, durable};
use crate::Timers;

const HOUR: Duration = Duration::from_secs(3_600);

/// Schedules so many timers one by one; their identities.
fn identities(timers: &Timers, count: u64) -> Vec<u64> {
    let calls: Vec<_> =
        (0..count).map(|tag| timers.schedule_once(HOUR, Tagged(tag)).submit()).collect();
    calls.into_iter().map(|call| call.wait().unwrap().id).collect()
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn after_a_fail_over_that_lost_commits_no_identity_is_given_twice_and_no_call_fails() {
    let first = Server::start("");
    let hosts = |ports: String| {
        let hosts = vec!["127.0.0.1"; ports.split(',').count()].join(",");
        format!("host={hosts} port={ports} user=postgres dbname=postgres")
    };
    let earlier = durable(hosts(first.port().to_string())).start().unwrap();
    identities(&earlier.timers(), 1);
    let second = first.left_behind();
    earlier.close().unwrap();

    let both = hosts(format!("{},{}", first.port(), second.port()));
    let node = durable(both).start().unwrap();
    // More than a block: what is drawn here, and the rest that the node holds, is lost.
    identities(&node.timers(), 1_500);
    drop(first);
    let promoter = second.try_connect().unwrap();
    assert_eq!(promoter.text("SELECT pg_promote()").unwrap(), "t");

    let other = durable(hosts(second.port().to_string())).start().unwrap();
    let mut given = BTreeSet::new();
    let mut twice = Vec::new();
    for node in [&node, &other, &node, &other] {
        let ids = identities(&node.timers(), 700);
        twice.extend(ids.into_iter().filter(|id| !given.insert(*id)));
    }
    assert!(twice.is_empty(), "{} identities were given twice", twice.len());
    let rows = "SELECT count(*) FROM lars.timer";
    assert_eq!(promoter.number(rows), 2_801, "with the one that the second server had received");
    node.close().unwrap();
    other.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn where_an_identity_is_taken_another_is_drawn() {
    let server = super::server();
    let database = server.database();
    let node = database.durable().start().unwrap();
    let last = identities(&node.timers(), 1)[0];
    let client = database.client();
    client.execute(&format!(
        "INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, handler,
                                 payload_version, payload)
         SELECT {last} + n, 'default', 0, d, d, d, 'tagged', 1, '1'
           FROM generate_series(1, 5000) AS n, (SELECT now() + interval '1 day') AS t (d)"
    ));
    let ids: BTreeSet<u64> = identities(&node.timers(), 300).into_iter().collect();
    assert_eq!(ids.len(), 300);
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 5_301);
    node.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn no_function_of_the_schema_takes_a_lock_that_a_cancelled_statement_would_leave() {
    let server = super::server();
    let database = server.database();
    database.durable().start().unwrap().close().unwrap();
    let client = database.client();
    let locks = "SELECT string_agg(proname, ' ') FROM pg_proc p, pg_namespace n
                  WHERE p.pronamespace = n.oid AND n.nspname = 'lars' AND prosrc LIKE '%advisory%'";
    assert_eq!(client.text(locks), None, "these take a lock of the session");
    // Two open transactions do not wait for each other, and draw different identities.
    let draw = "SELECT lars.schedule('default', 'tagged', '1', '1 hour')";
    let open = [database.client(), database.client()];
    let ids: Vec<i64> = open
        .iter()
        .map(|client| {
            client.execute("BEGIN");
            client.number(draw)
        })
        .collect();
    assert_ne!(ids[0], ids[1]);
    open.iter().for_each(|client| client.execute("COMMIT"));
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 2);
}
