//! Containing the panics of foreign code: tasks, hooks, log subscribers, destructors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls foreign code whose panics are dropped: log subscribers, above all. A panic that went
/// further would cost more than the message: a task in our hands, or the process.
pub fn quietly(log: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(log)) {
        dispose(payload);
    }
}

/// Runs foreign code; a panic in it ends here and gives its message.
#[inline]
pub fn contain<R>(code: impl FnOnce() -> R) -> Result<R, String> {
    // Unwind safety: whatever `code` leaves half done is dropped, or its owner decides to go on
    // with it.
    catch_unwind(AssertUnwindSafe(code)).map_err(told)
}

/// What a panic said, and the end of its payload.
#[cold]
fn told(payload: Box<dyn Any + Send>) -> String {
    let message = message_of(&*payload).to_owned();
    dispose(payload);
    message
}

/// What a panic says.
pub fn message_of(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "(a panic without a message)"
    }
}

/// Drops a panic's payload, whose destructor may panic in turn, and that panic's payload as well.
pub fn dispose(mut payload: Box<dyn Any + Send>) {
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

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Bomb);
        }
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped_goes_no_further() {
        quietly(|| std::panic::panic_any(Bomb));
        let said = contain(|| std::panic::panic_any(Bomb)).unwrap_err();
        assert_eq!(said, "(a panic without a message)");
    }

    #[test]
    fn what_a_panic_said_is_known_and_what_did_not_panic_is_returned() {
        assert_eq!(contain(|| panic!("no such file")), Err::<(), _>("no such file".to_owned()));
        assert_eq!(contain(|| panic!("number {}", 7)), Err::<(), _>("number 7".to_owned()));
        assert_eq!(contain(|| 7), Ok(7));
    }
}
