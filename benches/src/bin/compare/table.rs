//! Tables, for a terminal and for a page.

use std::fmt::Write as _;

use crate::figures::{columns, number, title};
use crate::record::{Case, Workload};
use crate::results::Results;
use crate::summary::{Row, rows};

/// A table as cells, the headings first.
fn table(workload: Workload, rows: &[Row]) -> Vec<Vec<String>> {
    let columns = columns(workload);
    // What no peer has is left out.
    let used: Vec<_> = columns
        .iter()
        .filter(|column| rows.iter().any(|row| row.figures.contains_key(column.key)))
        .collect();
    let Some(main) = used.first() else { return Vec::new() };
    let base = |peer: &str| {
        let row = rows.iter().find(|row| row.peer == peer)?;
        Some(row.figures.get(main.key)?.median)
    };
    let ours = base(if workload.is_actors() { "mini-actor" } else { "lars-scheduler" });
    let floor = base("floor");
    let mut head = vec!["peer".to_owned(), main.title.to_owned()];
    head.extend(ours.map(|_| "× ours".to_owned()));
    head.extend(floor.map(|_| "× floor".to_owned()));
    head.extend(used[1..].iter().map(|column| column.title.to_owned()));
    let mut table = vec![head];
    for row in rows {
        let mut line = vec![row.label()];
        let value = row.figures.get(main.key);
        line.push(value.map_or_else(
            || if row.problems.is_empty() { "–".to_owned() } else { "failed".to_owned() },
            |spread| spread.to_string(),
        ));
        for base in [ours, floor].into_iter().flatten() {
            line.push(value.map_or_else(|| "–".to_owned(), |spread| ratio(spread.median, base)));
        }
        for column in &used[1..] {
            line.push(
                row.figures
                    .get(column.key)
                    .map_or_else(|| "–".to_owned(), |spread| number(spread.median)),
            );
        }
        table.push(line);
    }
    table
}

fn ratio(value: f64, base: f64) -> String {
    let ratio = value / base;
    if ratio.is_finite() { format!("{ratio:.2}") } else { "–".to_owned() }
}

fn heading(case: &Case) -> String {
    let producers = match (case.workload, case.producers) {
        (Workload::W1 | Workload::W2 | Workload::A2, 1) => ": 1 producer".to_owned(),
        (Workload::W1 | Workload::W2 | Workload::A2, several) => format!(": {several} producers"),
        _ => String::new(),
    };
    format!("{}{producers}, n = {}", title(case.workload), number(case.n as f64))
}

/// All tables, for a terminal.
pub(crate) fn text(results: &Results) -> String {
    let mut out = String::new();
    for case in results.cases() {
        let rows = rows(results, &case);
        let _ = writeln!(out, "\n{}", heading(&case));
        let table = table(case.workload, &rows);
        let widths: Vec<usize> = (0..table.first().map_or(0, Vec::len))
            .map(|column| {
                table.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
            })
            .collect();
        for line in &table {
            for (number, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let _ = if number == 0 {
                    write!(out, "  {cell:width$}")
                } else {
                    write!(out, "  {cell:>width$}")
                };
            }
            out.push('\n');
        }
        for (peer, problem) in problems(&rows) {
            let _ = writeln!(out, "  !! {peer}, {problem}");
        }
    }
    out
}

fn problems(rows: &[Row]) -> impl Iterator<Item = (&str, &str)> {
    rows.iter()
        .flat_map(|row| row.problems.iter().map(|problem| (row.peer.as_str(), problem.as_str())))
}

/// The tables of one workload, as Markdown.
pub(crate) fn markdown(results: &Results, workload: Workload) -> String {
    let mut out = String::new();
    for case in results.cases_of(workload) {
        let rows = rows(results, &case);
        let _ = writeln!(out, "**{}**\n", heading(&case));
        for (number, line) in table(workload, &rows).iter().enumerate() {
            let _ = writeln!(out, "| {} |", line.join(" | "));
            if number == 0 {
                let rule: Vec<_> =
                    (0..line.len()).map(|column| if column == 0 { "---" } else { "--:" }).collect();
                let _ = writeln!(out, "| {} |", rule.join(" | "));
            }
        }
        for (peer, problem) in problems(&rows) {
            let _ = writeln!(out, "\n{peer}, {problem}");
        }
        out.push('\n');
    }
    out
}
