//! Bars, a panel for each figure, with a line over each bar from the least to the most of the
//! repetitions.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::style::{GRID, INK, WIDTH, look, text};
use crate::figures::number;
use crate::peer::is_ours;
use crate::summary::Spread;

/// One peer.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    /// What stands before the bar.
    pub(super) label: String,
    pub(super) spread: Spread,
}

/// One figure of several peers.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) bars: Vec<Bar>,
}

const HEAD: i32 = 44;
const PANEL_HEAD: i32 = 34;
const STEP: i32 = 22;
const THICKNESS: i32 = 14;
/// Where bars begin, and how long the longest is.
const LEFT: i32 = 190;
const LENGTH: i32 = WIDTH as i32 - LEFT - 110;

pub(super) fn draw(path: &Path, title: &str, panels: &[Panel]) -> Result<(), Box<dyn Error>> {
    let height: i32 =
        panels.iter().map(|panel| PANEL_HEAD + STEP * panel.bars.len() as i32).sum::<i32>() + HEAD;
    let root = SVGBackend::new(path, (WIDTH, height as u32 + 12)).into_drawing_area();
    root.fill(&WHITE)?;
    root.draw(&Text::new(title, (16, 24), text(20, INK, HPos::Left)))?;
    let mut y = HEAD;
    for panel in panels {
        root.draw(&Text::new(
            panel.title.as_str(),
            (LEFT, y + PANEL_HEAD / 2),
            text(14, INK, HPos::Left),
        ))?;
        y += PANEL_HEAD;
        let most = panel.bars.iter().map(|bar| bar.spread.max).fold(f64::MIN_POSITIVE, f64::max);
        // What shrank while it was measured has no length.
        let place = |value: f64| LEFT + (value.max(0.0) / most * f64::from(LENGTH)) as i32;
        let bottom = y + STEP * panel.bars.len() as i32;
        root.draw(&PathElement::new([(LEFT, y), (LEFT, bottom)], GRID))?;
        for bar in &panel.bars {
            let middle = y + STEP / 2;
            let Spread { median, min, max } = bar.spread;
            let size = if is_ours(&bar.name) { 15 } else { 13 };
            let name = text(size, INK, HPos::Right);
            root.draw(&Text::new(bar.label.as_str(), (LEFT - 10, middle), name))?;
            let corners = [
                (LEFT, middle - THICKNESS / 2),
                (place(median).max(LEFT + 1), middle + THICKNESS / 2),
            ];
            root.draw(&Rectangle::new(corners, look(&bar.name).color.filled()))?;
            root.draw(&PathElement::new([(place(min), middle), (place(max), middle)], INK))?;
            let value =
                Text::new(number(median), (place(max) + 8, middle), text(size, INK, HPos::Left));
            root.draw(&value)?;
            y += STEP;
        }
    }
    root.present()?;
    Ok(())
}
