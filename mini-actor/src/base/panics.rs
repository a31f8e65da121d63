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
    dispose(payload);
    message
}

/// Drops a panic's payload, whose destructor may panic in turn, and that panic's payload as well.
fn dispose(mut payload: Box<dyn Any + Send>) {
    const ATTEMPTS: usize = 8;
    for _ in 0..ATTEMPTS {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(again) => payload = again,
        }
    }
    // Each destructor panics with another such payload, which could go on forever.
    std::mem::forget(payload);
}
