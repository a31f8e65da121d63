//! Connections that are secured, and what must not be seen in whatever is logged: no password and
//! no payload; a key only where its timer has failed.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::node::{Tagged, node};
use super::server::{PATIENCE, Server, as_user, connect, durable};
use crate::proof::in_short;
use crate::{Durable, Fired, OnConflict, Payload, StartError};

const PASSWORD: &str = "hunter2-the-password";
const WRONG: &str = "letmein-the-wrong-password";
const KEY: &str = "4711-the-key";
const PAYLOAD: &str = "alice-the-payload";

/// Makes a certificate that its own key has signed, and asks everybody for TLS and a password.
const SECURE: &str = r#"
    cd "$1" && cat >request <<END
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = localhost
[extensions]
basicConstraints = critical, CA:FALSE
subjectAltName = IP:127.0.0.1
END
    openssl req -x509 -nodes -newkey rsa:2048 -days 2 -config request \
        -keyout server.key -out server.crt 2>/dev/null || exit 1
    { echo 'hostssl all guarded 127.0.0.1/32 scram-sha-256'; echo 'host all guarded all reject'
      cat pg_hba.conf; } >hba && mv hba pg_hba.conf
"#;

/// A server that `guarded` reaches by TLS only.
fn secure_server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let start = || {
        let server = Server::start("");
        let data = server.data().to_str().unwrap();
        let done = as_user("sh").args(["-c", SECURE, "sh", data]).current_dir("/").status();
        assert!(done.unwrap().success(), "no certificate could be made by `openssl`");
        let admin = server.try_connect().unwrap();
        admin.execute(&format!("CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'"));
        admin.execute("ALTER SYSTEM SET ssl = on");
        admin.execute("SELECT pg_reload_conf()");
        // It is read by the server, and then by each session.
        let end = Instant::now() + PATIENCE;
        while admin.text("SHOW ssl").unwrap() != "on" {
            assert!(Instant::now() < end, "the server offers no TLS");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    };
    SERVER.get_or_init(start)
}

/// A database of `guarded`, by name.
fn guarded(server: &'static Server) -> String {
    let name = format!("guarded{:x}", fastrand::u64(..));
    server.database_named(name.clone(), "OWNER guarded");
    name
}

fn parameters(server: &Server, database: &str, password: &str) -> String {
    let port = server.port();
    format!(
        "host=127.0.0.1 port={port} user=guarded password={password} dbname={database} \
         sslmode=require"
    )
}

