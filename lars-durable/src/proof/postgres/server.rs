//! A PostgreSQL of the tests' own: one for the process, in a temporary directory, gone with it.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

use crate::Durable;
use crate::store::{Place, Tls};
use crate::sync::Arc;

/// A machine that is busy with other things may take long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Stops the server when nobody holds its other end any more, however the test ends.
const WATCH: &str = r#"
    "$1/postgres" -D "$2" -p "$3" -k "$2" -c listen_addresses=127.0.0.1 -c shared_buffers=64MB \
        -c max_connections=200 -c fsync=off -c log_min_messages=log $4 >>"$2/log" 2>&1 </dev/null &
    server=$!
    while read -r line; do
        case $line in
            crash) kill -QUIT $server; wait $server
                "$1/postgres" -D "$2" -p "$3" -k "$2" -c listen_addresses=127.0.0.1 \
                    -c shared_buffers=64MB -c max_connections=200 -c fsync=off $4 \
                    >>"$2/log" 2>&1 </dev/null &
                server=$! ;;
        esac
    done
    kill -QUIT $server
    wait $server
    rm -rf "$2"
"#;

pub(crate) struct Server {
    data: PathBuf,
    port: u16,
    watch: Mutex<Child>,
}

/// The server of this process.
pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(""))
}

/// Where Debian and others put the programs, the newest version first.
fn programs() -> Option<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            let bin = entry.path().join("bin");
            bin.join("initdb").exists().then_some((version, bin))
        })
        .collect();
    found.sort();
    let anywhere = || {
        std::env::split_paths(&std::env::var_os("PATH")?)
            .find(|directory| directory.join("initdb").exists())
    };
    found.pop().map(|(_, bin)| bin).or_else(anywhere)
}

fn new_directory() -> PathBuf {
    let name = format!("lars-pg-{}-{}", std::process::id(), fastrand::u32(..));
    std::env::temp_dir().join(name)
}

/// PostgreSQL refuses to be root's.
pub(crate) fn as_user(program: &str) -> Command {
    // SAFETY-free way to ask: who owns this process's own entry.
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let mut command = Command::new(if root { "setpriv" } else { program });
    if root {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", program]);
    }
    command
}

impl Server {
    pub(crate) fn start(options: &str) -> Self {
        let none = "no PostgreSQL on this machine (Debian: apt-get install postgresql)";
        let programs = programs().expect(none);
        let data = new_directory();
        let initdb = as_user(programs.join("initdb").to_str().unwrap())
            .arg("-D")
            .arg(&data)
            .args(["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C"])
            .current_dir("/")
            .output()
            .unwrap();
        assert!(initdb.status.success(), "{}", String::from_utf8_lossy(&initdb.stderr));
        Self::launch(&programs, data, options)
    }

    /// What a standby has that receives nothing more from now on. It waits until it is to take over
    /// by `pg_promote`.
    pub(crate) fn left_behind(&self) -> Self {
        let (programs, data) = (programs().expect("this server was started"), new_directory());
        let copied = as_user(programs.join("pg_basebackup").to_str().unwrap())
            .args(["-d", &self.parameters("postgres"), "-c", "fast", "--no-sync", "-D"])
            .arg(&data)
            .current_dir("/")
            .output()
            .unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        std::fs::write(data.join("standby.signal"), "").unwrap();
        Self::launch(&programs, data, "")
    }

    fn launch(programs: &Path, data: PathBuf, options: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let watch = as_user("sh")
            .args(["-c", WATCH, "sh"])
            .arg(programs)
            .arg(&data)
            .arg(port.to_string())
            .arg(options)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { data, port, watch: Mutex::new(watch) };
        server.wait();
        server
    }

    /// Until it takes connections.
    pub(crate) fn wait(&self) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if run(async { tokio_postgres::connect(&self.parameters("postgres"), NoTls).await })
                .is_ok()
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.data.join("log")).unwrap_or_default();
        let log: Vec<&str> = log.lines().collect();
        panic!("the server did not start:\n{}", log[log.len().saturating_sub(20)..].join("\n"));
    }

    /// Ends at once, as in a crash, and starts again.
    pub(crate) fn crash(&self) {
        use std::io::Write as _;
        self.watch.lock().unwrap().stdin.as_mut().unwrap().write_all(b"crash\n").unwrap();
    }

    /// `None` while it does not take connections.
    pub(crate) fn try_connect(&self) -> Option<Connected> {
        try_connect(&self.parameters("postgres")).ok()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Where its files are.
    pub(crate) fn data(&self) -> &std::path::Path {
        &self.data
    }

    pub(crate) fn parameters(&self, database: &str) -> String {
        format!("host={} port={} user=postgres dbname={database}", self.data.display(), self.port)
    }

    /// A new database.
    pub(crate) fn database(&'static self) -> Database {
        let name = format!("t{:x}", fastrand::u64(..));
        self.database_named(name, "")
    }

    pub(crate) fn database_named(&'static self, name: String, options: &str) -> Database {
        let client = connect(&self.parameters("postgres"));
        client.execute(&format!("CREATE DATABASE {name} {options}"));
        Database { server: self, name }
    }
}

/// A database of one test.
pub(crate) struct Database {
    pub(crate) server: &'static Server,
    pub(crate) name: String,
}

impl Database {
    pub(crate) fn parameters(&self) -> String {
        self.server.parameters(&self.name)
    }

    pub(crate) fn client(&self) -> Connected {
        connect(&self.parameters())
    }

    pub(crate) fn place(&self) -> Place {
        self.place_with(&self.parameters())
    }

    pub(crate) fn place_with(&self, parameters: &str) -> Place {
        Place::new(parameters, Arc::new(Tls(NoTls)), "default", PATIENCE, true).unwrap()
    }

    pub(crate) fn durable(&self) -> crate::Builder {
        durable(self.parameters())
    }
}

/// A lease, and a call's patience, that outlast a machine that stands still.
pub(crate) fn durable(parameters: impl Into<String>) -> crate::Builder {
    let long = Duration::from_secs(60);
    Durable::postgres(parameters).lease(long).call_timeout(PATIENCE)
}

/// A connection of a test, beside those of the nodes.
pub(crate) struct Connected {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

pub(crate) fn connect(parameters: &str) -> Connected {
    try_connect(parameters).unwrap()
}

fn try_connect(parameters: &str) -> Result<Connected, tokio_postgres::Error> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(parameters, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    })?;
    Ok(Connected { runtime, client })
}

impl Connected {
    pub(crate) fn execute(&self, sql: &str) {
        self.try_execute(sql).unwrap();
    }

    pub(crate) fn try_execute(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.runtime.block_on(self.client.batch_execute(sql))
    }

    /// How many rows a statement with two numbers changes.
    pub(crate) fn run(&self, sql: &str, a: i64, b: i64) -> Result<u64, tokio_postgres::Error> {
        self.runtime.block_on(self.client.execute(sql, &[&a, &b]))
    }

    /// What a statement that schedules answers: the timer's identity.
    pub(crate) fn submit(
        &self,
        (statement, timer): (&str, Vec<Option<String>>),
    ) -> Result<Option<i64>, tokio_postgres::Error> {
        let row = self.runtime.block_on(self.client.query_one(statement, &[&timer]))?;
        Ok(row.get(0))
    }

    /// The first column of the first row, as text.
    pub(crate) fn text(&self, sql: &str) -> Option<String> {
        let rows = self.runtime.block_on(self.client.simple_query(sql)).unwrap();
        rows.iter().find_map(|row| match row {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.text(sql).unwrap().parse().unwrap()
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
