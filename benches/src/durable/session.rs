//! One run of a bench: the options, what was found, and the peers.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::{Duration, SystemTime};

use lars_durable::{Builder, Durable};

use super::jobs::{Seen, late, receive, settle, steady};
use super::peers::{Fresh, Peers};
use super::report::median;
use super::{AnyError, Options, Rate, Report, plots, rates};

/// What is measured, for the tables.
const SINGLE: &str = "schedule one by one, 8 callers that wait, against 8 in a transaction";
const PIPELINED: &str =
    "schedule pipelined, 8 callers, 1,000 calls under way, against 1,000 in a transaction";
const BATCHES: &str = "schedule in batches of 1,000";
/// What is measured, for the tables.
pub const RUN_AND_FINISH: &str = "run and finish, all due at once";

/// How many a second: ours, and the bare loop.
pub type Measured = (f64, f64);

/// One run of a bench.
pub struct Session<'a> {
    options: &'a Options,
    /// What was found, by this run and by those before it.
    pub report: Report,
    peers: Option<Peers<'a>>,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("options", self.options).finish_non_exhaustive()
    }
}

impl<'a> Session<'a> {
    /// Prints the tables of a file and draws its plots, if that is what the options ask for.
    pub fn shows(options: &Options, store: &str) -> Result<bool, AnyError> {
        let Some(file) = &options.table else { return Ok(false) };
        let report = Report::read(file)?;
        report.print();
        if let Some(directory) = &options.plot {
            plots::draw(&report, store, directory)?;
        }
        Ok(true)
    }

    /// `store` is what the peers call it. `fresh` makes a database for one of them, and returns its
    /// address.
    pub fn new(
        options: &'a Options,
        store: &str,
        fresh: impl Fn() -> Result<String, AnyError> + 'a,
    ) -> Result<Self, AnyError> {
        let report = match &options.out {
            Some(file) => Report::read(file)?,
            None => Report::default(),
        };
        let fresh: Fresh<'a> = Box::new(fresh);
        let peers = options.peers.clone();
        let peers = peers.map(|program| Peers::new(program, store, fresh)).transpose()?;
        Ok(Self { options, report, peers })
    }

    /// Measures ours and the bare loop, and then each peer. They take turns, so that a machine that
    /// is busy with other things disturbs all of them; the median of the rounds counts.
    ///
    /// `peers` is what they call it, and how much of it each is to do, if they do it at all.
    pub fn rounds(
        &mut self,
        what: &str,
        peers: Option<(&str, u64)>,
        mut measure: impl FnMut() -> Result<Measured, AnyError>,
    ) -> Result<(), AnyError> {
        let (mut rounds, mut others) = (Vec::new(), BTreeMap::<String, Vec<f64>>::new());
        for _ in 0..self.options.rounds() {
            rounds.push(measure()?);
            let (Some(all), Some((name, count))) = (&self.peers, peers) else { continue };
            for peer in &all.names {
                match all.rate(peer, name, count) {
                    Ok(rate) => others.entry(peer.clone()).or_default().push(rate),
                    // It may be that it cannot do it; the others can.
                    Err(error) => eprintln!("{peer}: {error}"),
                }
            }
        }
        self.report.rates.insert(what.to_owned(), Rate::of(&rounds));
        if !others.is_empty() {
            let others = others.into_iter().map(|(peer, rates)| (peer, median(rates))).collect();
            self.report.peers.insert(what.to_owned(), others);
        }
        Ok(())
    }

    /// One of the rates at which timers are scheduled: single, pipelined or batches. `ours` makes a
    /// node with an empty store. `bare` inserts rows in transactions of a given size, and says
    /// how many a second.
    pub fn scheduling(
        &mut self,
        what: &str,
        ours: impl Fn() -> Result<Builder, AnyError>,
        bare: impl Fn(u64, u64) -> Result<f64, AnyError>,
    ) -> Result<(), AnyError> {
        let scale = self.options.scale();
        let (single, many) = (10_000 / scale, 100_000 / scale);
        match what {
            "single" => self.rounds(SINGLE, Some(("single", single)), || {
                Ok((rates::single(ours()?, single)?, bare(single, 8)?))
            }),
            "pipelined" => self.rounds(PIPELINED, None, || {
                Ok((rates::pipelined(ours()?, many)?, bare(many, 1_000)?))
            }),
            _ => self.rounds(BATCHES, Some(("batches", many)), || {
                Ok((rates::batches(ours()?, many)?, bare(many, 1_000)?))
            }),
        }
    }

    /// How late runs are at a steady rate, beside those that are pending: ours, and those of other
    /// crates. `node` starts one that has that many pending, and is warm.
    pub fn steady(
        &mut self,
        pending: u64,
        node: impl Fn() -> Result<(Durable, Receiver<Seen>), AnyError>,
    ) -> Result<(), AnyError> {
        let seconds = if self.options.quick { 1 } else { 10 };
        for each_second in [100, 1_000] {
            let (durable, receiver) = node()?;
            let first = SystemTime::now() + Duration::from_secs(1);
            steady(&durable.timers(), first, each_second, seconds)?;
            let ours = late(receive(&receiver, each_second * seconds));
            self.report.late.insert(format!("lars-durable, {each_second}/s"), ours);
            settle(&durable);
            durable.close()?;
            let Some(others) = &self.peers else { continue };
            for peer in &others.names {
                match others.lateness(peer, each_second, seconds, pending) {
                    Ok(late) => {
                        self.report.late.insert(format!("{peer}, {each_second}/s"), late);
                    }
                    Err(error) => eprintln!("{peer}: {error}"),
                }
            }
        }
        Ok(())
    }

    /// Adds what was found so far to the file, if there is one.
    pub fn save(&self) -> Result<(), AnyError> {
        self.options.out.as_ref().map_or(Ok(()), |file| self.report.write(file))
    }
}
