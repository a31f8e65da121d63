//! Lines over a logarithmic scale, with a legend in the order in which they end.

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, KeyPointWeight, Ranged};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::style::{FONT, GRID, INK, WIDTH, look, text};
use crate::figures::number;

/// One peer.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// What the legend says.
    pub(super) label: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// An axis with marks where they are wanted, and nowhere else.
struct Marked {
    marks: Vec<f64>,
}

impl Ranged for Marked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let Range { start, end } = self.range();
        low + ((value - start) / (end - start) * f64::from(high - low)) as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight() {
            KeyPointWeight::Bold => self.marks.clone(),
            KeyPointWeight::Any => Vec::new(),
        }
    }

    fn range(&self) -> Range<f64> {
        let first = self.marks.first().copied().unwrap_or(0.0);
        let last = self.marks.last().copied().unwrap_or(1.0);
        first..last
    }
}

/// All of a plot.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) x_title: &'static str,
    pub(super) y_title: &'static str,
    /// Where the axis has marks, and what they say.
    pub(super) x_marks: Vec<(f64, String)>,
    pub(super) lines: Vec<Line>,
}

const HEIGHT: u32 = 460;
const LEGEND: u32 = 210;
const LEGEND_STEP: i32 = 22;

/// The least that is drawn: a logarithm has no zero.
const LEAST: f64 = 1.0;

pub(super) fn draw(path: &Path, title: &str, plot: &Lines) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(path, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(WIDTH - LEGEND);

    let values = || plot.lines.iter().flat_map(|line| &line.points).map(|(_, y)| y.max(LEAST));
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(LEAST, f64::max);
    let marks: Vec<_> = plot.x_marks.iter().map(|mark| mark.0).collect();
    let mut chart = ChartBuilder::on(&left)
        .caption(title, (FONT, 20).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(
            Marked { marks },
            ((least / 1.3).max(LEAST / 1.3)..most * 1.3).log_scale(),
        )?;
    let name_of = |x: &f64| {
        let mark = plot.x_marks.iter().find(|mark| (mark.0 - x).abs() < 1e-9);
        mark.map_or_else(String::new, |mark| mark.1.clone())
    };
    chart
        .configure_mesh()
        .x_desc(plot.x_title)
        .y_desc(plot.y_title)
        .x_label_formatter(&name_of)
        .y_label_formatter(&|y| number(*y))
        .label_style((FONT, 13).into_font().color(&INK))
        .axis_desc_style((FONT, 14).into_font().color(&INK))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .draw()?;

    // Ours last, on top of the others.
    let mut lines: Vec<_> = plot.lines.iter().collect();
    lines.sort_by_key(|line| look(&line.name).width);
    for line in &lines {
        let look = look(&line.name);
        let points = line.points.iter().map(|&(x, y)| (x, y.max(LEAST)));
        chart.draw_series(LineSeries::new(points.clone(), look.color.stroke_width(look.width)))?;
        let style = if look.filled { look.color.filled() } else { look.color.stroke_width(2) };
        chart.draw_series(points.map(|point| Circle::new(point, 4, style)))?;
    }

    let end = |line: &Line| line.points.last().map_or(0.0, |point| point.1);
    lines.sort_by(|one, other| end(other).total_cmp(&end(one)));
    for (place, line) in lines.iter().enumerate() {
        let y = 50 + LEGEND_STEP * place as i32;
        let look = look(&line.name);
        let stroke = look.color.stroke_width(look.width);
        right.draw(&PathElement::new([(6, y), (34, y)], stroke))?;
        let style = if look.filled { look.color.filled() } else { look.color.stroke_width(2) };
        right.draw(&Circle::new((20, y), 4, style))?;
        let size = if look.width > 2 { 15 } else { 13 };
        right.draw(&Text::new(line.label.as_str(), (44, y), text(size, INK, HPos::Left)))?;
    }
    root.present()?;
    Ok(())
}
