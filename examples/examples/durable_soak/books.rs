//! What the nodes have seen, compared with the database.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;

use crate::{AnyError, LEASE};
use examples::postgres::Server;

/// Microseconds since 1970.
type Micros = u64;

/// How long the end of a run may be on its way to the database: a transaction that records it is
/// given up by both sides after a lease.
const UNRECORDED: Duration = LEASE;

/// A thread that stood between the look at the lease and its run goes on so late, at most, when
/// the whole machine goes on.
const THAW: Duration = Duration::from_secs(1);

/// What is later than this counts as this.
const LATEST: Micros = 3_600_000_000;

/// What happened so long ago explains nothing any more.
const MEMORY: Duration = Duration::from_secs(180);

fn length(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

fn micros_now() -> Micros {
    length(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[derive(Clone, Copy)]
struct Run {
    life: u64,
    fence: u64,
    at: Micros,
    /// It asks for another attempt.
    again: bool,
    /// It, or another of the same timer, has done what was to be done.
    done: bool,
}

impl Run {
    /// How often its bucket had changed its owner.
    fn epoch(&self) -> u64 {
        self.fence >> 32
    }
}

/// What a life was doing when it was killed, or frozen.
struct Fault {
    life: u64,
    /// Its row among the nodes, which was there.
    node: String,
    at: Micros,
    frozen: bool,
    /// The timers that it had started and whose end was not recorded, with their fences.
    unfinished: HashSet<(u64, u64)>,
}

/// A node whose row another one has deleted.
struct Death {
    life: u64,
    node: String,
    /// It had renewed its lease at some time after this, and never again.
    silent_since: Micros,
    /// When its row was seen to be gone.
    gone: Micros,
}

/// A node that has a row, and how often it had renewed its lease.
struct Member {
    life: u64,
    renewals: u64,
    silent_since: Micros,
}

/// What only the death of a node explains. It is judged when the nodes have been looked at again.
struct Suspect {
    tag: u64,
    /// The one with the smaller fence.
    run: Run,
    /// It began although it should not have, so that its process must have stood still.
    stale: bool,
    what: String,
}

pub(crate) struct Books {
    directory: PathBuf,
    /// How far the log of each life has been read.
    read: HashMap<PathBuf, u64>,
    /// Accepted, and neither run to their end nor cancelled nor parked.
    open: HashSet<u64>,
    cancelling: HashSet<u64>,
    prevented: HashMap<u64, Micros>,
    runs: HashMap<u64, Run>,
    faults: Vec<Fault>,
    members: HashMap<String, Member>,
    deaths: Vec<Death>,
    suspects: Vec<Suspect>,
    /// When the nodes were last looked at.
    looked: Micros,
    /// Nodes that fell silent although nothing was done to them.
    starved: u64,
    late: Histogram<u64>,
    wrong: Vec<String>,
    accepted: u64,
    ran: u64,
    cancelled: u64,
    parked: u64,
    repeated: u64,
    unanswered: u64,
    audits: u64,
    pending: usize,
    stood_still: Duration,
}

impl Books {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            read: HashMap::new(),
            open: HashSet::new(),
            cancelling: HashSet::new(),
            prevented: HashMap::new(),
            runs: HashMap::new(),
            faults: Vec::new(),
            members: HashMap::new(),
            deaths: Vec::new(),
            suspects: Vec::new(),
            looked: 0,
            starved: 0,
            late: Histogram::new_with_max(LATEST, 3).expect("three digits"),
            wrong: Vec::new(),
            accepted: 0,
            ran: 0,
            cancelled: 0,
            parked: 0,
            repeated: 0,
            unanswered: 0,
            audits: 0,
            pending: 0,
            stood_still: Duration::ZERO,
        }
    }

    /// A life was killed, or frozen. What it may repeat is what it had not finished by now.
    pub(crate) fn disturbed(&mut self, life: u64, frozen: bool, server: &Server) {
        let at = micros_now();
        let answer = server.ask(&format!(
            "SELECT 'node ' || id FROM lars.node WHERE report::json ->> 'name' = '{life}'
              UNION ALL SELECT payload || ' ' || fence FROM lars.timer WHERE fence IS NOT NULL"
        ));
        let pair = |line: &str| {
            let (tag, fence) = line.split_once(' ')?;
            Some((tag.parse().ok()?, fence.parse().ok()?))
        };
        // Without a row it owns nothing, or was declared dead before.
        if let Some(node) = answer.lines().find_map(|line| line.strip_prefix("node ")) {
            let (node, unfinished) = (node.to_owned(), answer.lines().filter_map(pair).collect());
            self.faults.push(Fault { life, node, at, frozen, unfinished });
        }
    }

    pub(crate) fn machine_stood_still(&mut self, long: Duration) {
        self.stood_still += long;
    }

    /// All is over, and all is judged.
    pub(crate) fn is_settled(&self) -> bool {
        self.open.is_empty() && self.suspects.is_empty()
    }

    /// Accepted timers that have not come to their end.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Whether the protocol allows that this run is repeated: its node was killed or frozen before
    /// the end of the run was recorded, or it was declared dead by another node while the end may
    /// not have been recorded yet.
    fn is_allowed(&self, Suspect { tag, run, stale, .. }: &Suspect) -> bool {
        let cut_short = |fault: &Fault| {
            let unfinished = fault.unfinished.contains(&(*tag, run.fence));
            fault.life == run.life && unfinished && (fault.frozen || !stale)
        };
        let declared_dead = |death: &Death| {
            death.life == run.life
                && !self.is_explained(death)
                && run.at + length(UNRECORDED) >= death.silent_since
                && run.at <= death.gone + length(THAW)
        };
        self.faults.iter().any(cut_short) || self.deaths.iter().any(declared_dead)
    }

    /// Whether what was done to a life is why its node fell silent.
    fn is_explained(&self, death: &Death) -> bool {
        self.faults.iter().any(|fault| fault.node == death.node)
    }

    /// Compares the nodes with those that there were at the last look, which was asked for at
    /// `self.looked`. Each is an identity, a life, and a number of renewals.
    fn look_at_nodes(&mut self, asked: Micros, nodes: &HashMap<&str, (u64, u64)>) {
        let now = micros_now();
        let there = |id: &String| nodes.contains_key(id.as_str());
        let gone: Vec<String> = self.members.keys().filter(|id| !there(id)).cloned().collect();
        for node in gone {
            let Some(Member { life, silent_since, .. }) = self.members.remove(&node) else {
                continue;
            };
            let silent = now - silent_since;
            if silent < length(LEASE) {
                let what = format!("life {life} was declared dead after {silent} µs at most");
                self.wrong.push(what);
            }
            let death = Death { life, node, silent_since, gone: now };
            self.starved += u64::from(!self.is_explained(&death));
            self.deaths.push(death);
        }
        for (id, (life, renewals)) in nodes {
            let (life, renewals) = (*life, *renewals);
            let known = self.members.get(*id).is_some_and(|member| member.renewals == renewals);
            if !known {
                // It was renewed after the last look was asked for.
                let member = Member { life, renewals, silent_since: self.looked };
                self.members.insert((*id).to_owned(), member);
            }
        }
        self.looked = asked;
    }

    /// Reads what the nodes have written since the last time. The last line may be unfinished.
    fn read_on(&mut self) -> Result<(), AnyError> {
        for entry in std::fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let from = self.read.get(&path).copied().unwrap_or(0);
            let mut text = String::new();
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(from))?;
            file.read_to_string(&mut text)?;
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            self.read.insert(path, from + whole as u64);
            for line in text[..whole].lines() {
                self.note(line)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, line: &str) -> Result<(), AnyError> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["accepted", tag] => {
                self.accepted += 1;
                let tag = tag.parse()?;
                // It may have run before its maker heard of it.
                if self.runs.get(&tag).is_none_or(|run| !run.done) {
                    self.open.insert(tag);
                } else {
                    self.unanswered -= 1;
                    self.ran += 1;
                }
            }
            ["cancel", tag] => drop(self.cancelling.insert(tag.parse()?)),
            ["prevented", tag, at] => {
                self.prevented.insert(tag.parse()?, at.parse()?);
            }
            ["run", tag, life, fence, due, at, end] => {
                let run = Run {
                    life: life.parse()?,
                    fence: fence.parse()?,
                    at: at.parse()?,
                    again: end == "r",
                    done: end == "d",
                };
                self.ran(tag.parse()?, due.parse()?, run);
            }
            _ => return Err(format!("a line that no node writes: {line:?}").into()),
        }
        Ok(())
    }

    fn ran(&mut self, tag: u64, due: Micros, run: Run) {
        if run.at < due {
            self.wrong.push(format!("{tag} was {} µs early", due - run.at));
        }
        self.late.saturating_record(run.at.saturating_sub(due));
        if self.prevented.get(&tag).is_some_and(|at| *at < run.at) {
            let what = format!("{tag} ran although its cancel had prevented that");
            self.suspects.push(Suspect { tag, run, stale: true, what });
        }
        let (mut newest, mut was_done) = (run, false);
        if let Some(before) = self.runs.get(&tag).copied() {
            was_done = before.done;
            if before.fence == run.fence {
                self.wrong.push(format!("two runs of {tag} have the fence {}", run.fence));
            }
            // The logs are read one after the other, so the later run may have come first.
            let first = if before.fence < run.fence { before } else { run };
            newest = if before.fence < run.fence { run } else { before };
            let stale = first.at > newest.at;
            if stale || !first.again {
                self.repeated += 1;
                let lives = (first.life, newest.life);
                let times = (first.at, newest.at);
                let what = format!("{tag} ran twice, by lives {lives:?} at {times:?}");
                if first.epoch() == newest.epoch() {
                    self.wrong.push(format!("{what}, and its bucket had not changed its owner"));
                }
                self.suspects.push(Suspect { tag, run: first, stale, what });
            }
        }
        let done = was_done || run.done;
        self.runs.insert(tag, Run { done, ..newest });
        if was_done || !done {
            return;
        }
        if self.open.remove(&tag) {
            self.ran += 1;
        } else {
            // Its call had no answer, or none yet.
            self.unanswered += 1;
        }
    }

    /// Accounts for each timer that was accepted before the database is looked at.
    ///
    /// Runs and cancels are written down before they are recorded, so what has left the database
    /// is in the logs by then.
    pub(crate) fn audit(&mut self, server: &Server) -> Result<Option<String>, AnyError> {
        self.read_on()?;
        let before: Vec<u64> = self.open.iter().copied().collect();
        let (suspects, asked) = (std::mem::take(&mut self.suspects), micros_now());
        // A node has a name with its first renewal. It owns nothing before.
        let answer = server.ask(
            "SELECT 'all there'
              UNION ALL SELECT 'timer ' || payload FROM lars.timer
              UNION ALL SELECT 'parked ' || payload FROM lars.parked
              UNION ALL SELECT concat_ws(' ', 'node', id, report::json ->> 'name', renewals)
                          FROM lars.node WHERE report IS NOT NULL",
        );
        // The nodes may still be making the schema.
        if !answer.lines().any(|line| line == "all there") {
            self.suspects.extend(suspects);
            return Ok(None);
        }
        let (mut timers, mut parked, mut nodes) = (HashSet::new(), HashSet::new(), HashMap::new());
        for line in answer.lines() {
            match line.split_once(' ') {
                Some(("timer", tag)) => drop(timers.insert(tag.parse::<u64>()?)),
                Some(("parked", tag)) => drop(parked.insert(tag.parse::<u64>()?)),
                Some(("node", node)) => {
                    let [id, life, renewals] = node.split(' ').collect::<Vec<_>>()[..] else {
                        return Err(format!("a node without a name: {line:?}").into());
                    };
                    nodes.insert(id, (life.parse()?, renewals.parse()?));
                }
                _ => {}
            }
        }
        self.look_at_nodes(asked, &nodes);
        for suspect in suspects {
            if !self.is_allowed(&suspect) {
                self.wrong.push(suspect.what);
            }
        }
        self.read_on()?;
        for tag in before {
            if !self.open.contains(&tag) || timers.contains(&tag) {
                continue;
            }
            self.open.remove(&tag);
            if parked.contains(&tag) {
                self.parked += 1;
            } else if self.cancelling.contains(&tag) {
                self.cancelled += 1;
            } else {
                self.wrong.push(format!("{tag} was accepted, and is nowhere"));
            }
        }
        self.audits += 1;
        self.pending = timers.len();
        let accounted = self.ran + self.cancelled + self.parked + self.open.len() as u64;
        if accounted != self.accepted {
            self.wrong.push(format!("{accounted} are accounted for"));
        }
        let long_ago = asked.saturating_sub(length(MEMORY));
        self.faults.retain(|fault| fault.at > long_ago);
        self.deaths.retain(|death| death.gone > long_ago);
        let wrong = self.wrong.iter().take(10).cloned().collect::<Vec<_>>().join("; ");
        Ok((!self.wrong.is_empty()).then(|| format!("WRONG: {wrong}; {}", self.line())))
    }

    pub(crate) fn line(&self) -> String {
        format!(
            "{} accepted = {} run + {} pending + {} cancelled + {} parked; {} run again after a \
             fault; {} in the database",
            self.accepted,
            self.ran,
            self.open.len(),
            self.cancelled,
            self.parked,
            self.repeated,
            self.pending
        )
    }

    pub(crate) fn summary(&self) -> String {
        let late = |part: f64| self.late.value_at_quantile(part) as f64 / 1_000.0;
        format!(
            "{}\n{} audits; none lost, none early, none run again but those whose end a dead node \
             had not recorded\n{} more ran whose call had no answer; {} nodes were silent for a \
             lease without being killed or frozen; the machine stood still for {:.0} s\nlate: \
             p50 {:.1} ms, p99 {:.1} ms, at most {:.1} ms",
            self.line(),
            self.audits,
            self.unanswered,
            self.starved,
            self.stood_still.as_secs_f64(),
            late(0.5),
            late(0.99),
            late(1.0)
        )
    }
}
