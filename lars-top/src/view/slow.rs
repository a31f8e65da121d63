//! Tasks that ran for too long, and how long tasks run, by whose they are.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::widgets::{Paragraph, Row};

use super::{BAD, FAINT, block, shown, table, whose_and_place};
use crate::app::{App, Order};
use crate::snapshot::{RunTime, Slow, Snapshot};
use crate::text::{grouped, tail, time};

/// How wide a terminal has to be for each column: of the last ones, and of run times.
const LAST: [u16; 6] = [80, 0, 50, 80, 0, 60];
const TIMES: [u16; 6] = [70, 0, 80, 50, 0, 60];

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    if snapshot.run_times.is_empty() {
        return draw_last(app, frame, area, snapshot);
    }
    let halves = [Constraint::Fill(1), Constraint::Fill(1)];
    let [above, below] = Layout::vertical(halves).areas(area);
    draw_last(app, frame, above, snapshot);
    draw_times(app, frame, below, snapshot);
}

fn draw_last(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    // Orders and the filter are over these.
    let last = snapshot.slow.len();
    let title = format!("{} tasks were slow; the last {last}", grouped(snapshot.counts.slow));
    if snapshot.slow.is_empty() {
        let text = match snapshot.counts.slow {
            0 => " None so far.",
            _ => " The probe was not given a `SlowLog`: see the log of the program.",
        };
        frame.render_widget(Paragraph::new(text.fg(FAINT)).block(block(&title)), area);
        return;
    }
    let taken = |slow: &&Slow| app.controls.takes(&[&slow.label, &slow.place]);
    let mut all: Vec<&Slow> = snapshot.slow.iter().filter(taken).collect();
    match app.order() {
        Some(Order::RunTime) => all.sort_by_key(|slow| std::cmp::Reverse(slow.run_time)),
        Some(Order::Lateness) => all.sort_by_key(|slow| std::cmp::Reverse(slow.lateness)),
        Some(Order::Name) => all.sort_by(|one, other| one.label.cmp(&other.label)),
        _ => {}
    }
    let (whose, place) = whose_and_place(area.width, LAST, [11, 11, 11, 6, 0, 0]);
    let row = |slow: &&Slow| {
        let others =
            if slow.others > 0 { format!(" or {} others", slow.others) } else { String::new() };
        let cells = [
            format!("{:>11}", time(slow.age)),
            format!("{:>11}", time(slow.run_time)),
            format!("{:>11}", time(slow.lateness)),
            if slow.on_timer_thread { "timer" } else { "pool" }.to_owned(),
            tail(&slow.label, whose.saturating_sub(others.chars().count())) + &others,
            tail(&slow.place, place),
        ];
        let style = if slow.on_timer_thread { Style::new().fg(BAD) } else { Style::new() };
        Row::new(shown(area.width, LAST, cells)).style(style)
    };
    let widths = [11, 11, 11, 6, whose as u16, place as u16].map(Constraint::Length);
    let titles = ["        ago", "    ran for", " began late", "thread", "task", "scheduled at"];
    let (titles, widths) = (shown(area.width, LAST, titles), shown(area.width, LAST, widths));
    let rows = all.iter().map(row).collect();
    let first = app.controls.first_row(all.len(), area.height);
    frame.render_widget(table(titles, widths, rows, first).block(block(&title)), area);
}

fn draw_times(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let taken = |it: &&RunTime| app.controls.takes(&[&it.label, &it.place]);
    let mut times: Vec<&RunTime> = snapshot.run_times.iter().filter(taken).collect();
    match app.order() {
        Some(Order::RunTime) => times.sort_by_key(|it| std::cmp::Reverse(it.longest)),
        Some(Order::Name) => times.sort_by(|one, other| one.label.cmp(&other.label)),
        _ => {}
    }
    let (whose, place) = whose_and_place(area.width, TIMES, [11, 11, 11, 11, 0, 0]);
    let row = |it: &&RunTime| {
        let cells = [
            format!("{:>11}", grouped(it.runs)),
            format!("{:>11}", time(it.total)),
            format!("{:>11}", time(it.total / it.runs.max(1))),
            format!("{:>11}", time(it.longest)),
            tail(&it.label, whose),
            tail(&it.place, place),
        ];
        Row::new(shown(area.width, TIMES, cells))
    };
    let widths = [11, 11, 11, 11, whose as u16, place as u16].map(Constraint::Length);
    let titles =
        ["       runs", "   together", "       mean", "    longest", "task", "scheduled at"];
    let (titles, widths) = (shown(area.width, TIMES, titles), shown(area.width, TIMES, widths));
    let rows = times.iter().map(row).collect();
    let seen = snapshot.run_times.len();
    let title = format!("How long tasks run; the {seen} with most time");
    frame.render_widget(table(titles, widths, rows, 0).block(block(&title)), area);
}
