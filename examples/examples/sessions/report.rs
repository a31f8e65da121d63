//! The tables at the end, and the account: what has to add up, and whether it does.

use std::time::Duration;

use lars_scheduler::Metrics;
use mini_actor::CloseReport;
use mini_actor::metrics::SystemMetrics;

use crate::clients::{End, Observations};
use crate::counts::Counts;
use crate::machine;
use crate::options::Options;

/// Failures of clients beyond these are only counted.
const FAILURES_SHOWN: usize = 5;

/// All that is known of a run.
pub struct Run<'a> {
    pub options: &'a Options,
    pub counts: &'a Counts,
    pub observed: &'a Observations,
    pub took: Duration,
}

/// How the clients' connections ended.
#[derive(Debug, Default)]
struct Ends<'a> {
    hung_up: u64,
    /// Silent ones that were timed out.
    silent: u64,
    /// Active ones that were timed out although the server must have heard them in time.
    wrongly: u64,
    /// Active ones that were timed out because the machine stood still.
    stalled: u64,
    /// Timed out, silent or not, sooner than the idle timeout after the server last heard them.
    early: u64,
    failed: Vec<&'a str>,
    /// For how long the silent ones had been silent.
    silences: Vec<Duration>,
}

impl Run<'_> {
    fn ends(&self) -> Ends<'_> {
        let mut ends = Ends::default();
        for client in &self.observed.clients {
            match &client.end {
                End::HungUp => ends.hung_up += 1,
                End::TimedOut { silent, unheard } => {
                    let early = *unheard < self.options.idle_timeout;
                    ends.early += u64::from(early);
                    match (silent, early) {
                        (true, _) => {
                            ends.silent += 1;
                            ends.silences.push(*unheard);
                        }
                        (false, true) => ends.wrongly += 1,
                        (false, false) => ends.stalled += 1,
                    }
                }
                End::Failed(why) => ends.failed.push(why),
            }
        }
        ends.silences.sort_unstable();
        ends
    }

    /// What all clients together have seen of something.
    fn total(&self, of: impl Fn(&crate::clients::Observed) -> u64) -> u64 {
        self.observed.clients.iter().map(of).sum()
    }

    /// Prints what happened.
    pub fn print(&self, timers: &Metrics) {
        let ends = self.ends();
        let Counts { opened, closed_by_client, timed_out, requests, heartbeats, armed, .. } =
            self.counts;

        println!("\nTimers");
        row("scheduled", grouped(timers.scheduled));
        row("cancelled", grouped(timers.cancelled));
        row("fired", grouped(timers.fired));
        row("handed back", grouped(timers.handed_back));
        row("pending", {
            // Of the sessions all are over.
            format!("{:<12} it prints the next progress line", grouped(timers.pending))
        });
        row("lateness", {
            let late = &timers.lateness;
            let nanos = |late: Duration| late.as_nanos() as u64;
            three(nanos(late.quantile(0.5)), nanos(late.quantile(0.99)), nanos(late.max))
        });
        row("wake-ups", grouped(timers.wake_ups));

        println!("Sessions");
        row("opened", grouped(opened.get()));
        row("closed by client", grouped(closed_by_client.get()));
        row("timed out", {
            let expected = grouped(self.options.silent() as u64);
            format!("{:<12} {expected} expected", grouped(timed_out.get()))
        });
        if let [first, .., last] = &*ends.silences {
            row("after silence of", {
                let median = ends.silences[ends.silences.len() / 2];
                format!("min {}   p50 {}   max {}", millis(*first), millis(median), millis(*last))
            });
        }

        println!("Traffic");
        row("requests", grouped(requests.get()));
        row("answered within", {
            let times = &self.observed.answer_times;
            three(times.value_at_quantile(0.5), times.value_at_quantile(0.99), times.max())
        });
        row("heartbeats", grouped(heartbeats.get()));
        row("idle timeouts set", grouped(armed.get()));
        let gap = self.observed.clients.iter().map(|it| it.longest_gap).max();
        row("longest gap", {
            let gap = gap.unwrap_or_default();
            let latest = self.observed.latest_send;
            format!("{gap:<12.1?} between two requests; sent at most {latest:.1?} late")
        });

        if let Some(cpu) = machine::cpu_time() {
            println!("Processor, server and clients together");
            row("time", {
                let (user, system, took) = (cpu.user, cpu.system, self.took);
                let share = (user + system).as_secs_f64() / took.as_secs_f64();
                format!(
                    "{user:.2?} user, {system:.2?} system, in {took:.2?}: {:.0} % of one core",
                    100.0 * share
                )
            });
        }
        println!();
    }

    /// Prints what has to add up after the close, and says whether all of it does.
    pub fn account(&self, timers: &Metrics, closed: &CloseReport, system: &SystemMetrics) -> bool {
        let ends = self.ends();
        let counts = self.counts;
        let clients = self.options.connections as u64;
        let silent = self.options.silent() as u64;
        let timed_out = counts.timed_out.get();
        let mut account = Account::default();

        println!("Account");
        account.sum(
            "timers scheduled",
            timers.scheduled,
            &[
                ("fired", timers.fired),
                ("cancelled", timers.cancelled),
                ("handed back", timers.handed_back),
            ],
        );
        account.none("timers pending", timers.pending);
        account.sum(
            "idle timeouts set",
            counts.armed.get(),
            &[("sessions opened", counts.opened.get()), ("requests", counts.requests.get())],
        );
        account.none("timers fired early", counts.early.get() + ends.early);

        account.same("sessions opened", counts.opened.get(), "clients", clients);
        account.sum(
            "sessions opened",
            counts.opened.get(),
            &[
                ("closed by client", counts.closed_by_client.get()),
                ("timed out", timed_out),
                ("cut off", counts.cut_off.get()),
            ],
        );
        account.same("silent clients timed out", ends.silent, "expected", silent);
        account.none("active clients timed out", ends.wrongly);
        account.sum(
            "sessions timed out",
            timed_out,
            &[
                ("silent clients", ends.silent),
                ("active clients", ends.wrongly),
                ("while the machine stood still", ends.stalled),
            ],
        );
        account.same(
            "clients that hung up",
            ends.hung_up,
            "sessions closed by client",
            counts.closed_by_client.get(),
        );
        account.none("clients that failed", ends.failed.len() as u64);

        let answers = self.total(|it| it.answers);
        let requests = self.total(|it| it.requests);
        let heartbeats = self.total(|it| it.heartbeats);
        if ends.stalled == 0 {
            account.same("answers received", answers, "requests sent", requests);
            account.same("answers received", answers, "answers sent", counts.requests.get());
            account.same("heartbeats received", heartbeats, "sent", counts.heartbeats.get());
        } else {
            // Clients that were timed out because of a stall had requests under way, and reading
            // them would have been too late.
            account.at_most("answers received", answers, "requests sent", requests);
            account.at_most("answers received", answers, "answers sent", counts.requests.get());
            account.at_most("heartbeats received", heartbeats, "sent", counts.heartbeats.get());
        }
        account.none("messages undelivered", closed.undelivered);
        account.none("timers refused", timers.refused);
        account.none("panics", timers.panicked + system.panicked);
        account.none("actors alive", system.alive as u64);

        for why in ends.failed.iter().take(FAILURES_SHOWN) {
            println!("         a client {why}");
        }
        if ends.failed.len() > FAILURES_SHOWN {
            println!("         and {} more", ends.failed.len() - FAILURES_SHOWN);
        }
        if ends.stalled > 0 {
            println!(
                "\n{} active clients were timed out because the machine stood still: nothing \
                 of theirs was heard for the whole idle timeout.",
                ends.stalled
            );
        }
        if account.wrong > 0 {
            println!("\n{} of the above do not add up.", account.wrong);
        } else {
            println!("\nEverything adds up.");
        }
        account.wrong == 0
    }
}

