//! The executor, and the threads of the process.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row};

use super::{BAD, FAINT, bar, block, table, thread_name};
use crate::app::{App, Order};
use crate::snapshot::{Snapshot, Thread, ThreadWaits};
use crate::text::{grouped, tail, time};

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let [above, waits, below] = Layout::vertical([
        Constraint::Length(5),
        Constraint::Length(waits_height(snapshot)),
        Constraint::Fill(1),
    ])
    .areas(area);
    let executor = Paragraph::new(executor(app, snapshot)).block(block("Executor"));
    frame.render_widget(executor, above);
    draw_waits(app, frame, waits, snapshot);
    if snapshot.threads.is_empty() {
        let text = " The threads of a process are shown on Linux only.".fg(FAINT);
        frame.render_widget(Paragraph::new(text).block(block("Threads")), below);
        return;
    }
    let shares = |thread: &Thread| app.trend.shares(thread.id).unwrap_or_default();
    let mut threads: Vec<_> = snapshot.threads.iter().map(|it| (it, shares(it))).collect();
    threads.retain(|(thread, _)| app.controls.takes(&[&thread.name]));
    match app.order() {
        Some(Order::Waiting) => threads.sort_by(|one, other| other.1.1.total_cmp(&one.1.1)),
        Some(Order::Name) => threads.sort_by(|one, other| one.0.name.cmp(&other.0.name)),
        _ => threads.sort_by(|one, other| other.1.0.total_cmp(&one.1.0)),
    }
    let row = |(thread, (ran, waited)): &(&Thread, (f64, f64))| {
        Row::new([
            tail(&thread.name, 18),
            format!("{:>6.1} %", 100.0 * ran),
            bar(*ran, 20),
            format!("{:>6.1} %", 100.0 * waited),
            bar(*waited, 20),
        ])
    };
    let titles = ["thread", " running", "", " waiting", "for a processor"];
    let widths = [
        Constraint::Length(18),
        Constraint::Length(8),
        Constraint::Length(20),
        Constraint::Length(8),
        Constraint::Fill(1),
    ];
    let rows = threads.iter().map(row).collect();
    let seen = snapshot.threads.len() as u64;
    let title = match snapshot.more_threads {
        0 => format!("{} threads", grouped(seen)),
        more => format!("The {} oldest of {} threads", grouped(seen), grouped(seen + more)),
    };
    let first = app.controls.first_row(threads.len(), below.height);
    frame.render_widget(table(titles, widths, rows, first).block(block(&title)), below);
}

/// How many of the threads that were held back are shown.
const MOST_WAITS: usize = 5;

/// With a frame and a title; nothing if nobody has waited.
fn waits_height(snapshot: &Snapshot) -> u16 {
    match snapshot.waits.len().min(MOST_WAITS) as u16 {
        0 => 0,
        rows => rows + 3,
    }
}

/// Which threads backpressure made wait in their calls.
fn draw_waits(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let row = |it: &ThreadWaits| {
        Row::new([
            tail(thread_name(it), 18),
            format!("{:>6}", grouped(it.waiting)),
            format!("{:>13}", grouped(it.waits)),
            format!("{:>12}", time(it.waited)),
        ])
    };
    let titles = ["held back by backpressure", "   now", "        waits", "  for, in all"];
    let widths = [18, 6, 13, 13].map(Constraint::Length);
    let rows = snapshot.waits.iter().take(MOST_WAITS).map(row).collect();
    let lately = app.trend.rates().held_back;
    let title = match snapshot.waits.len() {
        all @ ..=MOST_WAITS => format!("Held back: {all}, {lately:.2} of them at a time"),
        all => format!("Held back: the {MOST_WAITS} most of {all}, {lately:.2} at a time"),
    };
    frame.render_widget(table(titles, widths, rows, 0).block(block(&title)), area);
}

fn executor(app: &App, snapshot: &Snapshot) -> Vec<Line<'static>> {
    let (executor, counts) = (&snapshot.executor, &snapshot.counts);
    let part =
        |what: &str, value: String| vec![format!(" {what} ").fg(FAINT), value.bold(), " ".into()];
    let bad = |what: &str, count: u64| {
        let number = grouped(count);
        let number = if count == 0 { number.fg(FAINT) } else { number.bold().fg(BAD) };
        vec![format!(" {what} ").fg(FAINT), number, " ".into()]
    };
    let queue = app.trend.queue_time();
    let pool = [
        part("pool threads", grouped(executor.threads)),
        part("running", grouped(executor.running)),
        part("queued", grouped(executor.queued)),
        part("busy with tasks", format!("{:.2}", app.trend.rates().busy)),
    ];
    let waited = [
        part(
            &format!("waited for a thread, {}: p50", app.trend.recent()),
            time(queue.quantile(0.5)),
        ),
        part("p99", time(queue.quantile(0.99))),
        part("max", time(queue.max)),
    ];
    let troubles = [
        bad("stalls", counts.pool_stalls),
        bad("held for room in the queue", counts.held_for_pool),
        bad("rejected", counts.rejected),
        bad("dropped", counts.abandoned),
    ];
    [pool.concat(), waited.concat(), troubles.concat()].map(Line::from).to_vec()
}
