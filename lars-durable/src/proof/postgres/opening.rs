//! Schema, roles, servers that will not do, and what errors say.

use super::server::{Database, PATIENCE, durable, server};
use crate::store::{Place, PostgresStore, Tls};
use crate::sync::Arc;
use crate::{Durable, StartError};
use std::time::{Duration, Instant};
use tokio_postgres::NoTls;

/// All scripts, each for the version before it.
pub(super) const SCRIPTS: [&str; 3] = [
    include_str!("../../../sql/1.sql"),
    include_str!("../../../sql/2.sql"),
    include_str!("../../../sql/3.sql"),
];

fn reason(result: Result<Durable, StartError>) -> String {
    result.map(drop).unwrap_err().to_string()
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn nodes_that_start_at_once_make_the_schema_once() {
    let server = server();
    let database = server.database();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| drop(database.durable().start().unwrap()));
        }
    });
    let client = database.client();
    assert_eq!(client.number("SELECT version FROM lars.meta"), 3);
    assert_eq!(client.number("SELECT count(*) FROM lars.meta"), 1);
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_newer_schema_in_a_database_is_refused_with_both_numbers() {
    let server = server();
    let database = server.database();
    drop(database.durable().start().unwrap());
    database.client().execute("UPDATE lars.meta SET version = 7");
    match database.durable().start().map(drop).unwrap_err() {
        StartError::NewerDatabase { found, known } => assert_eq!((found, known), (7, 3)),
        other => panic!("{other}"),
    }
    assert_eq!(database.client().number("SELECT version FROM lars.meta"), 7);
}