/// Prints equations, and counts those that do not hold.
#[derive(Debug, Default)]
struct Account {
    wrong: usize,
}

impl Account {
    fn line(&mut self, holds: bool, text: &str) {
        println!("  {} {text}", if holds { "ok    " } else { "WRONG " });
        self.wrong += usize::from(!holds);
    }

    fn same(&mut self, what: &str, actual: u64, other: &str, expected: u64) {
        let holds = actual == expected;
        let sign = if holds { "=" } else { "≠" };
        let (actual, expected) = (grouped(actual), grouped(expected));
        self.line(holds, &format!("{what}: {actual} {sign} {other}: {expected}"));
    }

    fn none(&mut self, what: &str, actual: u64) {
        self.line(actual == 0, &format!("{what}: {}", grouped(actual)));
    }

    fn at_most(&mut self, what: &str, actual: u64, other: &str, limit: u64) {
        let holds = actual <= limit;
        let sign = if holds { "≤" } else { ">" };
        let (actual, limit) = (grouped(actual), grouped(limit));
        self.line(holds, &format!("{what}: {actual} {sign} {other}: {limit}"));
    }

    fn sum(&mut self, what: &str, total: u64, parts: &[(&str, u64)]) {
        let sum: u64 = parts.iter().map(|(_, part)| part).sum();
        let parts: Vec<_> =
            parts.iter().map(|(name, part)| format!("{} {name}", grouped(*part))).collect();
        let sign = if total == sum { "=" } else { "≠" };
        let total_text = grouped(total);
        self.line(total == sum, &format!("{what}: {total_text} {sign} {}", parts.join(" + ")));
    }
}

fn row(name: &str, value: String) {
    println!("  {name:<18} {value}");
}

/// To a tenth of a millisecond, also where that is more than a second.
fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn three(median: u64, p99: u64, max: u64) -> String {
    let time = |nanos: u64| Duration::from_nanos(nanos);
    format!("p50 {:.2?}   p99 {:.2?}   max {:.2?}", time(median), time(p99), time(max))
}

/// A number with commas.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
