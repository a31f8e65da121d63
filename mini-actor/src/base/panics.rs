//! Containing panics of foreign code.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs foreign code; a panic in it ends here and gives its message.
#[inline]
pub(crate) fn contain<R>(code: impl FnOnce() -> R) -> Result<R, String> {
    // Unwind safety: what a panicking actor or message leaves behind is dropped, or kept by a
    // decision of its owner (`Directive::Resume`).
    catch_unwind(AssertUnwindSafe(code)).map_err(message_of)
}

/// Logs where a panic of the subscriber would cost more than the message.
pub(crate) fn quietly(log: impl FnOnce()) {
    let _ = contain(log);
}

#[cold]
fn message_of(payload: Box<dyn Any + Send>) -> String {
    let message = payload
        .downcast_ref::<&'static str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(a panic without a message)".to_owned());
    // The payload's destructor may panic in turn, with a payload whose destructor panics, and so
    // on.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    message
}
