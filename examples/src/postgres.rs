//! A PostgreSQL server in a temporary directory, for examples that show several machines.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

type AnyError = Box<dyn std::error::Error>;

/// What there is to say on a machine without a server.
pub const MISSING: &str = "\
!!!!! There is no PostgreSQL on this machine, so this example can show nothing. !!!!!

It needs the programs of a server (initdb, postgres, pg_ctl, psql), version 14 or newer, in
/usr/lib/postgresql/<version>/bin or in the PATH. It starts a server of its own, in a temporary
directory; none has to run. To install them:

    Debian, Ubuntu    sudo apt-get install postgresql
    Fedora            sudo dnf install postgresql-server
    macOS             brew install postgresql@17   (and its bin directory into the PATH)
";

/// A PostgreSQL server, which ends when this is dropped.
pub struct Server {
    programs: PathBuf,
    directory: PathBuf,
    port: u16,
}

impl Server {
    /// `None` if there is no PostgreSQL on this machine.
    pub fn start(name: &str) -> Result<Option<Self>, AnyError> {
        let Some(programs) = programs() else { return Ok(None) };
        let name = format!("lars-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Self { programs, directory, port };
        let data = server.data();
        server.run("initdb", &["-D", &data, "-A", "trust", "-U", "postgres", "-E", "UTF8"])?;
        let options = format!("-p {port} -k {data} -c listen_addresses=127.0.0.1");
        let log = format!("{data}/log");
        server.run("pg_ctl", &["-D", &data, "-w", "-l", &log, "-o", &options, "start"])?;
        Ok(Some(server))
    }

    fn data(&self) -> String {
        self.directory.display().to_string()
    }

    /// Of a connection to it.
    pub fn parameters(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port)
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs a program of PostgreSQL, which refuses to run as root.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), AnyError> {
        let path = self.programs.join(program);
        let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let mut command = if root {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        let status = command.args(arguments).current_dir("/").stdout(Stdio::null()).status()?;
        if status.success() { Ok(()) } else { Err(format!("{program}: {status}").into()) }
    }

    /// What `psql` says, a line for each row.
    pub fn ask(&self, sql: &str) -> String {
        let port = self.port.to_string();
        let output = Command::new(self.programs.join("psql"))
            .args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-XAtc", sql])
            .output();
        output.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "stop"]);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Where the programs are: Debian's newest version, or else the first in the PATH.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut found: Vec<PathBuf> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .filter(|programs| programs.join("initdb").exists())
        .collect();
    found.sort();
    let path = || std::env::var_os("PATH");
    let anywhere =
        || std::env::split_paths(&path()?).find(|programs| programs.join("initdb").exists());
    found.pop().or_else(anywhere)
}
