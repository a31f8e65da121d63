//! Mailboxes and dead letters.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row};

use super::{FAINT, WARN, block, room, shown, table, whose_and_place};
use crate::app::{App, Order};
use crate::snapshot::{Actor, Actors, Snapshot};
use crate::text::{ago, clean, grouped, short, tail, time};

/// How wide a terminal has to be for each column: of the mailboxes, and of the dead letters.
const BUSIEST: [u16; 4] = [0, 50, 60, 0];
const LETTERS: [u16; 4] = [60, 0, 0, 50];

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let Some(actors) = &snapshot.actors else {
        let text = " The probe was not given a system of actors.".fg(FAINT);
        frame.render_widget(Paragraph::new(text).block(block("Actors")), area);
        return;
    };
    let [top, middle, below] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(2), Constraint::Fill(1)])
            .areas(area);
    frame.render_widget(Paragraph::new(lines(app, actors)), top);
    draw_busiest(app, frame, middle, actors);
    draw_letters(app, frame, below, actors);
}

fn lines(app: &App, actors: &Actors) -> Vec<Line<'static>> {
    let rates = app.trend.rates();
    let part = |what: &str, value: String| vec![format!(" {what} ").fg(FAINT), value.bold()];
    let parts = [
        part("system", clean(&actors.system)),
        part(" alive", grouped(actors.alive)),
        part(" stopped", grouped(actors.stopped)),
        part(" messages", format!("{}/s", short(rates.messages))),
        part(" of all", grouped(actors.processed)),
    ];
    let second = [
        part("panics", grouped(actors.panicked)),
        part(" restarts", grouped(actors.restarts)),
        part(" slow messages", grouped(actors.slow_receives)),
        part(" dead letters", grouped(actors.dead_letters)),
        part(" now", format!("{}/s", short(rates.dead_letters))),
    ];
    vec![Line::from(parts.concat()), Line::from(second.concat())]
}

fn draw_busiest(app: &App, frame: &mut Frame<'_>, area: Rect, actors: &Actors) {
    let mut busiest: Vec<&Actor> =
        actors.busiest.iter().filter(|actor| app.controls.takes(&[&actor.path])).collect();
    match app.order() {
        Some(Order::Received) => busiest.sort_by_key(|actor| std::cmp::Reverse(actor.processed)),
        Some(Order::Restarts) => busiest.sort_by_key(|actor| std::cmp::Reverse(actor.restarts)),
        Some(Order::Name) => busiest.sort_by(|one, other| one.path.cmp(&other.path)),
        _ => {}
    }
    let room = room(area.width, BUSIEST, [12, 12, 12, 0]);
    let row = |actor: &&Actor| {
        let cells = [
            format!("{:>12}", grouped(actor.depth)),
            format!("{:>12}", grouped(actor.processed)),
            format!("{:>12}", grouped(actor.restarts)),
            tail(&actor.path, room),
        ];
        let style = if actor.depth > 1_000 { Style::new().fg(WARN) } else { Style::new() };
        Row::new(shown(area.width, BUSIEST, cells)).style(style)
    };
    let titles = ["     mailbox", "    received", "    restarts", "path"];
    let widths = [12, 12, 12, room as u16].map(Constraint::Length);
    let (titles, widths) = (shown(area.width, BUSIEST, titles), shown(area.width, BUSIEST, widths));
    // Orders and the filter are over these.
    let seen = actors.busiest.len() as u64;
    let of_all =
        if seen < actors.alive { format!(" of {}", grouped(actors.alive)) } else { "".into() };
    let title = format!("The {} deepest{of_all} mailboxes, {}", grouped(seen), ago(actors.age));
    let rows = busiest.iter().map(row).collect();
    let first = app.controls.first_row(busiest.len(), area.height);
    frame.render_widget(table(titles, widths, rows, first).block(block(&title)), area);
}

fn draw_letters(app: &App, frame: &mut Frame<'_>, area: Rect, actors: &Actors) {
    let letters =
        actors.letters.iter().filter(|it| app.controls.takes(&[&it.recipient, &it.message]));
    let (recipient, message) = whose_and_place(area.width, LETTERS, [11, 12, 0, 0]);
    let row = |letter: &crate::snapshot::Letter| {
        let cells = [
            format!("{:>11}", time(letter.age)),
            clean(&letter.reason),
            tail(&letter.recipient, recipient),
            tail(&letter.message, message),
        ];
        Row::new(shown(area.width, LETTERS, cells))
    };
    let titles = ["        ago", "why", "for", "message"];
    let widths = [11, 12, recipient as u16, message as u16].map(Constraint::Length);
    let (titles, widths) = (shown(area.width, LETTERS, titles), shown(area.width, LETTERS, widths));
    let rows = letters.map(row).collect();
    frame.render_widget(table(titles, widths, rows, 0).block(block("Dead letters")), area);
}
