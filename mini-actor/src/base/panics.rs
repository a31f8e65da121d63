//! Running foreign code that belongs to no actor.

use std::fmt::Display;

use lars_base::panics::{contain, quietly};

/// Runs foreign code that belongs to no actor. A panic in it ends here, and is logged: `what`
/// panicked.
pub(crate) fn guard<R>(what: impl Display, code: impl FnOnce() -> R) -> Option<R> {
    contain(code).map_err(|message| report(&what, &message)).ok()
}

#[cold]
fn report(what: &dyn Display, message: &str) {
    quietly(|| tracing::error!(target: "mini_actor", message, "{what} panicked"));
}
