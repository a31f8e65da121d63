//! Plots, as SVG files that need no fonts to be made.

use std::path::Path;

use plotters::prelude::*;

use crate::AnyError;
use crate::report::Report;

const OURS: RGBColor = RGBColor(200, 30, 45);
const BARE: RGBColor = RGBColor(130, 130, 130);
const OTHER: RGBColor = RGBColor(0, 114, 178);
const SIZE: (u32, u32) = (860, 420);

type Series = (String, RGBColor, Vec<(f64, f64)>);

pub(crate) fn draw(report: &Report, directory: &Path) -> Result<(), AnyError> {
    std::fs::create_dir_all(directory)?;
    if !report.rates.is_empty() {
        rates(report, &directory.join("durable-postgres-rates.svg"))?;
    }
    let late: Vec<Series> = report
        .late
        .iter()
        .filter(|(name, _)| name.ends_with("pending"))
        .zip([BARE, OURS, OTHER, BLACK, GREEN, MAGENTA].into_iter().cycle())
        .map(|((name, late), color)| {
            // Of how many runs one is later, so that the last percentiles can be told apart.
            let point = |(part, micros): &(f64, i64)| {
                let one_in = 1.0 / (1.0 - part).max(1.0 / late.runs as f64);
                (one_in.log10(), (*micros as f64 / 1_000.0).max(0.01))
            };
            (name.clone(), color, late.percentiles.iter().map(point).collect())
        })
        .collect();
    if !late.is_empty() {
        let file = directory.join("durable-postgres-lateness.svg");
        let x = "one run in 10^x is later";
        lines(&file, "PostgreSQL: how late runs are, 1,000 a second", x, &late)?;
    }
    let mut courses: Vec<Series> = Vec::new();
    for (name, course) in &report.courses {
        let half = course.iter().map(|(at, half, _)| (*at, half.max(0.01))).collect();
        let most = course.iter().map(|(at, _, most)| (*at, most.max(0.01))).collect();
        courses.push((format!("{name}: p50"), BARE, half));
        courses.push((format!("{name}: p99"), OURS, most));
    }
    if !courses.is_empty() {
        let file = directory.join("durable-postgres-held.svg");
        let x = "seconds since the snapshot was taken";
        lines(&file, "PostgreSQL: lateness beside a snapshot that is held", x, &courses)?;
    }
    Ok(())
}

fn rates(report: &Report, file: &Path) -> Result<(), AnyError> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let most = report.rates.values().map(|(ours, bare)| ours.max(*bare)).fold(1.0, f64::max);
    let count = report.rates.len() as f64;
    let mut chart = ChartBuilder::on(&root)
        .caption("PostgreSQL: timers a second, ours beside the bare loop", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(10)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..count, 0.0..most * 1.1)?;
    chart.configure_mesh().disable_x_mesh().disable_x_axis().draw()?;
    for (place, (name, (ours, bare))) in report.rates.iter().enumerate() {
        let left = place as f64;
        let bar = |from: f64, to: f64, height: f64, color: RGBColor| {
            Rectangle::new([(left + from, 0.0), (left + to, height)], color.filled())
        };
        chart.draw_series([bar(0.1, 0.48, *ours, OURS), bar(0.52, 0.9, *bare, BARE)])?;
        let label = name.split(',').next().unwrap_or(name).to_owned();
        let at = (left + 0.1, most * (1.07 - 0.05 * (place % 2) as f64));
        chart.draw_series([Text::new(label, at, ("sans-serif", 13))])?;
    }
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
