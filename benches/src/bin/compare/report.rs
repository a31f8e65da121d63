//! Tables, for the terminal and for the documentation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use crate::record::{Case, Record, Workload};
use crate::run::Results;

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

/// One figure of a workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) better: Better,
}

const fn less(key: &'static str, title: &'static str) -> Column {
    Column { key, title, better: Better::Less }
}

const fn more(key: &'static str, title: &'static str) -> Column {
    Column { key, title, better: Better::More }
}

/// The figures of a workload, the most important one first: ratios are taken of that.
pub(crate) fn columns(workload: Workload) -> &'static [Column] {
    match workload {
        Workload::W1 | Workload::W7 => {
            const {
                &[
                    less("ns", "ns/op"),
                    less("settled_ns", "settled"),
                    less("warm_ns", "warm"),
                    less("warm_settled_ns", "warm settled"),
                    less("backlog_ms", "backlog ms"),
                    less("bytes", "bytes/timer"),
                    less("handle_bytes", "+ handle"),
                    less("faults", "faults"),
                    less("warm_faults", "warm faults"),
                    less("fault_ns", "ns/fault"),
                ]
            }
        }
        Workload::W2 | Workload::W2b => {
            const {
                &[
                    less("ns", "ns/pair"),
                    less("settled_ns", "settled"),
                    less("left_bytes", "bytes left"),
                    less("faults", "faults"),
                ]
            }
        }
        Workload::W3 => {
            const {
                &[
                    less("last_late_ms", "last late ms"),
                    less("first_late_ms", "first late ms"),
                    more("per_second", "fired/s"),
                    less("early", "early"),
                ]
            }
        }
        Workload::W4 => {
            const {
                &[
                    less("p50_us", "p50 µs"),
                    less("p99_us", "p99 µs"),
                    less("p99.9_us", "p99.9 µs"),
                    less("p100_us", "max µs"),
                    less("early", "early"),
                    less("most_early_us", "earliest by µs"),
                    less("cpu_s", "CPU s"),
                ]
            }
        }
        Workload::W5 => const { &[less("cpu_ms", "CPU ms"), less("switches", "wake-ups")] },
        Workload::W6 => const { &[less("cpu_s", "CPU s"), more("runs", "runs/expected")] },
        Workload::A1 => const { &[less("ns", "ns/round trip")] },
        Workload::A2 | Workload::A4 => {
            const { &[less("ns", "ns/message"), less("send_ns", "ns/send")] }
        }
        Workload::A3 => {
            const {
                &[
                    less("ns", "ns/call"),
                    less("p50_us", "p50 µs"),
                    less("p99_us", "p99 µs"),
                    less("p100_us", "max µs"),
                    less("early", "early"),
                ]
            }
        }
    }
}

/// What a workload is called.
pub(crate) fn title(workload: Workload) -> &'static str {
    match workload {
        Workload::W1 => "W1, schedule",
        Workload::W2 => "W2, schedule and cancel",
        Workload::W2b => "W2b, request time-outs",
        Workload::W3 => "W3, burst",
        Workload::W4 => "W4, steady precision",
        Workload::W5 => "W5, idle",
        Workload::W6 => "W6, periodic",
        Workload::W7 => "W7, scale",
        Workload::A1 => "A1, ping-pong",
        Workload::A2 => "A2, many to one",
        Workload::A3 => "A3, scheduled sends",
        Workload::A4 => "A4, fan of actors",
    }
}

/// Median, least and most of the repetitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let (&min, &max) = (values.first()?, values.last()?);
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, min, max })
    }
}

/// One peer in one case.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) peer: String,
    pub(crate) figures: BTreeMap<String, Spread>,
    pub(crate) problems: Vec<String>,
}

