//! What there is to see.
//!
//! - A group with its nodes and handlers: [`Durable::inspect`](crate::Durable::inspect), and from
//!   outside, without being a node, [`Builder::observe`](crate::Builder::observe).
//! - One timer: [`Timers::get`](crate::Timers::get), from outside `Observer::get`.
//! - Runs that are over, if they are [remembered](crate::Builder::history):
//!   [`Timers::runs`](crate::Timers::runs).
//! - Timers that were given up: one by [`Timers::get_parked`](crate::Timers::get_parked), all by
//!   [`Timers::list`](crate::Timers::list), and as it happens by
//!   [`Builder::on_parked`](crate::Builder::on_parked).

mod runs;
mod timers;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

pub use self::runs::{RunInfo, RunsPage, RunsQuery};
pub use self::timers::{Parked, ParkedRun, TimerInfo};
pub use crate::model::RunOutcome;
use crate::model::{Counted, Look, LookedHandler, LookedNode};
use crate::runtime::Report;
use crate::sync::Arc;
use crate::time::Timestamp;

/// A group, as seen by [`Durable::inspect`](super::Durable::inspect).
///
/// Its parts are not of the same instant. Counting is bounded: it covers the 50,000 timers that are
/// due first (on PostgreSQL 781 in each of the 64 buckets), and 50,000 parked ones. If there are
/// more, all counts are marked as [at least](Count::at_least). However often it is asked for, so
/// many are counted once in ten seconds. In between, an inspection counts the first 2,048 of each
/// kind (on PostgreSQL 32 in each bucket): if those are all, its counts are new, else
/// [as old](Self::counted_ago) as the last ones. What nodes report of themselves is as old as their
/// last renewal: up to a third of the lease.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Inspection {
    /// What the store's clock showed.
    pub clock: SystemTime,
    /// The nodes, oldest first; at most 1,000. For an SQLite file, only this one.
    pub nodes: Vec<NodeInspection>,
    /// How many buckets the group has. Zero before the first node of the group has joined.
    pub buckets: usize,
    /// How many of them have no owner, or one that is gone. Their timers wait.
    pub free_buckets: usize,
    /// The handlers that nodes have, and those of the timers that were counted, by name.
    pub handlers: Vec<HandlerInspection>,
    /// How old the counts are by that clock: less than ten seconds, and zero where timers are few.
    pub counted_ago: Duration,
    /// Counting was given up after a second, because there are too many dead rows. The counts are
    /// zero. See [`DatabaseInspection::oldest_snapshot`] for what keeps them.
    pub counts_took_too_long: bool,
    /// On PostgreSQL.
    pub database: Option<DatabaseInspection>,
}

/// A node of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInspection {
    /// Its identity for this life: 32 hexadecimal digits.
    pub id: String,
    /// Its [name](super::Builder::name).
    pub name: String,
    /// Whether it has handlers.
    pub serves: bool,
    /// When it joined.
    pub joined: SystemTime,
    /// How long ago it renewed its lease, by the store's clock.
    pub renewed_ago: Duration,
    /// What is left of its lease by that clock. Zero means that it is late, and that another node
    /// may soon take its buckets. (Who owns a bucket is not decided by this clock.)
    pub lease_left: Duration,
    /// How many buckets it owns.
    pub buckets: usize,
    /// How many timers it has in memory.
    pub resident: usize,
    /// How many of its runs have started and not ended.
    pub in_flight: usize,
    /// How many parked timers it has deleted since it joined, because they
    /// [need not be kept](super::Builder::max_parked).
    pub pruned: u64,
}

