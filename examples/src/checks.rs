//! How an example tells whether it has kept its word: an error makes it fail.

use std::error::Error;
use std::fmt;

/// Why an example failed, in a sentence. An error that `main` returns is printed by its `Debug`,
/// so this is what that of a `Problem` says. It is made of any error, by `?`.
///
/// # Examples
///
/// ```
/// use examples::checks::Problem;
/// # use std::{error::Error, fmt, num::ParseIntError};
/// # #[derive(Debug)]
/// # struct BadOrder(ParseIntError);
/// # impl fmt::Display for BadOrder {
/// #     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
/// #         f.write_str("no order has this number")
/// #     }
/// # }
/// # impl Error for BadOrder {
/// #     fn source(&self) -> Option<&(dyn Error + 'static)> { Some(&self.0) }
/// # }
///
/// fn find(order: &str) -> Result<u32, Problem> {
///     Ok(order.parse().map_err(BadOrder)?)
/// }
///
/// let problem = find("one").unwrap_err();
/// let sentence = "no order has this number: invalid digit found in string";
/// assert_eq!(format!("{problem:?}"), sentence);
/// ```
pub struct Problem(String);

impl<E: Into<Box<dyn Error>>> From<E> for Problem {
    fn from(error: E) -> Self {
        let error = error.into();
        let (mut sentence, mut source) = (error.to_string(), error.source());
        while let Some(error) = source {
            let reason = error.to_string();
            // Many errors say their sources themselves.
            if !sentence.contains(&reason) {
                sentence = format!("{sentence}: {reason}");
            }
            source = error.source();
        }
        Self(sentence)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

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
