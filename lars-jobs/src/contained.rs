//! Running a user's code where there is no scheduler at hand.

use lars_base::panics;

/// Runs the code of a user. A panic in it ends here, and is logged. True if there was none.
pub(crate) fn contain(code: impl FnOnce()) -> bool {
    let Err(message) = panics::contain(code) else { return true };
    panics::quietly(|| {
        tracing::error!(target: "lars_jobs", message, "contained a panic");
    });
    false
}
