//! Several real processes on one server, and everything that happens to them: they are killed at
//! any moment and between a commit and its answer, frozen for longer than their lease, cut off from
//! the server; its sessions are ended, and it crashes itself; the database's clock is set by an
//! hour, and those of two nodes are a day off all the time; some nodes hear no notification. What
//! callers and handlers saw goes through the checker.
//!
//! `LARS_CLUSTER_SECONDS=600 cargo test -p lars-durable --lib cluster:: -- --ignored` goes on for
//! ten minutes; `LARS_CLUSTER_SEED` chooses what happens.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::history::Event;
use super::super::kill::{Log, call_for_ever, cancel_series, check, note_parked, start};
use super::super::tempdir::Directory;
use super::node::SHORT_LEASE;
use super::proxy::Proxy;
use super::server::{PATIENCE, Server, connect, durable};
use crate::Durable;
use crate::failpoint::{DEAF, DIE, WALL_CLOCK};

const PARAMETERS: &str = "LARS_CLUSTER_PARAMETERS";
const DIRECTORY: &str = "LARS_CLUSTER_DIRECTORY";
const SEED: &str = "LARS_CLUSTER_SEED";
const SECONDS: &str = "LARS_CLUSTER_SECONDS";

/// How long things go wrong in `cargo test`.
const DEFAULT_SECONDS: u64 = 12;

const NODES: usize = 3;
const LEASE: Duration = Duration::from_secs(2);

/// What goes wrong.
const WHATS: [&str; 8] =
    ["killed", "frozen", "terminated", "crashed", "held", "slow", "cut", "clock set"];

struct Nodes {
    direct: String,
    proxied: String,
    directory: Directory,
    children: Vec<Child>,
}

