//! Five nodes elect a leader, the leader dies, and they elect again: with two repeated timers each.
//!
//! The election timer of a node has a new random timeout in every round, and every heartbeat of a
//! leader pushes it back. A node that hears nothing for that long stands for election; a majority
//! of all five makes it leader. The election runs in real time, to be watched, and then with two
//! hundred seeds in virtual time, where the bounds can be checked.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use examples::checks::Problem;
use lars_jobs::repeated_timer::RepeatedTimer;
use lars_scheduler::{Handle, LightArrayRevolverScheduler, VirtualTime};

const NODES: usize = 5;
const MAJORITY: usize = NODES / 2 + 1;
/// The timeouts of elections are between one and two of these.
const ELECTION: Duration = Duration::from_millis(150);
const HEARTBEAT: Duration = Duration::from_millis(40);
/// A message takes up to this, in milliseconds.
const LATENCY: u64 = 5;
const SEEDS: u64 = 200;
/// No election in virtual time may take longer: a dozen rounds in which nobody wins.
const BOUND: Duration = Duration::from_secs(4);
/// How long the real-time part waits for what has to happen; no measure of anything.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
enum Message {
    RequestVote { term: u64, candidate: usize },
    Vote { term: u64 },
    Heartbeat { term: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    Follower,
    Candidate,
    Leader,
    Dead,
}

#[derive(Debug)]
struct Node {
    role: Role,
    term: u64,
    voted_for: Option<usize>,
    votes: usize,
}

#[derive(Debug, Clone, Copy)]
struct Elected {
    term: u64,
    node: usize,
}

struct Cluster {
    timers: Handle,
    random: Mutex<fastrand::Rng>,
    nodes: Vec<Mutex<Node>>,
    election: Vec<RepeatedTimer>,
    heartbeat: Vec<RepeatedTimer>,
    /// Who was elected in which term.
    leaders: Mutex<BTreeMap<u64, usize>>,
    violations: Mutex<Vec<String>>,
    elected: Sender<Elected>,
    /// Tells a person what happens, with the time since then.
    narrated_since: Option<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    fn start(
        timers: &Handle,
        seed: u64,
        narrated: bool,
    ) -> Result<(Arc<Self>, Receiver<Elected>), Box<dyn Error>> {
        let (elected, elections) = mpsc::channel();
        let mut failed = None;
        let cluster = Arc::new_cyclic(|cluster: &Weak<Self>| {
            let mut timer = |number, period, trigger: fn(&Arc<Self>, usize), randomised: bool| {
                let (triggered, adjusted) = (cluster.clone(), cluster.clone());
                let timer = RepeatedTimer::builder(timers, period)
                    .adjust_timeout(move |period| match adjusted.upgrade() {
                        Some(cluster) if randomised => {
                            period.mul_f64(1.0 + lock(&cluster.random).f64())
                        }
                        _ => period,
                    })
                    .inline() // it only sends messages
                    .build(move |_| {
                        if let Some(cluster) = triggered.upgrade() {
                            trigger(&cluster, number);
                        }
                    });
                timer.map_err(|error| failed = Some(error)).ok()
            };
            let election =
                (0..NODES).filter_map(|n| timer(n, ELECTION, Self::stand, true)).collect();
            let heartbeat =
                (0..NODES).filter_map(|n| timer(n, HEARTBEAT, Self::beat, false)).collect();
            let node = || Node { role: Role::Follower, term: 0, voted_for: None, votes: 0 };
            Self {
                timers: timers.clone(),
                random: Mutex::new(fastrand::Rng::with_seed(seed)),
                nodes: (0..NODES).map(|_| Mutex::new(node())).collect(),
                election,
                heartbeat,
                leaders: Mutex::default(),
                violations: Mutex::default(),
                elected,
                narrated_since: narrated.then(Instant::now),
            }
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        for election in &cluster.election {
            election.start()?;
        }
        Ok((cluster, elections))
    }

    fn narrate(&self, node: usize, what: &str) {
        if let Some(start) = self.narrated_since {
            println!("{:>7} ms  node {node} {what}", start.elapsed().as_millis());
        }
    }

    fn send(self: &Arc<Self>, to: usize, message: Message) {
        let latency = Duration::from_micros(lock(&self.random).u64(..LATENCY * 1_000));
        let cluster = Arc::clone(self);
        // Refused at the very end only, when the scheduler has been stopped.
        let _ = self.timers.schedule_once(latency, move || cluster.receive(to, message));
    }

    fn broadcast(self: &Arc<Self>, from: usize, message: Message) {
        (0..NODES).filter(|&to| to != from).for_each(|to| self.send(to, message));
    }

    /// The election timer: nobody has been heard of for a while.
    fn stand(self: &Arc<Self>, number: usize) {
        let term = {
            let mut node = lock(&self.nodes[number]);
            if matches!(node.role, Role::Leader | Role::Dead) {
                return; // it was stopped while this trigger ran
            }
            node.role = Role::Candidate;
            node.term += 1;
            node.voted_for = Some(number);
            node.votes = 1;
            node.term
        };
        self.narrate(number, &format!("stands for election in term {term}"));
        self.broadcast(number, Message::RequestVote { term, candidate: number });
    }

    /// The heartbeat timer: the leader is alive.
    fn beat(self: &Arc<Self>, number: usize) {
        let (role, term) = {
            let node = lock(&self.nodes[number]);
            (node.role, node.term)
        };
        if role == Role::Leader {
            self.broadcast(number, Message::Heartbeat { term });
        }
    }

    fn receive(self: &Arc<Self>, number: usize, message: Message) {
        let mut node = lock(&self.nodes[number]);
        if node.role == Role::Dead {
            return;
        }
        let (Message::RequestVote { term, .. }
        | Message::Vote { term }
        | Message::Heartbeat { term }) = message;
        if term > node.term {
            if node.role == Role::Leader {
                self.heartbeat[number].stop();
                let _ = self.election[number].start();
            }
            (node.role, node.term, node.voted_for) = (Role::Follower, term, None);
        }
        if term < node.term {
            return;
        }
        match message {
            Message::RequestVote { candidate, .. } => {
                if node.voted_for.is_none_or(|voted_for| voted_for == candidate) {
                    node.voted_for = Some(candidate);
                    let _ = self.election[number].reset();
                    self.send(candidate, Message::Vote { term });
                }
            }
            Message::Vote { .. } => {
                node.votes += 1;
                if node.role == Role::Candidate && node.votes == MAJORITY {
                    node.role = Role::Leader;
                    drop(node); // the heartbeat is about to look at it
                    self.lead(number, term);
                }
            }
            Message::Heartbeat { .. } => {
                node.role = Role::Follower;
                let _ = self.election[number].reset();
            }
        }
    }

    fn lead(self: &Arc<Self>, number: usize, term: u64) {
        self.narrate(number, &format!("leads in term {term}"));
        if let Some(other) = lock(&self.leaders).insert(term, number) {
            let violation = format!("nodes {other} and {number} both lead in term {term}");
            lock(&self.violations).push(violation);
        }
        self.election[number].stop();
        // The first heartbeat at once, the others from then on.
        let _ = self.heartbeat[number].start();
        let _ = self.heartbeat[number].run_once_now();
        let _ = self.elected.send(Elected { term, node: number });
    }

    fn kill(&self, number: usize) {
        lock(&self.nodes[number]).role = Role::Dead;
        self.election[number].destroy();
        self.heartbeat[number].destroy();
        self.narrate(number, "dies");
    }

    fn violation(&self) -> Result<(), String> {
        lock(&self.violations).first().cloned().map_or(Ok(()), Err)
    }
}

/// In real time, to be watched. It checks what must hold on any machine: somebody is elected, again
/// after each death, and never two in one term.
fn watch() -> Result<(), Box<dyn Error>> {
    println!("Five nodes, in real time:\n");
    let scheduler = LightArrayRevolverScheduler::new()?;
    let (cluster, elections) = Cluster::start(&scheduler, fastrand::u64(..), true)?;
    let mut last = 0;
    for death in 0..2 {
        let leader = elections.recv_timeout(PATIENCE)?;
        if leader.term <= last {
            return Err(format!("term {} came after term {last}", leader.term).into());
        }
        // A while of peace, under a leader whose heartbeats push all election timers back.
        std::thread::sleep(Duration::from_millis(400));
        // On a machine that stood still the others may have lost patience; the last one elected is
        // it.
        let leader = elections.try_iter().last().unwrap_or(leader);
        last = leader.term;
        cluster.kill(leader.node);
        if death == 1 {
            elections.recv_timeout(PATIENCE)?;
        }
    }
    drop(scheduler.stop().wait());
    cluster.violation()?;
    Ok(())
}

/// Moves the time until somebody is elected, and says who, and how long it took.
fn elect(
    time: &VirtualTime,
    elections: &Receiver<Elected>,
) -> Result<(Elected, Duration), Box<dyn Error>> {
    let start = time.elapsed();
    loop {
        if let Ok(elected) = elections.try_recv() {
            return Ok((elected, time.elapsed() - start));
        }
        time.advance_to_next().ok_or("all timers have stopped")?;
        if time.elapsed() - start > BOUND {
            return Err(format!("nobody was elected within {BOUND:?}").into());
        }
    }
}

/// One life of a cluster in virtual time. Returns how long its three elections took.
fn life(seed: u64) -> Result<[Duration; 3], Box<dyn Error>> {
    let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    let (cluster, elections) = Cluster::start(&time, seed, false)?;
    let mut took = [Duration::ZERO; 3];
    for took in &mut took {
        let (leader, time_taken) = elect(&time, &elections)?;
        *took = time_taken;
        // Heartbeats come in time, so nobody else stands for as long as the leader lives.
        time.advance(Duration::from_secs(10));
        if let Ok(other) = elections.try_recv() {
            return Err(format!("{other:?} came although {leader:?} was alive").into());
        }
        cluster.kill(leader.node);
    }
    // Two are left, and they are no majority, however often they try.
    time.advance(Duration::from_secs(10));
    if let Ok(elected) = elections.try_recv() {
        return Err(format!("{elected:?} without a majority").into());
    }
    cluster.violation()?;
    let terms = lock(&cluster.leaders).len();
    if terms != took.len() {
        return Err(format!("{terms} terms had a leader instead of {}", took.len()).into());
    }
    let running: Vec<_> = (0..NODES).filter(|&n| cluster.election[n].is_started()).collect();
    running.iter().for_each(|&number| cluster.kill(number));
    time.advance(Duration::from_millis(LATENCY)); // what is on its way arrives, and nobody answers
    if (running.len(), time.pending()) != (2, 0) {
        return Err(format!("nodes {running:?} were left, and {} timers", time.pending()).into());
    }
    Ok(took)
}

fn main() -> Result<(), Problem> {
    watch()?;
    let mut took = Vec::new();
    for seed in 0..SEEDS {
        took.push(life(seed).map_err(|error| format!("seed {seed}: {error}"))?);
    }
    if life(0)? != took[0] {
        return Err("a second life with the same seed differs from the first".into());
    }
    println!("\n{SEEDS} clusters in virtual time, each until three of five are dead:\n");
    println!("  election            median   slowest");
    for (number, name) in ["the first", "after one death", "after two deaths"].iter().enumerate() {
        let mut times: Vec<_> = took.iter().map(|took| took[number].as_millis()).collect();
        times.sort_unstable();
        println!("  {name:<17} {:>5} ms  {:>5} ms", times[times.len() / 2], times[times.len() - 1]);
    }
    println!("\nNo term had two leaders, and no leader that lived was replaced.");
    Ok(())
}
