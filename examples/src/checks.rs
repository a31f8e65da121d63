//! How an example tells whether it has kept its word: an error makes it fail.

use std::error::Error;

/// Prints whether each of these holds.
///
/// # Errors
///
/// If one does not.
pub fn verify(checks: &[(&str, bool)]) -> Result<(), Box<dyn Error>> {
    for (what, holds) in checks {
        println!("  {} {what}", if *holds { "ok    " } else { "FAILED" });
    }
    match checks.iter().filter(|(_, holds)| !holds).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} checks failed", checks.len()).into()),
    }
}

/// # Errors
///
/// `otherwise`, unless `holds`.
pub fn ensure(holds: bool, otherwise: &str) -> Result<(), Box<dyn Error>> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}