/// A role of its own, so that tests do not meet.
fn role(database: &Database) -> (String, String) {
    let role = format!("role_{}", database.name);
    database.client().execute(&format!("CREATE ROLE {role} LOGIN"));
    let parameters = database.parameters().replace("user=postgres", &format!("user={role}"));
    (role, parameters)
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_role_that_may_create_nothing_is_told_the_cure_and_runs_on_what_the_scripts_grant() {
    let server = server();
    let database = server.database();
    let (role, parameters) = role(&database);
    let start = || durable(parameters.clone()).start();
    let refused = reason(start());
    assert!(refused.contains("42501") && refused.contains("sql/roles.sql"), "{refused}");

    let owner = database.client();
    SCRIPTS.iter().for_each(|script| owner.execute(script));
    let refused = reason(start());
    assert!(refused.contains("42501"), "{refused}");

    owner.execute(&include_str!("../../../sql/roles.sql").replace(":\"node\"", &role));
    let durable = start().unwrap();
    let timers = durable.timers();
    let key = timers.schedule_once(Duration::from_secs(60), super::node::Tagged(1)).key("key");
    key.submit().wait().unwrap();
    assert_eq!(timers.cancel("key").wait().unwrap(), crate::schedule::Cancel::Prevented);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_server_that_will_not_do_is_named_and_no_error_shows_the_password() {
    let server = server();
    let name = format!("latin{:x}", fastrand::u32(..));
    let options = "ENCODING 'LATIN1' TEMPLATE template0";
    let latin = server.database_named(name, options);
    let refused = reason(latin.durable().start());
    assert!(refused.contains("LATIN1") && refused.contains("UTF8"), "{refused}");

    let secret = "hunter2";
    let wrong = [
        format!("host=127.0.0.1 port=1 user=postgres password={secret}"),
        format!("postgres://postgres:{secret}@127.0.0.1:1/nothing"),
        format!("host=127.0.0.1 port=nonsense password={secret}"),
        format!("{} password={secret} sslmode=require", latin.parameters()),
        format!("{} password={secret}", server.parameters("nobody")),
        format!("user={secret} password={secret} nonsense={secret} host"),
    ];
    for parameters in wrong {
        let builder = Durable::postgres(parameters).lease(Duration::from_secs(1));
        let shown = format!("{builder:?}");
        assert!(!shown.contains(secret), "{shown}");
        let refused = reason(builder.start());
        assert!(!refused.contains(secret), "{refused}");
        assert!(refused.starts_with("the database cannot be used: "), "{refused}");
    }
    let database = server.database();
    let place = database.place_with(&format!("{} password={secret}", database.parameters()));
    assert!(!format!("{place:?}").contains(secret));
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn an_older_schema_that_may_not_be_upgraded_is_refused_with_both_numbers() {
    let server = server();
    let database = server.database();
    let (role, parameters) = role(&database);
    let first = SCRIPTS[0];
    let owner = database.client();
    owner.execute(first);
    owner.execute(&include_str!("../../../sql/roles.sql").replace(":\"node\"", &role));
    let second = "ALTER TABLE lars.timer ADD COLUMN note text";
    let place = database.place_with(&parameters);
    match PostgresStore::prepare_with(&place, &[first, second]).map(drop).unwrap_err() {
        StartError::OlderDatabase { found, known, reason } => {
            assert_eq!((found, known), (1, 2));
            assert!(reason.contains("42501"), "{reason}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(owner.number("SELECT version FROM lars.meta"), 1);
}

/// A pooler in front of the server, if there is one on this machine.
struct Pooler(std::process::Child, crate::proof::tempdir::Directory);

impl Pooler {
    fn start(database: &Database, mode: &str) -> Option<(Self, String)> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
            .into_iter()
            .find(|program| std::path::Path::new(program).exists());
        let Some(program) = program else {
            let advice = "Debian: apt-get install pgbouncer";
            eprintln!("!!!!! SKIPPED: no pgbouncer on this machine ({advice}) !!!!!");
            return None;
        };
        let directory = crate::proof::tempdir::Directory::new("pooler");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nauth_type = any\npool_mode = {mode}\nunix_socket_dir =\n\
             [users]\n",
            database.server.port()
        );
        let settings =
            settings.replace("* = host", &format!("{} = user=postgres host", database.name));
        let file = directory.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        // It refuses to be root's, as the server does.
        let child = super::server::as_user(program)
            .arg("-q")
            .arg(&file)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let parameters =
            format!("host=127.0.0.1 port={port} user=postgres dbname={}", database.name);
        let pooler = Self(child, directory);
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some((pooler, parameters));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the pooler did not start in {:?}", pooler.1.path());
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_pooler_that_lends_sessions_to_transactions_is_recognised_and_one_of_sessions_will_do() {
    let server = server();
    let database = server.database();
    let Some((_pooler, parameters)) = Pooler::start(&database, "transaction") else { return };
    let refused = reason(durable(parameters).start());
    assert!(refused.contains("pooler") && refused.contains("session mode"), "{refused}");

    let Some((_pooler, parameters)) = Pooler::start(&database, "session") else { return };
    let durable = durable(parameters).start().unwrap();
    let timers = durable.timers();
    assert!(timers.get("nobody").wait().unwrap().is_none());
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn behind_a_pool_of_sessions_a_node_that_is_cut_off_ends_nobody_elses_session() {
    let server = server();
    let database = server.database();
    let Some((_pooler, pooled)) = Pooler::start(&database, "session") else { return };
    let port = pooled.split_whitespace().find_map(|word| word.strip_prefix("port="));
    let port = port.unwrap();
    let proxy = super::proxy::Proxy::to(port.parse().unwrap());
    let through = pooled.replace(&format!("port={port}"), &format!("port={}", proxy.port));
    let durable = durable(through).start().unwrap();
    let timers = durable.timers();
    let schedule = |tag| {
        let timer = timers.schedule_once(Duration::from_secs(3_600), super::node::Tagged(tag));
        timer.submit().wait().unwrap();
    };
    schedule(1);
    let client = database.client();
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
                  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert!(client.number(locks) > 0, "each session of the node has the lock of its lane");
    proxy.cut();
    let end = Instant::now() + PATIENCE;
    while client.number(locks) > 0 {
        assert!(Instant::now() < end, "the pool did not take the sessions back");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The pool lends the same sessions to others. The node has had three.
    let others: Vec<_> = (0..8).map(|_| super::server::connect(&pooled)).collect();
    others.iter().for_each(|other| other.execute("BEGIN; SELECT 1"));
    proxy.pass();
    schedule(2);
    // Its keeper's and its writer's; it has no handler, and so nothing to run.
    while client.number(locks) < 2 {
        assert!(Instant::now() < end, "the node did not open its sessions again");
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = others.iter().filter(|other| other.try_execute("SELECT 1").is_err()).count();
    assert_eq!(ended, 0, "sessions of others were ended");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn an_upgrade_runs_under_a_lock_once_and_older_nodes_go_on() {
    let server = server();
    let database = server.database();
    let older = database.durable().start().unwrap();
    let place = database.place();
    let upgrade = |place: &Place| {
        let next = "ALTER TABLE lars.timer ADD COLUMN note text; SELECT pg_sleep(0.2)";
        let scripts: Vec<&str> = SCRIPTS.into_iter().chain([next]).collect();
        PostgresStore::prepare_with(place, &scripts).map(drop)
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| upgrade(&place).unwrap());
        }
    });
    let timers = older.timers();
    let timer = timers.schedule_once(Duration::from_secs(60), super::node::Tagged(1)).key("key");
    timer.submit().wait().unwrap();
    assert!(timers.get("key").wait().unwrap().is_some());
    match database.durable().start().map(drop).unwrap_err() {
        StartError::NewerDatabase { found: 4, known: 3 } => {}
        other => panic!("{other}"),
    }
    drop(older);
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn sslmode_require_without_a_connector_is_refused() {
    let server = server();
    let database = server.database();
    let parameters = format!("{} sslmode=require", database.parameters());
    let place =
        Place::new(&parameters, Arc::new(Tls(NoTls)), "default", Duration::from_secs(1), true);
    assert!(PostgresStore::prepare(&place.unwrap()).is_err());
}
