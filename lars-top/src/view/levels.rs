//! The levels of the wheel as rows of cells.

use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};

use super::{ACCENT, FAINT};
use crate::snapshot::Level;
use crate::text::{grouped, time};

const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// How full a slot is, from 0 to 1 on a logarithmic scale, beside the fullest of all.
pub(super) fn fill(count: u64, most: u64) -> f64 {
    if count == 0 { 0.0 } else { (1.0 + count as f64).ln() / (1.0 + most as f64).ln() }
}

pub(super) fn color(fill: f64) -> Color {
    match fill {
        _ if fill < 0.35 => Color::Blue,
        _ if fill < 0.7 => Color::Green,
        _ if fill < 0.9 => Color::Yellow,
        _ => Color::Red,
    }
}

pub(super) fn fullest(levels: &[Level]) -> u64 {
    levels.iter().flat_map(|level| &level.slots).copied().max().unwrap_or(0)
}

/// The levels that are shown: the two lowest, and above them all that have timers.
pub(super) fn shown(levels: &[Level]) -> impl Iterator<Item = (usize, &Level)> {
    let last = levels.iter().rposition(|level| level.slots.iter().any(|count| *count > 0));
    levels.iter().enumerate().take(last.unwrap_or(0).max(1) + 1)
}

/// What a level is. Where there is no room for all, the number of its timers is seen before the
/// rest.
pub(super) fn about(number: usize, level: &Level, width: usize) -> Line<'static> {
    let turn = level.span.saturating_mul(level.slots.len() as u64);
    let timers = level.slots.iter().fold(0, |all: u64, count| all.saturating_add(*count));
    let slot = format!("  {} a slot", time(level.span));
    let line = |times: String| {
        Line::from(vec![
            format!("level {number}").bold(),
            times.fg(FAINT),
            format!("   {}", grouped(timers)).into(),
            " timers".fg(FAINT),
        ])
    };
    let shorter = [format!("{slot}, {} a turn", time(turn)), slot].map(line);
    let fits = shorter.into_iter().find(|line| line.width() <= width);
    fits.unwrap_or_else(|| line(String::new()))
}

/// A level as a row: the height of a cell says how full its slot is. The slot of the present is
/// reversed.
pub(super) fn cells(level: &Level, most: u64, width: usize) -> Line<'static> {
    // Neighbours share a cell if there is no room.
    let together = level.slots.len().div_ceil(width.max(1)).max(1);
    let cell = |(number, slots): (usize, &[u64])| {
        let share = fill(slots.iter().copied().max().unwrap_or(0), most);
        let empty = share == 0.0;
        let text = if empty { '·' } else { HEIGHTS[((share * 8.0) as usize).min(7)] };
        let style = Style::new().fg(if empty { FAINT } else { color(share) });
        let here = level.hand / together == number;
        Span::styled(text.to_string(), if here { style.bg(ACCENT).fg(Color::Black) } else { style })
    };
    level.slots.chunks(together).enumerate().map(cell).collect()
}
