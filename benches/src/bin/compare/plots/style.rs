//! Colours and sizes. Ours stand out, and a peer looks the same in every plot.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::peer::is_ours;
use crate::peers;

pub(super) const WIDTH: u32 = 860;
pub(super) const FONT: &str = "sans-serif";
pub(super) const INK: RGBColor = RGBColor(40, 40, 40);
pub(super) const GRID: RGBColor = RGBColor(225, 225, 225);

const OURS: RGBColor = RGBColor(200, 30, 45);
const OURS_ON_POOL: RGBColor = RGBColor(115, 10, 40);

/// Together with the marks on the lines, readers who are colour-blind can tell these apart, too.
const OTHERS: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 60),
    RGBColor(106, 61, 154),
    RGBColor(150, 150, 20),
    RGBColor(0, 90, 80),
];

/// How a peer is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) color: RGBColor,
    pub(super) width: u32,
    pub(super) filled: bool,
}

pub(super) fn look(name: &str) -> Look {
    if is_ours(name) {
        let color = if name.ends_with("-pool") { OURS_ON_POOL } else { OURS };
        return Look { color, width: 3, filled: name.ends_with(|end: char| end != 's') };
    }
    if name == "floor" {
        return Look { color: RGBColor(130, 130, 130), width: 2, filled: false };
    }
    let others =
        peers::all().into_iter().filter(|peer| !is_ours(peer.name) && peer.name != "floor");
    let place = others.map(|peer| peer.name).position(|other| other == name).unwrap_or_default();
    let color = OTHERS[place % OTHERS.len()];
    Look { color, width: 2, filled: (place / OTHERS.len()).is_multiple_of(2) }
}

pub(super) fn text(size: i32, color: RGBColor, across: HPos) -> TextStyle<'static> {
    (FONT, size).into_font().color(&color).pos(Pos::new(across, VPos::Center))
}
