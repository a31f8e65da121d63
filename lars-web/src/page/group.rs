//! A group of durable timers: handlers, nodes, buckets, the database; what happened lately, and why
//! runs began late.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use form_urlencoded::Serializer;
use lars_durable::inspection::{HandlerInspection, Inspection, NodeInspection};
use lars_top::snapshot::{Late, Snapshot};
use lars_top::text::{grouped, short};
use lars_top::trend::Trend;
use maud::{Markup, html};

use super::{late, trouble};
use crate::html::{BACK, Line, cell, chart, count, moment, name, span, table, tile};
use crate::source::Trouble;
use crate::sync::now;

/// A rate is that of so long: nodes report what they have started every few seconds.
const WINDOW: Duration = Duration::from_secs(10);
const KEPT: Duration = Duration::from_secs(BACK as u64);

/// What is shown of a group.
pub(crate) struct Seen {
    pub(crate) page: Markup,
    /// The names of its handlers.
    pub(crate) handlers: Vec<String>,
}

/// Makes a page of each look.
pub(crate) struct View {
    /// By which a form is known to come from a page; `None` if nothing may be changed.
    actions: Option<String>,
    last: Option<Inspection>,
    history: VecDeque<Sample>,
    born: Instant,
    /// Of late runs alone.
    late: Trend,
}

/// A look, as far as the next ones need it.
struct Sample {
    at: Instant,
    /// By handler.
    started: HashMap<String, u64>,
    /// How many runs a second there were.
    rate: f64,
    /// The latest handler's, in nanoseconds.
    late: Option<(f64, f64)>,
}

impl View {
    pub(crate) fn new(actions: Option<String>) -> Self {
        let (history, late) = (VecDeque::new(), Trend::default());
        Self { actions, last: None, history, born: now(), late }
    }

    /// Before the first look.
    pub(crate) fn nothing() -> Seen {
        Seen { page: html! { p.faint { "Looking …" } }, handlers: Vec::new() }
    }