/// A handler, and its timers in the whole group.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HandlerInspection {
    /// Its name.
    pub name: String,
    /// Whether it is [paused](super::Timers::pause).
    pub paused: bool,
    /// How many nodes have it. Timers of a handler that no node has are put off, and parked after
    /// fourteen days.
    pub nodes: usize,
    /// Timers that have not started.
    pub pending: Count,
    /// Of those, the ones that are due.
    pub overdue: Count,
    /// Of the pending ones, those that have been tried before.
    pub retrying: Count,
    /// Timers that are recorded as started, and not as ended.
    pub running: Count,
    /// Timers that were given up.
    pub parked: Count,
    /// When the first pending one may run.
    pub next_due: Option<SystemTime>,
    /// How long ago the first pending one might have run, if that has passed.
    pub oldest_overdue: Option<Duration>,
    /// Runs that the live nodes have recorded as started since they joined. Two inspections give a
    /// rate. (A node that leaves takes its part with it.)
    pub started: u64,
    /// Of those, how many ended well.
    pub done: u64,
    /// How many failed, and were or will be repeated.
    pub retried: u64,
    /// How many timers these nodes have parked.
    pub given_up: u64,
    /// What its timers wait for that are due, on all nodes.
    pub waiting: Waiting,
    /// How late its runs began, in the last half to whole minute, on the node where they were the
    /// latest. `None` if none ran.
    pub lateness: Option<Percentiles>,
}

/// What the timers of a handler wait for. Another handler cannot be the reason for long: each has
/// places, a thread and memory that no other gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Waiting {
    /// In memory, and due: the handler is [paused](super::Timers::pause), or has as many runs as
    /// its [concurrency](super::Handler::concurrency) or its part of
    /// [`max_in_flight`](super::Builder::max_in_flight) allows.
    pub for_a_place: u64,
    /// Recorded as started: the handler's [threads](super::Builder::threads) are all busy with its
    /// other runs.
    pub for_a_thread: u64,
    /// A node has as many of its timers in memory as it
    /// [may](super::Builder::max_resident), and left more of them in the store.
    pub for_memory: bool,
}

/// A count that is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Count {
    /// How many were counted.
    pub value: u64,
    /// There may be more: the count ended before all were seen.
    pub at_least: bool,
}

/// How late runs began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Percentiles {
    /// Half of the runs were not later.
    pub p50: Duration,
    /// 99 of 100 runs were not later.
    pub p99: Duration,
    /// The latest run.
    pub max: Duration,
}

/// What the server reports about the table of timers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseInspection {
    /// Rows, of all groups, as the server last estimated them.
    pub rows: u64,
    /// Dead rows that have not been removed yet.
    pub dead_rows: u64,
    /// When they were last removed.
    pub vacuumed: Option<SystemTime>,
    /// The transaction that keeps dead rows from being removed. A role sees those of other roles
    /// only with `pg_read_all_stats`.
    pub oldest_snapshot: Option<OldestSnapshot>,
}

/// A transaction that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestSnapshot {
    /// The server's process: `SELECT pg_terminate_backend(pid)` ends it.
    pub pid: i32,
    /// Since when.
    pub age: Duration,
    /// `idle in transaction` means that its client does nothing with it.
    pub state: String,
    /// The client's `application_name`.
    pub application: String,
}

impl Inspection {
    /// The handler of this name.
    pub fn handler(&self, name: &str) -> Option<&HandlerInspection> {
        self.handlers.iter().find(|handler| handler.name == name)
    }

    pub(in crate::api) fn of(look: Look) -> Self {
        let now = look.clock;
        let reports: Vec<Report> = look.nodes.iter().map(report).collect();
        let nodes: Vec<NodeInspection> = (look.nodes.iter().zip(&reports))
            .map(|(node, report)| {
                let owned = look.buckets.iter().filter(|(_, owner, _)| *owner == Some(node.id));
                let lease = Duration::from_micros(u64::try_from(report.lease).unwrap_or(0));
                let renewed_ago = now.since(node.renewed);
                NodeInspection {
                    id: format!("{:032x}", node.id),
                    name: report.name.clone(),
                    serves: node.serves,
                    joined: system(node.joined),
                    renewed_ago,
                    lease_left: lease.saturating_sub(renewed_ago),
                    buckets: owned.count(),
                    resident: report.resident,
                    in_flight: report.in_flight,
                    pruned: report.pruned,
                }
            })
            .collect();
        let owned: usize = nodes.iter().map(|node| node.buckets).sum();
        Self {
            clock: system(now),
            buckets: look.buckets.len(),
            free_buckets: look.buckets.len() - owned,
            handlers: handlers(&look, &reports),
            counted_ago: now.since(look.counted),
            counts_took_too_long: look.timers.is_none() || look.parked.is_none(),
            database: look.database.map(|database| DatabaseInspection {
                rows: database.rows,
                dead_rows: database.dead_rows,
                vacuumed: database.vacuumed.and_then(Timestamp::to_system),
                oldest_snapshot: database.oldest.map(|oldest| OldestSnapshot {
                    pid: oldest.pid,
                    age: Duration::from_micros(u64::try_from(oldest.micros).unwrap_or(0)),
                    state: oldest.state,
                    application: oldest.application,
                }),
            }),
            nodes,
        }
    }
}

