//! The executor, and the threads of the process.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row};

use super::{BAD, FAINT, bar, block, table};
use crate::app::{App, Order};
use crate::snapshot::{Snapshot, Thread};
use crate::text::{grouped, tail, time};

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let [above, below] = Layout::vertical([Constraint::Length(5), Constraint::Fill(1)]).areas(area);
    let executor = Paragraph::new(executor(app, snapshot)).block(block("Executor"));
    frame.render_widget(executor, above);
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
