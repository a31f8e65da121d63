//! Rates, lateness, the wheel, and the largest groups of pending timers.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, RenderDirection, Row, Sparkline};

use super::{ACCENT, BAD, FAINT, GOOD, WARN, bar, block, levels, listed, table, thread_name};
use crate::app::App;
use crate::snapshot::{Snapshot, Spread};
use crate::text::{bytes, grouped, short, tail, time};

/// The ends of the rows of the histogram, in microseconds.
const ENDS: [u64; 11] =
    [10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000];

/// The widths of two blocks.
const COUNTS: u16 = 37;
const LATENESS: u16 = 41;
/// From this width on, the history between them says something.
const HISTORY: u16 = 20;
/// The width of what should be zero.
const TROUBLES: u16 = 41;
/// From this width on, the groups beside it say whose the timers are.
const GROUPS: u16 = 29;

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(9),
        Constraint::Length(wheel_height(snapshot, area.width)),
        Constraint::Min(0),
    ])
    .areas(area);
    // Where there is no room for all, the counts are readable, and first the history is left out.
    let (all, none) = (Constraint::Fill(1), Constraint::Length(0));
    let [counts, fired, late] = match area.width.saturating_sub(COUNTS) {
        room if room < HISTORY => [all, none, none],
        room if room < LATENESS => [Constraint::Length(COUNTS), all, none],
        room if room < LATENESS + HISTORY => [Constraint::Length(COUNTS), none, all],
        _ => [Constraint::Length(COUNTS), all, Constraint::Length(LATENESS)],
    };
    let [counts, fired, late] = Layout::horizontal([counts, fired, late]).areas(top);
    let lines = count_lines(app, snapshot, late.is_empty());
    frame.render_widget(Paragraph::new(lines).block(block("Timers")), counts);
    draw_history(app, frame, fired);
    draw_lateness(app, frame, late);
    draw_wheel(frame, middle, snapshot);
    let [groups, troubles] = bottom_parts(bottom);
    draw_groups(app, frame, groups, snapshot);
    draw_troubles(frame, troubles, snapshot);
}

/// The areas of the largest groups and of what should be zero: beside each other, or that which
/// should be zero above the groups, or alone.
fn bottom_parts(area: Rect) -> [Rect; 2] {
    if area.width >= TROUBLES + GROUPS {
        return Layout::horizontal([Constraint::Fill(1), Constraint::Length(TROUBLES)]).areas(area);
    }
    // Of each at least its frame and two lines.
    let groups = if area.height < 9 { Constraint::Length(0) } else { Constraint::Fill(2) };
    let [troubles, groups] = Layout::vertical([Constraint::Fill(3), groups]).areas(area);
    [groups, troubles]
}

/// The counts. `with_lateness`: it has no block of its own, and comes in place of the tick.
fn count_lines(app: &App, snapshot: &Snapshot, with_lateness: bool) -> Vec<Line<'static>> {
    let (rates, counts) = (app.trend.rates(), &snapshot.counts);
    let line = |what: &str, rate: Option<f64>, total: String| {
        let rate = rate.map_or_else(String::new, |rate| format!("{}/s", short(rate)));
        Line::from(vec![
            format!(" {what:<10}").fg(FAINT),
            format!("{rate:>9}").bold(),
            format!("  {total:>12}").into(),
        ])
    };
    vec![
        line("scheduled", Some(rates.scheduled), grouped(counts.scheduled)),
        line("fired", Some(rates.fired), grouped(counts.fired)),
        line("cancelled", Some(rates.cancelled), grouped(counts.cancelled)),
        line("wake-ups", Some(rates.wake_ups), grouped(counts.wake_ups)),
        line("pending", None, grouped(counts.pending)),
        line("memory", None, bytes(counts.timer_memory)),
        if with_lateness {
            let mut late = quantiles(&app.trend.lateness());
            // In place of the median, for which there is no room.
            late.spans.splice(..2, [" late".fg(FAINT)]);
            late
        } else {
            line("tick", None, time(counts.tick))
        },
    ]
}

