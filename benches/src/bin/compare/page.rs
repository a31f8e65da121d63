//! Tables and plots, put into a page.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::plots;
use crate::results::Results;
use crate::table;

/// Where plots are, seen from the page.
const PLOTS: &str = "plots";

const END: &str = "<!-- end -->";

/// The machine, as Markdown.
fn machine(results: &Results) -> String {
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
        ("command", format!("`{}`", format!("compare {}", machine.arguments).trim_end())),
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

/// Writes tables and plots into a page: between the lines `<!-- compare: W1 -->` and
/// `<!-- end -->`, for each workload there are results of, and `<!-- compare: machine -->`. The
/// plots go into `plots` beside the page.
pub(crate) fn fill(results: &Results, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut page = fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let plots = plots::draw(results, &path.with_file_name(PLOTS))?;
    put(&mut page, "machine", &machine(results))?;
    let mut workloads: Vec<_> = results.cases().iter().map(|case| case.workload).collect();
    workloads.dedup();
    for workload in workloads {
        let images: String = plots
            .iter()
            .filter(|plot| plot.workload == workload)
            .map(|plot| format!("![{}]({PLOTS}/{})\n\n", plot.title, plot.file))
            .collect();
        put(&mut page, &workload.to_string(), &(images + &table::markdown(results, workload)))?;
    }
    fs::write(path, page).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(())
}

/// Replaces what stands between the marks of this name.
fn put(page: &mut String, name: &str, part: &str) -> Result<(), String> {
    let begin = format!("<!-- compare: {name} -->\n");
    let missing = || format!("the page has no line `{}` with an `{END}` after it", begin.trim());
    let from = page.find(&begin).ok_or_else(missing)? + begin.len();
    let to = from + page[from..].find(END).ok_or_else(missing)?;
    page.replace_range(from..to, &format!("\n{}\n\n", part.trim_end()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::record::Workload;

    #[test]
    fn what_stands_between_the_marks_is_replaced_and_nothing_else() {
        let mut page = "a\n<!-- compare: W1 -->\nold\n<!-- end -->\nb\n".to_owned();
        put(&mut page, "W1", "new\n").expect("the marks are there");
        let once = "a\n<!-- compare: W1 -->\n\nnew\n\n<!-- end -->\nb\n";
        assert_eq!(page, once);
        put(&mut page, "W1", "new\n").expect("the marks are still there");
        assert_eq!(page, once);
    }

    #[test]
    fn the_page_of_this_repository_has_a_place_for_every_workload() {
        let mut page = include_str!("../../../../docs/benchmarks.md").to_owned();
        for workload in Workload::value_variants() {
            put(&mut page, &workload.to_string(), "new").expect("the marks are there");
        }
    }

    #[test]
    fn a_page_without_the_mark_is_an_error_that_names_it() {
        let error = put(&mut "no marks".to_owned(), "W2", "new").expect_err("there is no mark");
        assert!(error.contains("<!-- compare: W2 -->"), "{error}");
    }
}