fn handlers(look: &Look, reports: &[Report]) -> Vec<HandlerInspection> {
    let mut handlers: BTreeMap<String, HandlerInspection> = BTreeMap::new();
    for report in reports.iter().flat_map(|report| &report.handlers) {
        let handler = entry(&mut handlers, &report.name);
        handler.nodes += 1;
        handler.started += report.started;
        handler.done += report.done;
        handler.retried += report.retried;
        handler.given_up += report.parked;
        handler.waiting.for_a_place += report.ready as u64;
        handler.waiting.for_a_thread += report.unthreaded as u64;
        handler.waiting.for_memory |= report.leaves;
        let late = report.late.map(|(p50, p99, max)| Percentiles {
            p50: Duration::from_micros(p50),
            p99: Duration::from_micros(p99),
            max: Duration::from_micros(max),
        });
        handler.lateness = match (handler.lateness, late) {
            (Some(one), Some(other)) if other.p99 <= one.p99 => Some(one),
            (one, other) => other.or(one),
        };
    }
    for handler in &look.paused {
        entry(&mut handlers, handler).paused = true;
    }
    let more = |counted: Option<bool>| counted.unwrap_or(true);
    let more_timers = more(look.timers.as_ref().map(|timers| timers.more));
    let more_parked = more(look.parked.as_ref().map(|parked| parked.more));
    for (name, counted) in by_handler(look.timers.as_ref()) {
        let LookedHandler { pending, overdue, retrying, running, next } = *counted;
        let handler = entry(&mut handlers, name);
        handler.pending.value = pending;
        handler.overdue.value = overdue;
        handler.retrying.value = retrying;
        handler.running.value = running;
        handler.next_due = next.and_then(Timestamp::to_system);
        handler.oldest_overdue =
            next.filter(|next| *next <= look.clock).map(|next| look.clock.since(next));
    }
    for (name, count) in by_handler(look.parked.as_ref()) {
        entry(&mut handlers, name).parked.value = *count;
    }
    for handler in handlers.values_mut() {
        let counts = [&mut handler.pending, &mut handler.retrying, &mut handler.running];
        counts.into_iter().for_each(|count| count.at_least = more_timers);
        handler.overdue.at_least = more_timers;
        handler.parked.at_least = more_parked;
    }
    handlers.into_values().collect()
}

fn by_handler<T>(counted: Option<&Counted<T>>) -> &[(Arc<str>, T)] {
    counted.map_or(&[], |counted| &counted.by_handler)
}

fn entry<'a>(
    handlers: &'a mut BTreeMap<String, HandlerInspection>,
    name: &str,
) -> &'a mut HandlerInspection {
    handlers.entry(name.to_owned()).or_insert_with(|| HandlerInspection {
        name: name.to_owned(),
        paused: false,
        nodes: 0,
        pending: Count::default(),
        overdue: Count::default(),
        retrying: Count::default(),
        running: Count::default(),
        parked: Count::default(),
        next_due: None,
        oldest_overdue: None,
        started: 0,
        done: 0,
        retried: 0,
        given_up: 0,
        waiting: Waiting::default(),
        lateness: None,
    })
}

/// What a node reports of itself; the default if it has not reported yet, or in another format.
fn report(node: &LookedNode) -> Report {
    let report = node.report.as_deref().and_then(|json| serde_json::from_str(json).ok());
    report.unwrap_or_default()
}

fn system(time: Timestamp) -> SystemTime {
    time.to_system().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// `17`, or `at least 50000`.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at_least {
            true => write!(f, "at least {}", self.value),
            false => write!(f, "{}", self.value),
        }
    }
}
