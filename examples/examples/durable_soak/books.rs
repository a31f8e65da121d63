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

/// How long before a fault a run may have begun whose end the fault kept from being recorded.
const UNRECORDED: Micros = 5_000_000;

fn micros(time: SystemTime) -> Micros {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(Micros::MAX)
}

struct Run {
    life: u64,
    fence: u64,
    at: Micros,
    /// It is not to be repeated.
    last: bool,
}

/// Since when something was wrong, and how long.
struct Fault {
    /// All, if it is `None`.
    life: Option<u64>,
    from: Micros,
    to: Micros,
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
            late: Histogram::new(3).expect("three digits"),
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

    pub(crate) fn killed(&mut self, life: u64, at: SystemTime) {
        let at = micros(at);
        self.faults.push(Fault { life: Some(life), from: at, to: at });
    }

    pub(crate) fn frozen(&mut self, life: u64, from: SystemTime, to: SystemTime) {
        self.faults.push(Fault { life: Some(life), from: micros(from), to: micros(to) });
    }

    pub(crate) fn machine_stood_still(&mut self, from: SystemTime, to: SystemTime) {
        self.stood_still += to.duration_since(from).unwrap_or_default();
        self.faults.push(Fault { life: None, from: micros(from), to: micros(to) });
    }

    /// Accepted timers that have not come to their end.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Whether a fault explains that a run of this life at this time was not recorded, or came
    /// although another node had the timer.
    fn explained(&self, life: u64, at: Micros) -> bool {
        let lease = u64::try_from(LEASE.as_micros()).unwrap_or(0);
        self.faults.iter().any(|fault| {
            fault.life.is_none_or(|faulty| faulty == life)
                && at + UNRECORDED >= fault.from
                && at <= fault.to + 2 * lease
        })
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
                if self.runs.get(&tag).is_none_or(|run| !run.last) {
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
                    last: end == "d",
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
        if self.prevented.get(&tag).is_some_and(|at| *at < run.at)
            && !self.explained(run.life, run.at)
        {
            self.wrong.push(format!("{tag} ran although its cancel had prevented that"));
        }
        let ends = run.last;
        if let Some(before) = self.runs.get(&tag) {
            if before.fence == run.fence {
                self.wrong.push(format!("two runs of {tag} have the fence {}", run.fence));
            }
            // The logs are read one after the other, so the later run may have come first.
            let in_order = before.at <= run.at;
            let first_was_last = if in_order { before.last } else { run.last };
            if first_was_last {
                self.repeated += 1;
                if !self.explained(before.life, before.at) && !self.explained(run.life, run.at) {
                    let (lives, times) = ((before.life, run.life), (before.at, run.at));
                    self.wrong.push(format!("{tag} ran twice, by lives {lives:?} at {times:?}"));
                }
                return;
            }
            if !in_order {
                return;
            }
        }
        self.runs.insert(tag, run);
        if !ends {
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
        let answer = server.ask(
            "SELECT 'all there'
              UNION ALL SELECT 'timer ' || payload FROM lars.timer
              UNION ALL SELECT 'parked ' || payload FROM lars.parked",
        );
        // The nodes may still be making the schema.
        if !answer.lines().any(|line| line == "all there") {
            return Ok(None);
        }
        let (mut timers, mut parked) = (HashSet::new(), HashSet::new());
        for line in answer.lines() {
            match line.split_once(' ') {
                Some(("timer", tag)) => drop(timers.insert(tag.parse::<u64>()?)),
                Some(("parked", tag)) => drop(parked.insert(tag.parse::<u64>()?)),
                _ => {}
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
        self.faults.retain(|fault| fault.to + 120_000_000 > micros(SystemTime::now()));
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
            "{}\n{} audits; none lost, none early, none twice without a fault\n{} more ran whose \
             call had no answer; the machine stood still for {:.0} s\nlate: p50 {:.1} ms, p99 \
             {:.1} ms, at most {:.1} ms",
            self.line(),
            self.audits,
            self.unanswered,
            self.stood_still.as_secs_f64(),
            late(0.5),
            late(0.99),
            late(1.0)
        )
    }
}
