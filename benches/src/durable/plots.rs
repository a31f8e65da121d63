//! Plots, as SVG files that need no fonts to be made.

use std::collections::BTreeSet;
use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::{AnyError, Report};

const OURS: RGBColor = RGBColor(200, 30, 45);
const BARE: RGBColor = RGBColor(130, 130, 130);
const OTHER: RGBColor = RGBColor(0, 114, 178);
const OTHERS: [RGBColor; 4] = [OTHER, BLACK, GREEN, MAGENTA];
const COLORS: [RGBColor; 6] = [BARE, OURS, OTHER, BLACK, GREEN, MAGENTA];
const SIZE: (u32, u32) = (860, 420);
const ONE_IN: &str = "one run in 10^x is later";

type Series = (String, RGBColor, Vec<(f64, f64)>);

pub(super) fn draw(report: &Report, store: &str, directory: &Path) -> Result<(), AnyError> {
    std::fs::create_dir_all(directory)?;
    let name = if store == "postgres" { "PostgreSQL" } else { "SQLite" };
    let file = |what: &str| directory.join(format!("durable-{store}-{what}.svg"));
    if !report.rates.is_empty() {
        rates(report, name, &file("rates"))?;
    }
    if !report.peers.is_empty() {
        peers(report, name, &file("peers"))?;
    }
    let pending = late(report, |name| name.ends_with("pending"));
    if !pending.is_empty() {
        let title = format!("{name}: how late runs are, 1,000 a second");
        lines(&file("lateness"), &title, ONE_IN, &pending)?;
    }
    let beside = late(report, |name| name.ends_with("/s"));
    if !beside.is_empty() {
        let title = format!("{name}: how late runs are, beside other crates");
        lines(&file("peers-lateness"), &title, ONE_IN, &beside)?;
    }
    let mut courses: Vec<Series> = Vec::new();
    for (name, course) in &report.courses {
        let half = course.iter().map(|(at, half, _)| (*at, half.max(0.01))).collect();
        let most = course.iter().map(|(at, _, most)| (*at, most.max(0.01))).collect();
        courses.push((format!("{name}: p50"), BARE, half));
        courses.push((format!("{name}: p99"), OURS, most));
    }
    if !courses.is_empty() {
        let x = "seconds since the snapshot was taken";
        let title = format!("{name}: lateness beside a snapshot that is held");
        lines(&file("held"), &title, x, &courses)?;
    }
    Ok(())
}

/// The percentiles of those whose name is one of these.
fn late(report: &Report, wanted: impl Fn(&str) -> bool) -> Vec<Series> {
    let chosen = report.late.iter().filter(|(name, _)| wanted(name));
    chosen
        .zip(COLORS.into_iter().cycle())
        .map(|((name, late), color)| {
            // Of how many runs one is later, so that the last percentiles can be told apart.
            let point = |(part, micros): &(f64, i64)| {
                let one_in = 1.0 / (1.0 - part).max(1.0 / late.runs as f64);
                (one_in.log10(), (*micros as f64 / 1_000.0).max(0.01))
            };
            (name.clone(), color, late.percentiles.iter().map(point).collect())
        })
        .collect()
}

/// Ours beside the bare loop.
fn rates(report: &Report, store: &str, file: &Path) -> Result<(), AnyError> {
    let title = format!("{store}: timers a second, ours beside the bare loop");
    let most = report.rates.values().map(|rate| rate.ours.max(rate.bare)).fold(1.0, f64::max);
    let groups = report.rates.iter().map(|(name, rate)| {
        (name.as_str(), vec![("ours", OURS, rate.ours), ("bare loop", BARE, rate.bare)])
    });
    bars(file, &title, 0.0..most * 1.15, &groups.collect::<Vec<_>>())
}

/// Ours beside other crates, which takes a logarithm.
fn peers(report: &Report, store: &str, file: &Path) -> Result<(), AnyError> {
    let title = format!("{store}: timers a second, ours beside other crates");
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (what, rates) in &report.peers {
        let ours = report.rates.get(what).map_or(0.0, |rate| rate.ours);
        let others = rates.iter().zip(OTHERS.into_iter().cycle());
        let others = others.map(|((name, rate), color)| (name.as_str(), color, *rate));
        groups.push((what, std::iter::once(("ours", OURS, ours)).chain(others).collect()));
    }
    let all = || groups.iter().flat_map(|(_, bars)| bars).map(|(_, _, rate)| *rate);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(1.0, f64::max));
    bars(file, &title, (least.max(1.0) / 2.0..most * 3.0).log_scale(), &groups)
}

/// What is compared, and each bar: its name, color and height.
type Group<'a> = (&'a str, Vec<(&'a str, RGBColor, f64)>);

fn bars<Y>(file: &Path, title: &str, y: Y, groups: &[Group<'_>]) -> Result<(), AnyError>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..groups.len() as f64, y)?;
    let bottom = chart.y_range().start;
    chart.configure_mesh().disable_x_mesh().disable_x_axis().draw()?;
    let mut named = BTreeSet::new();
    for (place, (what, bars)) in groups.iter().enumerate() {
        let width = 0.8 / bars.len() as f64;
        for (number, (name, color, height)) in bars.iter().enumerate() {
            let (color, left) = (*color, place as f64 + 0.1 + width * number as f64);
            let corners = [(left, bottom), (left + width * 0.95, *height)];
            let drawn = chart.draw_series([Rectangle::new(corners, color.filled())])?;
            if named.insert(*name) {
                drawn.label(*name).legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled())
                });
            }
        }
        // Below the axis, in pixels: the heights have a logarithm at times.
        let label = what.split(',').next().unwrap_or(what).to_owned();
        let (x, y) = chart.backend_coord(&(place as f64 + 0.1, bottom));
        root.draw(&Text::new(label, (x, y + 8), ("sans-serif", 13)))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

fn lines(file: &Path, title: &str, x: &str, all: &[Series]) -> Result<(), AnyError> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let points = || all.iter().flat_map(|(_, _, points)| points);
    let right = points().map(|(x, _)| *x).fold(1.0, f64::max);
    let top = points().map(|(_, y)| *y).fold(1.0, f64::max);
    let bottom = points().map(|(_, y)| *y).fold(f64::INFINITY, f64::min).max(0.01);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..right, (bottom * 0.8..top * 1.3).log_scale())?;
    chart.configure_mesh().x_desc(x).y_desc("late, ms").draw()?;
    for (name, color, points) in all {
        let color = *color;
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    let frame = BLACK.mix(0.3);
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(frame)
        .draw()?;
    root.present()?;
    Ok(())
}
