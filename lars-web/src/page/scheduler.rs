//! A live scheduler: rates, lateness, the wheel, whose timers are pending, slow tasks, why tasks
//! began late, threads.

use lars_top::snapshot::{Level, Pending, Snapshot, Thread};
use lars_top::text::{ago, bytes, grouped, short, time};
use lars_top::trend::{Moment, Trend};
use maud::{Markup, html};

use super::late;
use crate::html::{Line, cell, chart, name, table, tile};

/// The most rows of a table.
const ROWS: usize = 100;

pub(crate) fn page(trend: &Trend) -> Markup {
    let Some(seen) = trend.last() else { return html! { p.faint { "Looking …" } } };
    html! {
        (tiles(trend, seen))
        @if seen.counts.stopped { p.trouble { "The scheduler was stopped." } }
        (charts(trend, seen))
        @if let Some(pending) = &seen.pending { (wheel(pending)) (groups(pending)) (next(pending)) }
        (slow(seen))
        (run_times(seen))
        (late(trend, seen))
        (waits(seen))
        (threads(trend, seen))
    }
}

fn tiles(trend: &Trend, seen: &Snapshot) -> Markup {
    let (rates, counts, pool) = (trend.rates(), &seen.counts, &seen.executor);
    let bad = |count: u64| if count > 0 { "bad" } else { "" };
    html! {
        div.tiles {
            (tile("fired/s", &short(rates.fired), ""))
            (tile("scheduled/s", &short(rates.scheduled), ""))
            (tile("cancelled/s", &short(rates.cancelled), ""))
            (tile("pending", &grouped(counts.pending), ""))
            (tile("threads busy", &format!("{:.1} of {}", rates.busy, pool.threads), ""))
            (tile("tasks queued", &grouped(pool.queued), ""))
            (tile("wake-ups/s", &short(rates.wake_ups), ""))
            (tile("memory", &bytes(counts.timer_memory), ""))
            (tile("tick", &time(counts.tick), ""))
            (tile("panics", &grouped(counts.panicked), bad(counts.panicked)))
            (tile("refused", &grouped(counts.refused), bad(counts.refused)))
            (tile("rejected", &grouped(counts.rejected), bad(counts.rejected)))
            (tile("dropped", &grouped(counts.abandoned), bad(counts.abandoned)))
            (tile("slow tasks", &grouped(counts.slow), bad(counts.slow)))
            (tile("stalls of the pool", &grouped(counts.pool_stalls), bad(counts.pool_stalls)))
        }
    }
}

fn charts(trend: &Trend, seen: &Snapshot) -> Markup {
    let ago = |moment: &Moment| seen.taken.saturating_sub(moment.taken) as f64 / 1e9;
    let moments: Vec<Moment> = trend.moments().collect();
    let fired = moments.iter().map(|it| (ago(it), it.rates.fired)).collect();
    let late = |share: f64| {
        let fired = moments.iter().filter(|it| it.lateness.count() > 0);
        fired.map(|it| (ago(it), it.lateness.quantile(share) as f64)).collect()
    };
    let lines = [
        Line { label: "p50", class: "one", points: late(0.5) },
        Line { label: "p99", class: "two", points: late(0.99) },
    ];
    html! {
        div.charts {
            (chart("Fired/s", &[Line { label: "", class: "one", points: fired }], short))
            (chart("Lateness", &lines, |nanos| time(nanos as u64)))
        }
    }
}

/// How full the slots of each level are.
fn wheel(pending: &Pending) -> Markup {
    let all = pending.levels.iter().flat_map(|level| &level.slots);
    let most = all.copied().max().unwrap_or(0);
    let used = pending.levels.iter().rposition(|it| it.slots.iter().any(|slot| *slot > 0));
    let shown = pending.levels.iter().enumerate().take(used.unwrap_or(0).max(1) + 1);
    html! {
        section {
            h2 { "Wheel" }
            p.faint { (grouped(pending.timers)) " timers, as of " (ago(pending.age)) }
            @for (number, level) in shown { (slots(number, level, most)) }
        }
    }
}

fn slots(number: usize, level: &Level, most: u64) -> Markup {
    let timers: u64 = level.slots.iter().sum();
    let about = format!("level {number}: {} a slot, {} timers", time(level.span), grouped(timers));
    // On a logarithmic scale.
    let height = |count: u64| match count {
        0 => 0.0,
        _ => 10.0 * (1.0 + count as f64).ln() / (1.0 + most as f64).ln(),
    };
    html! {
        figure.level {
            figcaption { (about) }
            svg viewBox=(format!("0 0 {} 10", level.slots.len().max(1))) preserveAspectRatio="none"
                role="img" aria-label=(about) {
                rect.hand x=(level.hand) y="0" width="1" height="10" {}
                @for (place, count) in level.slots.iter().enumerate() {
                    @if *count > 0 {
                        rect.slot x=(place) y=(format!("{:.2}", 10.0 - height(*count)))
                            width="0.9" height=(format!("{:.2}", height(*count))) {}
                    }
                }
            }
        }
    }
}

