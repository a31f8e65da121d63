//! A PostgreSQL server of the run's own, with its usual settings, and a connection to it.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use benches::durable::AnyError;
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

/// Ends when it is dropped.
pub(crate) struct Server {
    data: PathBuf,
    port: u16,
    child: Child,
}

/// PostgreSQL refuses to be root's.
fn as_user(program: &Path) -> Command {
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

impl Server {
    pub(crate) fn start(directory: &Path) -> Result<Self, AnyError> {
        let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
            .map_err(|_| "no PostgreSQL on this machine (Debian: apt-get install postgresql)")?
            .filter_map(|version| Some(version.ok()?.path().join("bin")))
            .filter(|programs| programs.join("initdb").exists())
            .collect();
        versions.sort();
        let programs = versions.pop().ok_or("there is no initdb in /usr/lib/postgresql")?;
        let data = directory.join(format!("lars-bench-{}", std::process::id()));
        let made = as_user(&programs.join("initdb"))
            .arg("-D")
            .arg(&data)
            .args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"])
            .current_dir("/")
            .stdout(Stdio::null())
            .status()?;
        if !made.success() {
            return Err(format!("initdb: {made}").into());
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // A child of this process, so that whoever stops others for a measurement spares it.
        let child = as_user(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-k"])
            .arg(&data)
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=512MB"])
            .args(["-c", "max_wal_size=4GB"])
            .current_dir("/")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self { data, port, child };
        for _ in 0..600 {
            if server.connect().is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err("the server did not start".into())
    }

    pub(crate) fn parameters(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.data.display(), self.port)
    }

    pub(crate) fn connect(&self) -> Result<Connection, AnyError> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let parameters = self.parameters();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&parameters, NoTls).await?;
            tokio::spawn(connection);
            Ok::<_, tokio_postgres::Error>(client)
        })?;
        Ok(Connection { runtime, client })
    }

    /// As if nothing had been measured before.
    pub(crate) fn fresh(&self) -> Result<Connection, AnyError> {
        let connection = self.connect()?;
        connection.execute("DROP SCHEMA IF EXISTS lars CASCADE")?;
        lars_durable::Durable::postgres(self.parameters()).start()?.close()?;
        connection.execute("CHECKPOINT")?;
        Ok(connection)
    }

    /// An empty database, and its address. It is reached as ours is, by the socket in the file
    /// system.
    pub(crate) fn for_a_peer(&self) -> Result<String, AnyError> {
        let connection = self.connect()?;
        for sql in ["DROP DATABASE IF EXISTS peer", "CREATE DATABASE peer", "CHECKPOINT"] {
            connection.execute(sql)?;
        }
        let (host, port) = (self.data.display(), self.port);
        Ok(format!("postgres:///peer?host={host}&port={port}&user=postgres"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // `kill` would leave its own processes alone; this is its "immediate shutdown".
        let quit = ["-QUIT", &self.child.id().to_string()];
        let _ = Command::new("kill").args(quit).status();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// A connection of the harness, used by a thread that waits.
pub(crate) struct Connection {
    runtime: Runtime,
    client: Client,
}

impl Connection {
    pub(crate) fn execute(&self, sql: &str) -> Result<(), AnyError> {
        Ok(self.runtime.block_on(self.client.batch_execute(sql))?)
    }

    pub(crate) fn prepare(&self, sql: &str) -> Result<tokio_postgres::Statement, AnyError> {
        Ok(self.runtime.block_on(self.client.prepare(sql))?)
    }

    pub(crate) fn query(
        &self,
        statement: &tokio_postgres::Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, AnyError> {
        Ok(self.runtime.block_on(self.client.query(statement, parameters))?)
    }

    pub(crate) fn number(&self, sql: &str) -> Result<i64, AnyError> {
        let row = self.runtime.block_on(self.client.query_one(sql, &[]))?;
        Ok(row.get(0))
    }
}