    pub(crate) fn take(
        &mut self,
        looked: Result<Inspection, Trouble>,
        late_runs: Option<Late>,
    ) -> Seen {
        let taken = u64::try_from(self.born.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.late.add(Box::new(Snapshot { taken, late_runs, ..Snapshot::default() }));
        let why = match looked {
            Ok(inspection) => {
                self.remember(&inspection);
                self.last = Some(inspection);
                None
            }
            Err(why) => Some(why.to_string()),
        };
        let last = self.last.as_ref();
        Seen {
            page: html! {
                (trouble(why.as_deref(), last.is_some()))
                @if let Some(seen) = last { (self.body(seen)) }
            },
            handlers: last.map(names).unwrap_or_default(),
        }
    }

    fn remember(&mut self, seen: &Inspection) {
        let at = now();
        while self.history.front().is_some_and(|first| at.duration_since(first.at) > KEPT) {
            self.history.pop_front();
        }
        let latest = seen.handlers.iter().filter_map(|it| it.lateness);
        let latest = latest.max_by_key(|late| late.p99);
        let nanos = |time: Duration| time.as_nanos() as f64;
        let started = seen.handlers.iter().map(|it| (it.name.clone(), it.started)).collect();
        self.history.push_back(Sample {
            at,
            started,
            rate: 0.0,
            late: latest.map(|late| (nanos(late.p50), nanos(late.p99))),
        });
        let rate = seen.handlers.iter().map(|it| self.rate(&it.name)).sum();
        if let Some(last) = self.history.back_mut() {
            last.rate = rate;
        }
    }

    /// Runs of a handler that were started a second, lately.
    fn rate(&self, handler: &str) -> f64 {
        let Some(last) = self.history.back() else { return 0.0 };
        let within = |it: &&Sample| last.at.duration_since(it.at) <= WINDOW;
        let earlier = self.history.len() - 1;
        let first = self.history.iter().take(earlier).find(within);
        let Some(first) = first.or_else(|| self.history.get(earlier.checked_sub(1)?)) else {
            return 0.0;
        };
        let of = |sample: &Sample| sample.started.get(handler).copied();
        let (Some(before), Some(after)) = (of(first), of(last)) else { return 0.0 };
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        if seconds > 0.0 { after.saturating_sub(before) as f64 / seconds } else { 0.0 }
    }

    fn body(&self, seen: &Inspection) -> Markup {
        html! {
            (tiles(seen, self.history.back().map_or(0.0, |it| it.rate)))
            @if seen.counts_took_too_long {
                p.trouble { "Counting took too long, because there are too many dead rows." }
            } @else if !seen.counted_ago.is_zero() {
                p.faint { "Timers were counted " (span(seen.counted_ago)) " ago." }
            }
            (self.charts())
            (self.handlers(seen))
            (self.late())
            (nodes(seen))
            (buckets(seen))
            (database(seen))
        }
    }

    fn charts(&self) -> Markup {
        let last = now();
        let ago = |sample: &Sample| last.duration_since(sample.at).as_secs_f64();
        let rates = self.history.iter().map(|it| (ago(it), it.rate)).collect();
        let late = |of: fn((f64, f64)) -> f64| -> Vec<(f64, f64)> {
            self.history.iter().filter_map(|it| Some((ago(it), of(it.late?)))).collect()
        };
        let nanos = |value: f64| span(Duration::from_nanos(value as u64));
        let lines = [
            Line { label: "p50", class: "one", points: late(|it| it.0) },
            Line { label: "p99", class: "two", points: late(|it| it.1) },
        ];
        html! {
            div.charts {
                (chart("Runs/s", &[Line { label: "", class: "one", points: rates }], short))
                (chart("Lateness of the latest handler", &lines, nanos))
            }
        }
    }

    /// Why runs of the node began late, if it explains that.
    fn late(&self) -> Markup {
        let seen = self.late.last().and_then(|it| it.late_runs.as_ref());
        let Some(all) = seen else { return html! {} };
        late::tables(all, self.late.late_runs(), &self.late, &late::RUNS)
    }

    fn handlers(&self, seen: &Inspection) -> Markup {
        let mut titles = vec![
            "Handler",
            "Waiting",
            "Due",
            "Running",
            "Retrying",
            "Parked",
            "Runs/s",
            "Late, p50",
            "p99",
            "Next due",
            "Nodes",
        ];
        if self.actions.is_some() {
            titles.push("");
        }
        let rows: Vec<_> = seen.handlers.iter().map(|it| self.handler(it, seen.clock)).collect();
        table("Handlers", &titles, &rows, "There are neither handlers nor timers.")
    }

    fn handler(&self, of: &HandlerInspection, clock: SystemTime) -> Markup {
        let link = |state: &str, text: String| {
            let query = Serializer::new(String::new())
                .extend_pairs([("handler", &*of.name), ("state", state)])
                .finish();
            html! { a href=(format!("timers?{query}")) { (text) } }
        };
        let late = |late: Option<Duration>| late.map_or("–".to_owned(), span);
        let next = match (of.oldest_overdue, of.next_due) {
            (Some(overdue), _) => html! { "since " (span(overdue)) },
            (None, Some(due)) => moment(due, clock),
            (None, None) => html! { "–" },
        };
        html! {
            tr.wrong[of.nodes == 0 || of.parked.value > 0] {
                th scope="row" {
                    (name(&of.name))
                    @if of.paused { " " span.badge { "paused" } }
                    @if of.nodes == 0 { " " span.badge { "no node has it" } }
                    @if of.waiting.for_memory { " " span.badge { "memory is full" } }
                }
                (cell("Waiting", link("any", count(of.pending))))
                (cell("Due", link("due", count(of.overdue))))
                (cell("Running", link("running", count(of.running))))
                (cell("Retrying", link("retrying", count(of.retrying))))
                (cell("Parked", link("parked", count(of.parked))))
                (cell("Runs/s", short(self.rate(&of.name))))
                (cell("Late, p50", late(of.lateness.map(|it| it.p50))))
                (cell("p99", late(of.lateness.map(|it| it.p99))))
                (cell("Next due", next))
                (cell("Nodes", of.nodes))
                @if let Some(csrf) = &self.actions { td { (pause(of, csrf)) } }
            }
        }
    }
}

fn pause(handler: &HandlerInspection, csrf: &str) -> Markup {
    let (act, text) = if handler.paused { ("resume", "Resume") } else { ("pause", "Pause") };
    html! {
        form method="post" action="act" {
            input type="hidden" name="csrf" value=(csrf);
            input type="hidden" name="handler" value=(handler.name);
            button name="do" value=(act) aria-label=(format!("{text} {}", name(&handler.name))) {
                (text)
            }
        }
    }
}

fn names(seen: &Inspection) -> Vec<String> {
    seen.handlers.iter().map(|it| it.name.clone()).collect()
}

fn tiles(seen: &Inspection, rate: f64) -> Markup {
    let sum = |of: fn(&HandlerInspection) -> lars_durable::inspection::Count| {
        let all = seen.handlers.iter().map(of);
        let mut sum = lars_durable::inspection::Count::default();
        for one in all {
            sum.value += one.value;
            sum.at_least |= one.at_least;
        }
        sum
    };
    let bad = |wrong: bool| if wrong { "bad" } else { "" };
    let (overdue, parked) = (sum(|it| it.overdue), sum(|it| it.parked));
    html! {
        div.tiles {
            (tile("runs/s", &short(rate), ""))
            (tile("waiting", &count(sum(|it| it.pending)), ""))
            (tile("of them due", &count(overdue), ""))
            (tile("running", &count(sum(|it| it.running)), ""))
            (tile("retrying", &count(sum(|it| it.retrying)), ""))
            (tile("parked", &count(parked), bad(parked.value > 0)))
            (tile("nodes", &grouped(seen.nodes.len() as u64), bad(seen.nodes.is_empty())))
            (tile("buckets without a node", &grouped(seen.free_buckets as u64),
                bad(seen.free_buckets > 0)))
        }
    }
}

fn nodes(seen: &Inspection) -> Markup {
    let titles =
        ["Node", "Lease left", "Renewed", "Buckets", "In memory", "Running", "Joined", "Identity"];
    let row = |node: &NodeInspection| {
        let late = node.lease_left.is_zero();
        let left = if late { "late".to_owned() } else { span(node.lease_left) };
        html! {
            tr.wrong[late] {
                th scope="row" {
                    (name(&node.name))
                    @if !node.serves { " " span.badge { "without handlers" } }
                    @if node.pruned > 0 {
                        " " span.badge { "deleted " (grouped(node.pruned)) " parked" }
                    }
                }
                (cell("Lease left", left))
                (cell("Renewed", format!("{} ago", span(node.renewed_ago))))
                (cell("Buckets", node.buckets))
                (cell("In memory", grouped(node.resident as u64)))
                (cell("Running", grouped(node.in_flight as u64)))
                (cell("Joined", moment(node.joined, seen.clock)))
                (cell("Identity", html! { code { (&node.id[..node.id.len().min(8)]) } }))
            }
        }
    };
    let rows: Vec<_> = seen.nodes.iter().map(row).collect();
    table("Nodes", &titles, &rows, "No node is there: timers wait.")
}

/// Who owns how many buckets, as a bar.
fn buckets(seen: &Inspection) -> Markup {
    let owned = seen.nodes.iter().filter(|node| node.buckets > 0);
    let mut from = 0;
    let parts: Vec<_> = owned
        .map(|node| {
            from += node.buckets;
            (from - node.buckets, node.buckets, name(&node.name))
        })
        .collect();
    let about = format!("{} buckets, {} without a node", seen.buckets, seen.free_buckets);
    html! {
        section {
            h2 { "Buckets" }
            p { (about) }
            svg.buckets viewBox=(format!("0 0 {} 4", seen.buckets.max(1)))
                preserveAspectRatio="none" role="img" aria-label=(about) {
                rect.free x="0" y="0" width=(seen.buckets) height="4" {}
                @for (number, (from, width, owner)) in parts.iter().enumerate() {
                    rect.(if number % 2 == 0 { "even" } else { "odd" })
                        x=(from) y="0" width=(width) height="4" {
                        title { (owner) ": " (width) }
                    }
                }
            }
        }
    }
}

fn database(seen: &Inspection) -> Markup {
    let Some(database) = &seen.database else { return html! {} };
    html! {
        section {
            h2 { "Database" }
            dl {
                dt { "Rows" } dd { (grouped(database.rows)) }
                dt { "Dead rows" } dd { (grouped(database.dead_rows)) }
                @if let Some(vacuumed) = database.vacuumed {
                    dt { "Removed last" } dd { (moment(vacuumed, seen.clock)) }
                }
                dt { "Oldest transaction" }
                dd {
                    @match &database.oldest_snapshot {
                        None => "none that keeps dead rows",
                        Some(oldest) => {
                            (span(oldest.age)) ", process " (oldest.pid) ", "
                            (name(&oldest.state)) ", " (name(&oldest.application))
                        },
                    }
                }
            }
        }
    }
}
