//! The wheel as a wheel: a ring for each of its lowest levels, and a hand that turns in each.

use std::f64::consts::TAU;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::widgets::canvas::{Canvas, Circle, Context, Line as Stroke};

use super::{ACCENT, FAINT, block, levels};
use crate::snapshot::{Level, Pending, Snapshot};
use crate::text::{ago, time};

/// From where to where each ring goes, the lowest level outside.
const RINGS: [(f64, f64); 3] = [(0.72, 1.0), (0.42, 0.66), (0.14, 0.36)];

/// From this width on, the rows beside the rings say what the levels are.
const ROWS: u16 = 40;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let Some(pending) = &snapshot.pending else {
        frame.render_widget(Paragraph::new(" being listed …").block(block("The wheel")), area);
        return;
    };
    let [round, rows] = parts(area, pending);
    draw_rings(frame, round, &pending.levels);
    let lines = lines(pending, usize::from(rows.width).saturating_sub(2));
    frame.render_widget(Paragraph::new(lines).block(block("How full its slots are")), rows);
}

/// The areas of the rings and of the rows: beside each other, or the rows above, all of them.
fn parts(area: Rect, pending: &Pending) -> [Rect; 2] {
    // A cell is about twice as high as it is wide.
    let side = |height: u16| height.saturating_mul(2);
    let beside = side(area.height).min(area.width / 2);
    if area.width - beside >= ROWS {
        return Layout::horizontal([Constraint::Length(beside), Constraint::Fill(1)]).areas(area);
    }
    let lines = lines(pending, 0).len() as u16;
    let [rows, below] =
        Layout::vertical([Constraint::Length(lines + 2), Constraint::Fill(1)]).areas(area);
    let [round] = Layout::horizontal([Constraint::Max(side(below.height))]).areas(below);
    [round, rows]
}

fn draw_rings(frame: &mut Frame<'_>, area: Rect, all: &[Level]) {
    let most = levels::fullest(all);
    let canvas = Canvas::default()
        .block(block("The wheel"))
        .marker(Marker::Braille)
        .x_bounds([-1.05, 1.05])
        .y_bounds([-1.05, 1.05])
        .paint(|context| {
            for ((_, level), ring) in levels::shown(all).zip(RINGS) {
                draw_ring(context, level, ring, most);
            }
        });
    frame.render_widget(canvas, area);
}

/// Slots clockwise from the top. The longer its stroke, the fuller a slot.
fn draw_ring(context: &mut Context<'_>, level: &Level, (inner, outer): (f64, f64), most: u64) {
    let stroke = |slot: f64, from: f64, to: f64, color: Color| {
        let angle = slot / level.slots.len() as f64 * TAU;
        let (x, y) = (angle.sin(), angle.cos());
        Stroke { x1: x * from, y1: y * from, x2: x * to, y2: y * to, color }
    };
    context.draw(&Circle { x: 0.0, y: 0.0, radius: inner, color: FAINT });
    for (slot, count) in level.slots.iter().enumerate() {
        let fill = levels::fill(*count, most);
        if fill > 0.0 {
            let end = inner + (outer - inner) * fill.max(0.15);
            context.draw(&stroke(slot as f64 + 0.5, inner, end, levels::color(fill)));
        }
    }
    context.draw(&stroke(level.hand as f64, inner, outer, ACCENT));
}

fn lines(pending: &Pending, width: usize) -> Vec<Line<'static>> {
    let most = levels::fullest(&pending.levels);
    let mut lines = Vec::new();
    for (number, level) in levels::shown(&pending.levels) {
        lines.push(levels::about(number, level, width));
        lines.push(levels::cells(level, most, width));
        lines.push(Line::default());
    }
    let about = format!("listed {}, in {}", ago(pending.age), time(pending.took));
    lines.push(about.fg(FAINT).into());
    if pending.unseen > 0 {
        lines.push(format!("{} timers could not be looked at", pending.unseen).fg(FAINT).into());
    }
    lines.push("heights are logarithmic".fg(FAINT).into());
    lines.push("the bright slot is now".fg(FAINT).into());
    lines
}
