//! Running foreign code that belongs to no actor.

use std::fmt::Display;

use lars_base::panics::{contain, quietly};

/// Runs foreign code that belongs to no actor. A panic in it ends here, and is logged: `what`
/// panicked.
pub(crate) fn guard<R>(what: impl Display, code: impl FnOnce() -> R) -> Option<R> {
    let report = |message: String| {
        quietly(|| tracing::error!(target: "mini_actor", message, "{what} panicked"));
    };
    contain(code).map_err(report).ok()
}