impl Nodes {
    fn command(&self, place: usize, seed: u64) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let parameters = if place == 0 { &self.proxied } else { &self.direct };
        command
            .args(["proof::postgres::cluster::one_node", "--exact", "--test-threads=1"])
            .env(PARAMETERS, parameters)
            .env(DIRECTORY, self.directory.path())
            .env(SEED, seed.to_string())
            .env_remove(DIE)
            .env(WALL_CLOCK, [0, 86_400, -86_400][place].to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn spawn(&self, place: usize, rng: &mut fastrand::Rng) -> Child {
        let mut command = self.command(place, rng.u64(1..));
        match rng.u8(..6) {
            0 => command.env(DIE, format!("before-commit:{}", rng.u32(20..400))),
            1 => command.env(DIE, format!("after-commit:{}", rng.u32(20..400))),
            _ => &mut command,
        };
        if rng.u8(..3) == 0 {
            command.env(DEAF, "1");
        }
        command.spawn().unwrap()
    }

    /// Sets the database's clock, so far ahead of the machine's.
    fn set_clock(&self, server: &Server, log: &Log, hours: i64) {
        log.note(Event::Unsteady(true));
        log.set_ahead(hours * 3_600_000_000);
        let set = format!(
            "CREATE OR REPLACE FUNCTION lars.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
                 AS $$ SELECT pg_catalog.clock_timestamp() + interval '{hours} hours' $$"
        );
        // The server may be starting.
        let end = Instant::now() + PATIENCE;
        while server.try_connect().is_none_or(|client| client.try_execute(&set).is_err()) {
            assert!(Instant::now() < end, "the clock cannot be set");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Something goes wrong: one of [`WHATS`], by its place there.
    fn suffer(
        &mut self,
        what: usize,
        (server, proxy): (&Server, &Proxy),
        log: &Log,
        rng: &mut fastrand::Rng,
    ) {
        let place = rng.usize(..NODES);
        match what {
            0 => self.children[place].kill().unwrap_or_default(),
            1 => {
                self.signal(place, "-STOP");
                std::thread::sleep(LEASE + Duration::from_millis(rng.u64(0..2_000)));
                self.signal(place, "-CONT");
            }
            2 => {
                // Not while the server is starting.
                if let Some(client) = server.try_connect() {
                    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                                WHERE application_name = 'lars-durable'
                                ORDER BY random() LIMIT 2";
                    let _ = client.try_execute(end);
                }
            }
            3 if rng.bool() => {
                server.crash();
                server.wait();
            }
            3 | 4 => {
                proxy.hold();
                std::thread::sleep(Duration::from_millis(rng.u64(100..4_000)));
                proxy.pass();
            }
            5 => {
                proxy.slow();
                std::thread::sleep(Duration::from_millis(rng.u64(100..2_000)));
                proxy.pass();
            }
            6 => {
                proxy.cut();
                std::thread::sleep(Duration::from_millis(rng.u64(50..1_000)));
                proxy.pass();
            }
            _ => {
                self.set_clock(server, log, rng.i64(-1..=1));
                // By then a node has noticed, or its lease is over.
                std::thread::sleep(2 * LEASE);
                log.note(Event::Unsteady(false));
            }
        }
    }

    fn signal(&self, place: usize, signal: &str) {
        let pid = self.children[place].id().to_string();
        Command::new("kill").args([signal, &pid]).stderr(Stdio::null()).status().unwrap();
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn nothing_is_lost_early_or_twice_under_one_owner_whatever_happens_to_nodes_and_server() {
    let server = Server::start("");
    let setting = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let seconds = setting(SECONDS).unwrap_or(DEFAULT_SECONDS);
    let seed = setting(SEED).unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let proxy = Proxy::to(server.port());
    let proxied = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", proxy.port);
    let direct = server.parameters("postgres");
    let directory = Directory::new("cluster");
    // The schema, which on a busy machine takes longer than nodes with so short a lease wait.
    durable(server.parameters("postgres")).start().unwrap().close().unwrap();
    let log = Log::open(directory.path());
    log.note(Event::Standstills);
    let mut nodes = Nodes { direct, proxied, directory, children: Vec::new() };
    for place in 0..NODES {
        let child = nodes.spawn(place, &mut rng);
        nodes.children.push(child);
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut happened = [0; WHATS.len()];
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(rng.u64(200..1_200)));
        let what = rng.usize(..happened.len());
        happened[what] += 1;
        nodes.suffer(what, (&server, &proxy), &log, &mut rng);
        for place in 0..NODES {
            if nodes.children[place].try_wait().unwrap().is_some() {
                nodes.children[place] = nodes.spawn(place, &mut rng);
            }
        }
    }
    for child in &mut nodes.children {
        let _ = child.kill();
        child.wait().unwrap();
    }
    // So that everything comes due.
    nodes.set_clock(&server, &log, 1);
    log.note(Event::Unsteady(false));
    let status = nodes.command(1, 0).stderr(Stdio::inherit()).status().unwrap();
    let log = std::fs::read_to_string(nodes.directory.path().join("log")).unwrap();
    let client = server.try_connect().unwrap();
    let left = client.text(
        "SELECT string_agg(t::text || ' ' || b::text, '; ') FROM lars.timer t, lars.bucket b
          WHERE b.grp = t.grp AND b.bucket = t.bucket",
    );
    assert!(status.success(), "the last node ended with {status}; left: {left:?}");
    let summary = check(&log);
    println!("{WHATS:?}: {happened:?}; {summary:?}");
    assert!(summary.accepted > 0 && summary.runs > 0, "the nodes did nothing");
}

/// Not a test of its own: what a node does until something happens to it.
#[test]
fn one_node() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let parameters = std::env::var(PARAMETERS).unwrap();
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    let log = Log::open(directory.as_ref());
    if seed != 0 {
        let builder = Durable::postgres(parameters).lease(LEASE).threads(4);
        call_for_ever(&start(builder, &log, seed).timers(), &log, seed, 40_000);
    }
    let durable = start(durable(parameters.clone()).lease(SHORT_LEASE).threads(4), &log, seed);
    let timers = durable.timers();
    let client = connect(&parameters);
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        cancel_series(&timers, &log);
        std::thread::sleep(Duration::from_millis(50));
        if client.number("SELECT count(*) FROM lars.timer") == 0 {
            note_parked(&timers, &log, |id| {
                let micros = "(extract(epoch FROM planned_at) * 1000000)::bigint";
                client.number(&format!("SELECT {micros} FROM lars.parked WHERE id = {id}"))
            });
            return;
        }
    }
    panic!("timers are left");
}