fn draw_history(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let history = app.trend.history(|rates| rates.fired);
    let title =
        format!("Fired/s, at most {}", short(history.iter().copied().max().unwrap_or(0) as f64));
    let newest_first: Vec<u64> = history.into_iter().rev().collect();
    let line = Sparkline::default()
        .data(newest_first)
        .direction(RenderDirection::RightToLeft)
        .style(Style::new().fg(GOOD))
        .block(block(&title));
    frame.render_widget(line, area);
}

/// A histogram: of each row its end, its share, and a bar.
fn draw_lateness(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let late = app.trend.lateness();
    let all = late.count();
    let mut lines = vec![quantiles(&late)];
    if all == 0 {
        lines.push(" nothing fired".fg(FAINT).into());
    }
    let room = usize::from(area.height).saturating_sub(3);
    for (what, count, slow) in rows(&late, room) {
        let share = count as f64 / all.max(1) as f64;
        let color = if slow { WARN } else { GOOD };
        lines.push(Line::from(vec![
            format!(" {what:>9}").fg(FAINT),
            format!("{:>6.1} % ", 100.0 * share).into(),
            bar(share, 19).fg(color),
        ]));
    }
    let title = format!("Lateness, {}", app.trend.recent());
    frame.render_widget(Paragraph::new(lines).block(block(&title)), area);
}

fn quantiles(late: &Spread) -> Line<'static> {
    let one = |what: &str, nanos: u64| vec![format!(" {what} ").fg(FAINT), time(nanos).bold()];
    let parts =
        [one("p50", late.quantile(0.5)), one("p99", late.quantile(0.99)), one("max", late.max)];
    Line::from(parts.concat())
}

/// The rows of the histogram from the first that has any, at most `room`; the last has all that is
/// longer.
fn rows(late: &Spread, room: usize) -> Vec<(String, u64, bool)> {
    let mut counts = [0_u64; ENDS.len() + 1];
    for (least, count) in &late.buckets {
        let row = &mut counts[ENDS.iter().take_while(|end| *least >= **end * 1_000).count()];
        *row = row.saturating_add(*count);
    }
    let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
    // Nothing came, or the frame has no line for it.
    if late.buckets.is_empty() || room == 0 {
        return Vec::new();
    }
    let cut = (first + room - 1).min(last);
    let row = |number: usize| {
        let all_above = number == cut && cut < last;
        let count = if all_above {
            counts[number..].iter().fold(0, |all: u64, it| all.saturating_add(*it))
        } else {
            counts[number]
        };
        let text = match ENDS.get(number) {
            Some(end) if !all_above => format!("< {}", whole(*end)),
            _ => format!("≥ {}", whole(number.checked_sub(1).map_or(0, |before| ENDS[before]))),
        };
        (text, count, number > 6)
    };
    (first..=cut).map(row).collect()
}

/// A whole number of microseconds, milliseconds or seconds.
fn whole(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{} s", micros / 1_000_000),
    }
}

/// From this width on, a level has one line.
const WIDE: u16 = 66 + 52;

fn wheel_height(snapshot: &Snapshot, width: u16) -> u16 {
    let levels = snapshot.pending.as_ref().map_or(1, |it| levels::shown(&it.levels).count());
    levels as u16 * if width >= WIDE { 1 } else { 2 } + 2
}

fn draw_wheel(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let mut lines = Vec::new();
    match &snapshot.pending {
        Some(pending) => {
            let most = levels::fullest(&pending.levels);
            for (number, level) in levels::shown(&pending.levels) {
                let width = usize::from(area.width).saturating_sub(2);
                if area.width >= WIDE {
                    let mut line = levels::cells(level, most, 64);
                    line.push_span("  ");
                    let rest = width.saturating_sub(line.width());
                    line.extend(levels::about(number, level, rest));
                    lines.push(line);
                } else {
                    let about = levels::about(number, level, width);
                    lines.extend([about, levels::cells(level, most, width)]);
                }
            }
        }
        None => lines.push(" being listed …".fg(FAINT).into()),
    }
    let title = listed("The wheel", snapshot.pending.as_ref());
    frame.render_widget(Paragraph::new(lines).block(block(&title)), area);
}