fn due(remaining: Option<u64>) -> String {
    remaining.map_or_else(|| "never".to_owned(), |left| format!("in {}", time(left)))
}

fn groups(pending: &Pending) -> Markup {
    let row = |group: &lars_top::snapshot::Group| {
        html! {
            tr {
                th scope="row" { (name(&group.label)) }
                (cell("Pending", grouped(group.count)))
                (cell("First due", due(group.first_due)))
                (cell("Place", html! { code { (name(&group.place)) } }))
            }
        }
    };
    let rows: Vec<_> = pending.groups.iter().take(ROWS).map(row).collect();
    let more = pending.groups.len().saturating_sub(ROWS) as u64 + pending.more_groups;
    html! {
        (table("Pending, by name", &["Name", "Pending", "First due", "Place"], &rows,
            "Nothing is pending."))
        @if more > 0 { p.faint { (grouped(more)) " smaller groups are left out." } }
    }
}

fn next(pending: &Pending) -> Markup {
    let row = |timer: &lars_top::snapshot::Timer| {
        html! {
            tr {
                th scope="row" {
                    (name(&timer.label))
                    @if timer.repeat { " " span.badge { "repeats" } }
                }
                (cell("Due", due(timer.remaining)))
                (cell("Place", html! { code { (name(&timer.place)) } }))
            }
        }
    };
    let rows: Vec<_> = pending.next.iter().map(row).collect();
    table("Due next", &["Name", "Due", "Place"], &rows, "Nothing is pending.")
}

fn slow(seen: &Snapshot) -> Markup {
    let row = |task: &lars_top::snapshot::Slow| {
        html! {
            tr.wrong[task.on_timer_thread] {
                th scope="row" {
                    (name(&task.label))
                    @if task.on_timer_thread { " " span.badge { "on the timer thread" } }
                    @if task.others > 0 { " " span.badge { "or one of " (task.others) } }
                }
                (cell("Ran", time(task.run_time)))
                (cell("Began late by", time(task.lateness)))
                (cell("Ended", ago(task.age)))
                (cell("Place", html! { code { (name(&task.place)) } }))
            }
        }
    };
    let rows: Vec<_> = seen.slow.iter().map(row).collect();
    let titles = ["Name", "Ran", "Began late by", "Ended", "Place"];
    table("Slow tasks", &titles, &rows, "None, as far as they are logged.")
}

fn run_times(seen: &Snapshot) -> Markup {
    let row = |of: &lars_top::snapshot::RunTime| {
        html! {
            tr {
                th scope="row" { (name(&of.label)) }
                (cell("Runs", grouped(of.runs)))
                (cell("Took together", time(of.total)))
                (cell("Longest", time(of.longest)))
                (cell("Place", html! { code { (name(&of.place)) } }))
            }
        }
    };
    let rows: Vec<_> = seen.run_times.iter().take(ROWS).map(row).collect();
    let titles = ["Name", "Runs", "Took together", "Longest", "Place"];
    table("Run times, by name", &titles, &rows, "The scheduler records none.")
}

/// Why tasks began late, lately and since the start.
fn late(trend: &Trend, seen: &Snapshot) -> Markup {
    match &seen.late {
        Some(all) => late::tables(all, trend.late(), trend, &late::TASKS),
        None => {
            let off =
                "The scheduler does not explain lateness. Builder::explain_late switches it on.";
            table("Began late", &[], &[], off)
        }
    }
}

fn waits(seen: &Snapshot) -> Markup {
    if seen.waits.is_empty() {
        return html! {};
    }
    let row = |of: &lars_top::snapshot::ThreadWaits| {
        html! {
            tr {
                th scope="row" { (thread_name(&of.thread)) }
                (cell("Wait now", grouped(of.waiting)))
                (cell("Calls that waited", grouped(of.waits)))
                (cell("For", time(of.waited)))
            }
        }
    };
    let rows: Vec<_> = seen.waits.iter().map(row).collect();
    let titles = ["Threads", "Wait now", "Calls that waited", "For"];
    table("Held back", &titles, &rows, "")
}

fn threads(trend: &Trend, seen: &Snapshot) -> Markup {
    let share = |part: f64| format!("{:.0} %", part * 100.0);
    let row = |of: &Thread| {
        let (ran, waited) = trend.shares(of.id).unwrap_or_default();
        html! {
            tr {
                th scope="row" { (thread_name(&of.name)) }
                (cell("Ran", share(ran)))
                (cell("Waited for a processor", share(waited)))
                (cell("Number", of.id))
            }
        }
    };
    let rows: Vec<_> = seen.threads.iter().take(ROWS).map(row).collect();
    let more = seen.threads.len().saturating_sub(ROWS) as u64 + seen.more_threads;
    html! {
        (table("Threads", &["Name", "Ran", "Waited for a processor", "Number"], &rows,
            "They can be listed on Linux only."))
        @if more > 0 { p.faint { (grouped(more)) " threads are left out." } }
    }
}

fn thread_name(of: &str) -> String {
    if of.is_empty() { "without a name".to_owned() } else { name(of) }
}
