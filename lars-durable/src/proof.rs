//! What holds the promises: one suite for all stores, a simulation of several nodes over a store
//! that fails, real processes that are killed, and a disk that loses what was not synced. What
//! callers and handlers saw goes through one checker.

mod conformance;
mod exhaustive;
#[cfg(unix)]
mod fork;
mod history;
mod kill;
mod lanes;
mod node;
#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
mod postgres;
mod power;
mod simulation;
mod tempdir;

/// What went wrong as a person can read it: its first lines. The rest goes into a file, which it
/// names.
fn in_short(name: &str, wrong: &str) -> String {
    const LINES: usize = 12;
    let kept = std::env::temp_dir().join(format!("lars-durable-{name}.log"));
    std::fs::write(&kept, wrong).unwrap();
    let first: Vec<String> = wrong.lines().take(LINES).map(|it| format!("{it:.400}")).collect();
    let (first, all) = (first.join("\n"), wrong.lines().count());
    format!("{first}\n(the first of {all} lines; all of them are in {})", kept.display())
}

/// Asserts that two long lists are the same: where they first differ is enough to read.
#[track_caller]
fn assert_same<T: PartialEq + std::fmt::Debug>(found: &[T], expected: &[T], what: &str) {
    let at = found.iter().zip(expected).take_while(|(one, other)| one == other).count();
    assert!(
        found == expected,
        "{what}: {} instead of {}; the first difference is at {at}: {:?} instead of {:?}",
        found.len(),
        expected.len(),
        found.get(at),
        expected.get(at)
    );
}