fn draw_groups(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let groups = snapshot.pending.iter().flat_map(|pending| &pending.groups);
    let wanted = groups.filter(|group| app.controls.takes(&[&group.label, &group.place]));
    let width = usize::from(area.width).saturating_sub(14);
    let row = |group: &crate::snapshot::Group| {
        Row::new([format!("{:>9}", grouped(group.count)), tail(&group.label, width)])
    };
    let rows = wanted.map(row).collect();
    let table =
        table(["  pending", "whose"], [Constraint::Length(9), Constraint::Fill(1)], rows, 0);
    let title = listed("Most pending", snapshot.pending.as_ref());
    frame.render_widget(table.block(block(&title)), area);
}

/// What should be zero, or looked at.
struct Trouble {
    what: String,
    count: u64,
    value: String,
    color: Color,
}

impl Trouble {
    fn new(what: &str, count: u64, color: Color) -> Self {
        Self { what: what.to_owned(), count, value: grouped(count), color }
    }

    fn line(self) -> Line<'static> {
        let value = format!("{:>12}", self.value);
        let value = if self.count == 0 { value.fg(FAINT) } else { value.bold().fg(self.color) };
        Line::from(vec![format!(" {:<24}", self.what).fg(FAINT), value])
    }
}

/// The worst first. Where there is no room for all of it, what is zero is left out before the rest;
/// but not panics and refusals, which are looked for.
fn draw_troubles(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let mut shown = troubles(snapshot);
    let all = shown.len();
    while shown.len() > usize::from(area.height).saturating_sub(2).max(1) {
        let zero = shown.iter().rposition(|it| it.count == 0).filter(|at| *at > 1);
        shown.remove(zero.unwrap_or(shown.len() - 1));
    }
    let title = match all - shown.len() {
        0 => "Watch".to_owned(),
        more => format!("Watch, and {more} more"),
    };
    let lines: Vec<_> = shown.into_iter().map(Trouble::line).collect();
    frame.render_widget(Paragraph::new(lines).block(block(&title)), area);
}

fn troubles(snapshot: &Snapshot) -> Vec<Trouble> {
    let counts = &snapshot.counts;
    let mut all = vec![
        Trouble::new("panics", counts.panicked, WARN),
        Trouble::new("refused", counts.refused, WARN),
        Trouble::new("rejected by executor", counts.rejected, BAD),
        Trouble::new("dropped by executor", counts.abandoned, BAD),
        Trouble::new("pool stalls", counts.pool_stalls, BAD),
    ];
    all.extend(held_back(snapshot));
    all.extend([
        Trouble::new("held for the pool", counts.held_for_pool, WARN),
        Trouble::new("slow tasks", counts.slow, WARN),
        Trouble::new("waiting for a thread", snapshot.executor.queued, ACCENT),
    ]);
    if let Some(actors) = &snapshot.actors {
        let deepest = actors.busiest.first().map_or(0, |actor| actor.depth);
        all.extend([
            Trouble::new("panics of actors", actors.panicked, WARN),
            Trouble::new("dead letters", actors.dead_letters, WARN),
            Trouble::new("slow messages", actors.slow_receives, WARN),
            Trouble::new("deepest mailbox", deepest, ACCENT),
        ]);
    }
    all
}

/// Backpressure: how many calls waited, for how long, and which threads that were most; how many
/// of them wait now.
fn held_back(snapshot: &Snapshot) -> Vec<Trouble> {
    let counts = &snapshot.counts;
    let lasting = |what: String, nanos: u64| {
        let value = if nanos == 0 { "0".to_owned() } else { time(nanos) };
        Trouble { what, count: nanos, value, color: WARN }
    };
    let now = snapshot.waits.iter().fold(0, |all: u64, it| all.saturating_add(it.waiting));
    let mut all = vec![
        Trouble::new("calls held back", counts.backpressure_waits, WARN),
        lasting("for how long, in all".to_owned(), counts.backpressure_waited),
        Trouble::new("threads held back now", now, WARN),
    ];
    if let Some(most) = snapshot.waits.first() {
        all.push(lasting(format!("most: {}", tail(thread_name(most), 17)), most.waited));
    }
    all
}
