//! The executor, and the threads of the process.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row};

use super::{BAD, FAINT, bar, block, room, shown, table, thread_name};
use crate::app::{App, Order};
use crate::snapshot::{Snapshot, Thread, ThreadWaits};
use crate::text::{grouped, tail, time};

/// How wide a terminal has to be for each column: of the threads, and of those held back.
const THREADS: [u16; 5] = [0, 0, 64, 0, 80];
const WAITS: [u16; 4] = [0, 0, 50, 0];

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
        let cells = [
            tail(&thread.name, 18),
            format!("{:>6.1} %", 100.0 * ran),
            bar(*ran, 20),
            format!("{:>6.1} %", 100.0 * waited),
            bar(*waited, 20),
        ];
        Row::new(shown(below.width, THREADS, cells))
    };
    let titles = ["thread", " running", "", " waiting", "for a processor"];
    let [thread, share, bar] = [18, 8, 20].map(Constraint::Length);
    let widths = [thread, share, bar, share, Constraint::Fill(1)];
    let (titles, widths) =
        (shown(below.width, THREADS, titles), shown(below.width, THREADS, widths));
    let rows = threads.iter().map(row).collect();
    let seen = snapshot.threads.len() as u64;
    let title = match snapshot.more_threads {
        0 => format!("{} threads", grouped(seen)),
        more => format!(
            "The {} oldest of {} threads",
            grouped(seen),
            grouped(seen.saturating_add(more))
        ),
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
    let name = room(area.width, WAITS, [0, 6, 13, 13]).min(18);
    let row = |it: &ThreadWaits| {
        let cells = [
            tail(thread_name(it), name),
            format!("{:>6}", grouped(it.waiting)),
            format!("{:>13}", grouped(it.waits)),
            format!("{:>13}", time(it.waited)),
        ];
        Row::new(shown(area.width, WAITS, cells))
    };
    let titles = ["thread", "   now", "        waits", "  for, in all"];
    let widths = [name as u16, 6, 13, 13].map(Constraint::Length);
    let (titles, widths) = (shown(area.width, WAITS, titles), shown(area.width, WAITS, widths));
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
