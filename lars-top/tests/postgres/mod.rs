//! A PostgreSQL server of the tests' own, for those of lars-top and of lars-web.
#![allow(dead_code, unreachable_pub)] // each of them uses a part of it

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// It ends when this process does, and logs all statements.
pub struct Server {
    watch: Child,
    said: BufReader<ChildStdout>,
    programs: PathBuf,
    /// Where its files are.
    pub data: PathBuf,
    pub port: u16,
    /// How it is connected to.
    pub parameters: String,
}

/// Does what it is told, and ends the server when the standard input ends. With `secure`, from the
/// next start on the server has a certificate for its address, and refuses whoever is `guarded` and
/// comes without TLS; `other.crt` is a certificate that it has not.
const WATCH: &str = r#"
"$1/initdb" -D "$2" -A trust -U postgres --no-sync -E UTF8 --locale=C >/dev/null || exit
secure() {
    for name in server other; do
        openssl req -x509 -nodes -newkey rsa:2048 -days 2 -subj /CN=localhost \
            -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
            -keyout "$2/$name.key" -out "$2/$name.crt" 2>/dev/null || return
    done
    echo 'ssl = on' >>"$2/postgresql.conf"
    { echo 'hostnossl all guarded all reject'; cat "$2/pg_hba.conf"; } >"$2/hba"
    mv "$2/hba" "$2/pg_hba.conf"
}
while read -r word; do
    case $word in
    secure) secure "$@" ;;
    *) "$1/pg_ctl" -D "$2" -w -l "$2/log" -m fast "$word" -o "-p $3 -k $2 -c fsync=off \
        -c listen_addresses=127.0.0.1 -c log_statement=all" >/dev/null ;;
    esac && echo "$word"
done
"$1/pg_ctl" -D "$2" -m immediate stop
rm -rf "$2"
"#;

impl Server {
    pub fn start() -> Self {
        let mut server = Self::prepare();
        server.tell("start");
        server
    }

    /// One with a certificate.
    pub fn start_secure() -> Self {
        let mut server = Self::prepare();
        server.tell("secure");
        server.tell("start");
        server
    }

    fn prepare() -> Self {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let programs = versions.map(|version| version.unwrap().path().join("bin"));
        let programs = programs.filter(|bin| bin.join("initdb").exists()).max();
        let none = "no PostgreSQL on this machine (Debian: apt-get install postgresql)";
        let programs = programs.expect(none);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let data = format!("lars-it-pg-{}-{port}", std::process::id());
        let data = std::env::temp_dir().join(data);
        // PostgreSQL refuses to be root's.
        let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let mut command = Command::new(if root { "setpriv" } else { "sh" });
        if root {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"]);
        }
        command.args(["-c", WATCH, "sh"]).arg(&programs).arg(&data).arg(port.to_string());
        let pipes = command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut watch = pipes.spawn().unwrap();
        let said = BufReader::new(watch.stdout.take().unwrap());
        let parameters = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
        Self { watch, said, programs, data, port, parameters }
    }

    /// `start` or `stop`.
    pub fn tell(&mut self, word: &str) {
        writeln!(self.watch.stdin.as_mut().unwrap(), "{word}").unwrap();
        let mut said = String::new();
        self.said.read_line(&mut said).unwrap();
        assert_eq!(said.trim(), word, "the server did not {word}");
    }

    pub fn psql(&self, sql: &str) {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-qX", "-v", "ON_ERROR_STOP=1", &self.parameters, "-c", sql]);
        assert!(psql.status().unwrap().success(), "{sql}");
    }

    /// How many statements with this text it has logged.
    pub fn logged(&self, text: &str) -> usize {
        let log = std::fs::read_to_string(self.data.join("log")).unwrap();
        log.lines().filter(|line| line.contains(text)).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watch.stdin.take());
        let _ = self.watch.wait();
    }
}