/// Trusts this certificate, or none.
fn connector(certificate: Option<PathBuf>) -> MakeRustlsConnect {
    let mut roots = RootCertStore::empty();
    if let Some(file) = certificate {
        roots.add(CertificateDer::from_pem_file(file).unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    MakeRustlsConnect::new(config.unwrap().with_root_certificates(roots).with_no_client_auth())
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn every_connection_is_secured_by_the_connector_and_refused_if_it_cannot_be() {
    let server = secure_server();
    let database = guarded(server);
    let to = || durable(parameters(server, &database, PASSWORD));
    let certificate = server.data().join("server.crt");
    let (durable, runs) = node(to().tls(connector(Some(certificate))));
    durable.timers().schedule_once(Duration::ZERO, Tagged(1)).submit().wait().unwrap();
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 1);
    let sessions = |which: &str| {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
              WHERE a.application_name = 'lars-durable' AND a.datname = '{database}' AND {which}"
        );
        server.try_connect().unwrap().number(&sql)
    };
    // Each thread of the node opens its own one, in its own time.
    until(&|| sessions("true") == 4);
    assert_eq!(sessions("NOT s.ssl"), 0);
    durable.close().unwrap();

    let refused = |builder: crate::Builder| match builder.start().map(drop).unwrap_err() {
        StartError::Database { reason } => reason,
        other => panic!("{other}"),
    };
    let untrusted = refused(to().tls(connector(None)));
    assert!(untrusted.contains("TLS"), "{untrusted}");
    assert!(refused(to()).contains("TLS"));
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn no_log_line_of_any_level_shows_a_password_or_a_payload_and_only_failures_show_keys() {
    let server = secure_server();
    let database = guarded(server);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["proof::postgres::secrets::one_talkative_node", "--exact", "--test-threads=1"])
        .arg("--nocapture")
        .env("LARS_SECRETS_PLAIN", server.parameters(&database))
        .env("LARS_SECRETS_RIGHT", parameters(server, &database, PASSWORD))
        .env("LARS_SECRETS_WRONG", parameters(server, &database, WRONG))
        .env("LARS_SECRETS_CERTIFICATE", server.data().join("server.crt"))
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines = || in_short("secrets", &text);
    assert!(output.status.success(), "{}\n{}", output.status, lines());
    // All of it was heard.
    for said in [
        "put off",
        "a transaction failed",
        "notifications are down",
        "executing statement",
        "a run has failed: retried",
        "the store answers again",
        "28P01",
    ] {
        assert!(text.contains(said), "nobody says {said:?}:\n{}", lines());
    }
    let failure = |line: &&str| line.contains("a run has failed") || line.contains("given up");
    for secret in [PASSWORD, WRONG, KEY, PAYLOAD] {
        // By its key people find the timer that failed.
        let lines = text.lines().filter(|line| secret != KEY || !failure(line));
        let shown = lines.into_iter().find(|line| line.contains(secret));
        assert_eq!(shown, None, "{secret:?} is shown");
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Secretive(String);

impl Payload for Secretive {
    const NAME: &'static str = "secretive";
}

/// Nobody has a handler for this.
#[derive(serde::Serialize, serde::Deserialize)]
struct Unknown(String);

impl Payload for Unknown {
    const NAME: &'static str = "unknown";
}

/// Writes what the client underneath logs.
struct ToStderr;

impl log::Log for ToStderr {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        eprintln!("{} {} {}", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}

/// The node has said that its store answers again.
static IS_BACK: AtomicBool = AtomicBool::new(false);

/// Writes what the node logs, and sees when its store is back.
struct ToStderrAndBack;

impl io::Write for ToStderrAndBack {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if String::from_utf8_lossy(line).contains("the store answers again") {
            IS_BACK.store(true, Ordering::Relaxed);
        }
        io::stderr().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn starts_that_fail(right: &str, wrong: &str, tls: &dyn Fn() -> MakeRustlsConnect) {
    for builder in [
        Durable::postgres(wrong).tls(tls()),
        Durable::postgres(right),
        Durable::postgres(right).tls(connector(None)),
        Durable::postgres(right.replace("dbname=", "nonsense=")),
        Durable::postgres(right.replace("port=", "port=x")),
        Durable::postgres(format!("postgres://guarded:{PASSWORD}@127.0.0.1:1/nothing")),
    ] {
        println!("{builder:?}");
        let error = builder.lease(Duration::from_secs(1)).start().map(drop).unwrap_err();
        println!("{error} {error:?}");
    }
}

/// However busy the machine is.
fn until(done: &dyn Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "it never happens");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Not a test of its own: a node to which much happens, and which logs all of it.
#[test]
fn one_talkative_node() {
    let Ok(plain) = std::env::var("LARS_SECRETS_PLAIN") else { return };
    let setting = |name: &str| std::env::var(name).unwrap();
    let (right, wrong) = (setting("LARS_SECRETS_RIGHT"), setting("LARS_SECRETS_WRONG"));
    let tls = || connector(Some(setting("LARS_SECRETS_CERTIFICATE").into()));
    log::set_logger(&ToStderr).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
    subscriber.with_writer(|| ToStderrAndBack).init();

    starts_that_fail(&right, &wrong, &tls);
    let run = |_: &Fired<Secretive>| Err::<(), _>("it failed");
    let builder = Durable::postgres(right).tls(tls()).lease(Duration::from_secs(15)).handle(run);
    let durable = builder.call_timeout(Duration::from_secs(1)).start().unwrap();
    let timers = durable.timers();
    println!("{durable:?} {timers:?}");
    let call = |after: u64, key: &str| {
        let timer = timers.schedule_once(Duration::from_millis(after), Secretive(PAYLOAD.into()));
        match timer.key(format!("{KEY}/{key}")).submit().wait() {
            Ok(accepted) => println!("{accepted:?}"),
            Err(error) => println!("{error} {error:?}"),
        }
        if let Err(error) = timers.reset(&format!("{KEY}/{key}"), Duration::ZERO).wait() {
            println!("{error} {error:?}");
        }
    };
    let admin = connect(&plain);
    call(0, "first");
    until(&|| {
        let unknown = timers.schedule_once(Duration::ZERO, Unknown(PAYLOAD.into()));
        // (A try that did not learn whether it took effect may have.)
        let unknown = unknown.key(format!("{KEY}/unknown")).on_conflict(OnConflict::Keep);
        unknown.submit().wait().is_ok()
    });
    let put_off =
        "SELECT count(*) FROM lars.timer WHERE handler = 'unknown' AND due_at > planned_at";
    until(&|| admin.number(put_off) == 1);
    for round in 0..3 {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name = 'lars-durable'";
        let sessions = "SELECT count(*) FROM pg_stat_activity
                         WHERE datname = current_database() AND application_name = 'lars-durable'";
        until(&|| admin.number(sessions) >= 4);
        admin.execute(end);
        call(10, &round.to_string());
    }
    // What the server refuses.
    admin.execute("ALTER TABLE lars.timer ADD CONSTRAINT none CHECK (key IS NULL) NOT VALID");
    call(10, "refused");
    admin.execute("ALTER TABLE lars.timer RENAME TO elsewhere");
    call(10, "gone");
    admin.execute("ALTER TABLE lars.elsewhere RENAME TO timer");
    // (Until here a run that is recorded is refused, and tried again.)
    IS_BACK.store(false, Ordering::Relaxed);
    admin.execute("ALTER TABLE lars.timer DROP CONSTRAINT none");
    // Also if nobody calls any more, and the last call has failed.
    until(&|| IS_BACK.load(Ordering::Relaxed));
    println!("{:?} {:?}", durable.metrics(), durable.close());
}
