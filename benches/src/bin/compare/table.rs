//! Tables, for a terminal and for a page.

use std::fmt::Write as _;

use crate::figures::{columns, number, title};
use crate::record::{Case, Workload};
use crate::results::Results;
use crate::summary::{Row, capacities, rows};

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
    let what = match (case.workload, case.producers) {
        (Workload::W13, _) => format!(": {} timers/s", number(case.rate())),
        (Workload::W17, 1) => ": 1 thread".to_owned(),
        (Workload::W17, several) => format!(": {several} threads"),
        (Workload::W1 | Workload::W2 | Workload::W8 | Workload::A2, 1) => ": 1 producer".to_owned(),
        (Workload::W1 | Workload::W2 | Workload::W8 | Workload::A2, several) => {
            format!(": {several} producers")
        }
        _ => String::new(),
    };
    format!("{}{what}, n = {}", title(case.workload), number(case.n as f64))
}

/// What W13 is about: the load that each peer carries.
const CAPACITY: &str =
    "W13, capacity: the highest load with p99 of at most 5 ms and the producers on time";

/// Capacities as cells, the headings first; empty if none were measured.
fn capacity_table(results: &Results) -> Vec<Vec<String>> {
    let capacities = capacities(results);
    if capacities.is_empty() {
        return Vec::new();
    }
    let head = vec!["peer".to_owned(), "timers/s".to_owned()];
    let lines = capacities
        .into_iter()
        .map(|(peer, load)| vec![peer, load.map_or_else(|| "none of these".to_owned(), number)]);
    std::iter::once(head).chain(lines).collect()
}

/// All tables, for a terminal.
pub(crate) fn text(results: &Results) -> String {
    let mut out = String::new();
    for case in results.compared() {
        let rows = rows(results, &case);
        let _ = writeln!(out, "\n{}", heading(&case));
        align(&mut out, &table(case.workload, &rows));
        for (peer, problem) in problems(&rows) {
            let _ = writeln!(out, "  !! {peer}, {problem}");
        }
    }
    let capacities = capacity_table(results);
    if !capacities.is_empty() {
        let _ = writeln!(out, "\n{CAPACITY}");
        align(&mut out, &capacities);
    }
    out
}

/// Writes a table with its columns one below the other.
fn align(out: &mut String, table: &[Vec<String>]) {
    let widths: Vec<usize> = (0..table.first().map_or(0, Vec::len))
        .map(|column| {
            table.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
        })
        .collect();
    for line in table {
        for (number, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let _ = if number == 0 {
                write!(out, "  {cell:width$}")
            } else {
                write!(out, "  {cell:>width$}")
            };
        }
        out.push('\n');
    }
}

fn problems(rows: &[Row]) -> impl Iterator<Item = (&str, &str)> {
    rows.iter()
        .flat_map(|row| row.problems.iter().map(|problem| (row.peer.as_str(), problem.as_str())))
}

/// The tables of one workload, as Markdown.
pub(crate) fn markdown(results: &Results, workload: Workload) -> String {
    let mut out = String::new();
    if workload == Workload::W13 {
        let _ = writeln!(out, "**{CAPACITY}**\n");
        write_markdown(&mut out, &capacity_table(results));
        out.push('\n');
    }
    for case in results.compared().into_iter().filter(|case| case.workload == workload) {
        let rows = rows(results, &case);
        let _ = writeln!(out, "**{}**\n", heading(&case));
        write_markdown(&mut out, &table(workload, &rows));
        for (peer, problem) in problems(&rows) {
            let _ = writeln!(out, "\n{peer}, {problem}");
        }
        out.push('\n');
    }
    out
}

fn write_markdown(out: &mut String, table: &[Vec<String>]) {
    for (number, line) in table.iter().enumerate() {
        let _ = writeln!(out, "| {} |", line.join(" | "));
        if number == 0 {
            let rule: Vec<_> =
                (0..line.len()).map(|column| if column == 0 { "---" } else { "--:" }).collect();
            let _ = writeln!(out, "| {} |", rule.join(" | "));
        }
    }
}
