//! What is pending, whose it is, and what is due next.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::widgets::{Paragraph, Row};

use super::{bar, block, listed, or_never, shown, table, whose_and_place};
use crate::app::{App, Order};
use crate::snapshot::{Group, Pending, Snapshot, Timer};
use crate::text::{grouped, tail};

/// How wide a terminal has to be for each column: of the groups, and of those due next.
const GROUPS: [u16; 5] = [0, 60, 0, 0, 70];
const NEXT: [u16; 4] = [0, 50, 0, 70];

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let Some(pending) = &snapshot.pending else {
        frame.render_widget(Paragraph::new(" being listed …").block(block("Pending")), area);
        return;
    };
    let [above, below] = Layout::vertical([Constraint::Fill(2), Constraint::Fill(1)]).areas(area);
    draw_groups(app, frame, above, pending);
    draw_next(app, frame, below, pending);
}

fn draw_groups(app: &App, frame: &mut Frame<'_>, area: Rect, pending: &Pending) {
    let taken = |group: &&Group| app.controls.takes(&[&group.label, &group.place]);
    let mut groups: Vec<&Group> = pending.groups.iter().filter(taken).collect();
    match app.order() {
        Some(Order::FirstDue) => groups.sort_by_key(|group| group.first_due.unwrap_or(u64::MAX)),
        Some(Order::Name) => groups.sort_by(|one, other| one.label.cmp(&other.label)),
        Some(Order::Place) => groups.sort_by(|one, other| one.place.cmp(&other.place)),
        _ => groups.sort_by_key(|group| std::cmp::Reverse(group.count)),
    }
    let (whose, place) = whose_and_place(area.width, GROUPS, [9, 8, 12, 0, 0]);
    let row = |group: &&Group| {
        let cells = [
            format!("{:>9}", grouped(group.count)),
            bar(group.count as f64 / pending.timers.max(1) as f64, 8),
            format!("{:>12}", or_never(group.first_due)),
            tail(&group.label, whose),
            tail(&group.place, place),
        ];
        Row::new(shown(area.width, GROUPS, cells))
    };
    let mut title = listed(&format!("{} pending", grouped(pending.timers)), Some(pending));
    if pending.more_groups > 0 {
        // Orders and the filter are over these.
        let seen = pending.groups.len() as u64;
        let all = grouped(seen.saturating_add(pending.more_groups));
        title += &format!("; the {} largest of {all} groups", grouped(seen));
    }
    let widths = [9, 8, 12, whose as u16, place as u16].map(Constraint::Length);
    let titles = ["  pending", "share", "   first due", "whose", "scheduled at"];
    let (titles, widths) = (shown(area.width, GROUPS, titles), shown(area.width, GROUPS, widths));
    let rows = groups.iter().map(row).collect();
    let first = app.controls.first_row(groups.len(), area.height);
    frame.render_widget(table(titles, widths, rows, first).block(block(&title)), area);
}

fn draw_next(app: &App, frame: &mut Frame<'_>, area: Rect, pending: &Pending) {
    let next =
        pending.next.iter().filter(|timer| app.controls.takes(&[&timer.label, &timer.place]));
    let (whose, place) = whose_and_place(area.width, NEXT, [12, 6, 0, 0]);
    let row = |timer: &Timer| {
        let cells = [
            format!("{:>12}", or_never(timer.remaining)),
            if timer.repeat { "repeat" } else { "once" }.to_owned(),
            tail(&timer.label, whose),
            tail(&timer.place, place),
        ];
        Row::new(shown(area.width, NEXT, cells))
    };
    let widths = [12, 6, whose as u16, place as u16].map(Constraint::Length);
    let titles = ["          in", "kind", "whose", "scheduled at"];
    let (titles, widths) = (shown(area.width, NEXT, titles), shown(area.width, NEXT, widths));
    let rows = next.map(row).collect();
    let title = listed(&format!("The {} due next", pending.next.len()), Some(pending));
    frame.render_widget(table(titles, widths, rows, 0).block(block(&title)), area);
}