/// All peers of one case, the best first and those that failed last.
pub(crate) fn rows(results: &Results, case: &Case) -> Vec<Row> {
    let mut by_peer: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in results.records.iter().filter(|record| record.case == *case) {
        by_peer.entry(&record.peer).or_default().push(record);
    }
    let mut rows: Vec<_> = by_peer.into_iter().map(|(peer, records)| row(peer, &records)).collect();
    let main = columns(case.workload)[0];
    rows.sort_by(|one, other| {
        let key = |row: &Row| {
            let value = row.figures.get(main.key)?.median;
            Some(if main.better == Better::Less { value } else { -value })
        };
        match (key(one), key(other)) {
            (Some(one), Some(other)) => one.total_cmp(&other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        }
    });
    rows
}

fn row(peer: &str, records: &[&Record]) -> Row {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut problems = Vec::new();
    for record in records {
        if record.outcome.problems.is_empty() {
            for (key, value) in &record.outcome.figures {
                values.entry(key.clone()).or_default().push(*value);
            }
        } else {
            for problem in &record.outcome.problems {
                problems.push(format!("repetition {}: {problem}", record.repetition + 1));
            }
        }
    }
    let figures =
        values.into_iter().filter_map(|(key, values)| Some((key, Spread::of(values)?))).collect();
    Row { peer: peer.to_owned(), figures, problems }
}

/// The cases there are results of, in order.
pub(crate) fn cases(results: &Results) -> Vec<Case> {
    let mut cases: Vec<_> = results.records.iter().map(|record| record.case).collect();
    cases.sort();
    cases.dedup();
    cases
}

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
    let mut head = vec!["peer".to_owned(), format!("{} (min–max)", main.title)];
    head.extend(ours.map(|_| "× ours".to_owned()));
    head.extend(floor.map(|_| "× floor".to_owned()));
    head.extend(used[1..].iter().map(|column| column.title.to_owned()));
    let mut table = vec![head];
    for row in rows {
        let mut line = vec![row.peer.clone()];
        let value = row.figures.get(main.key);
        line.push(value.map_or_else(
            || if row.problems.is_empty() { "–".to_owned() } else { "failed".to_owned() },
            |spread| {
                format!("{} ({}–{})", number(spread.median), number(spread.min), number(spread.max))
            },
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

/// Three digits are as many as mean something.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        format!("{:.1} M", value / 1e6)
    } else if size >= 1e4 {
        let thousands = (value / 1e3).trunc();
        format!("{thousands},{:03}", (size % 1e3).trunc())
    } else if size >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

fn heading(case: &Case) -> String {
    let mut heading = title(case.workload).to_owned();
    if case.workload != Workload::A4 {
        let producers = if case.producers == 1 { "producer" } else { "producers" };
        if matches!(case.workload, Workload::W1 | Workload::W2 | Workload::A2) {
            let _ = write!(heading, ": {} {producers}", case.producers);
        }
    }
    let _ = write!(heading, ", n = {}", number(case.n as f64));
    heading
}

/// All tables, for a terminal.
pub(crate) fn text(results: &Results) -> String {
    let mut out = String::new();
    for case in cases(results) {
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
fn markdown_of(results: &Results, workload: Workload) -> String {
    let mut out = String::new();
    for case in cases(results).iter().filter(|case| case.workload == workload) {
        let rows = rows(results, case);
        let _ = writeln!(out, "**{}**\n", heading(case));
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

/// The machine, as Markdown.
fn markdown_machine(results: &Results) -> String {
    let machine = &results.machine;
    let versions: Vec<_> =
        machine.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let mut out = String::new();
    let _ = writeln!(out, "| | |\n| --- | --- |");
    for (name, value) in [
        ("processor", format!("{}, {} cores", machine.cpu, machine.cores)),
        ("memory", format!("{:.1} GiB", machine.memory_gib)),
        ("kernel", machine.kernel.clone()),
        ("compiler", machine.rustc.clone()),
        ("allocator", machine.allocator.clone()),
        ("commit", machine.commit.clone()),
        ("command line", format!("`compare {}`", machine.command_line)),
        ("repetitions", format!("{}", repetitions(results))),
        ("scale", format!("{}", results.scale)),
        ("load before", machine.load.clone()),
        ("versions", versions.join(", ")),
    ] {
        let _ = writeln!(out, "| {name} | {value} |");
    }
    out
}

fn repetitions(results: &Results) -> u32 {
    results.records.iter().map(|record| record.repetition + 1).max().unwrap_or(0)
}

/// Writes the tables into a page: between the lines `<!-- compare: W1 -->` and `<!-- end -->`, for each
/// workload there are results of, and `<!-- compare: machine -->`. A page that does not exist is made, with
/// tables only.
pub(crate) fn write_markdown(results: &Results, path: &Path) -> io::Result<()> {
    let mut workloads: Vec<_> = cases(results).iter().map(|case| case.workload).collect();
    workloads.dedup();
    let mut parts = vec![("machine".to_owned(), markdown_machine(results))];
    parts.extend(
        workloads.iter().map(|&workload| (workload.to_string(), markdown_of(results, workload))),
    );
    let page = match fs::read_to_string(path) {
        Ok(page) => parts.iter().fold(page, |page, (name, part)| fill(&page, name, part)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join("\n")
        }
        Err(error) => return Err(error),
    };
    fs::write(path, page)
}

fn fill(page: &str, name: &str, part: &str) -> String {
    let begin = format!("<!-- compare: {name} -->\n");
    let Some((before, rest)) = page.split_once(&begin) else { return page.to_owned() };
    let Some((_, after)) = rest.split_once("<!-- end -->") else { return page.to_owned() };
    format!("{before}{begin}\n{}\n\n<!-- end -->{after}", part.trim_end())
}
