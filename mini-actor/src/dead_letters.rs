//! Messages that reached nobody.

use std::any::type_name;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sync::Ordering;
use crate::sync::plain::AtomicU64;

/// A message that was accepted or scheduled and could not be received, because its actor had stopped.
///
/// Messages that `tell` refused are not among them: those were given back to their sender.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeadLetter<'a> {
    /// The name of the actor that it was for.
    pub recipient: &'a str,
    /// The type of the message.
    pub message_type: &'static str,
}

type Hook = Box<dyn Fn(&DeadLetter<'_>) + Send + Sync>;

#[derive(Default)]
pub(crate) struct DeadLetters {
    count: AtomicU64,
    hook: Option<Hook>,
}

impl DeadLetters {
    pub(crate) fn new(hook: Option<Hook>) -> Self {
        Self { count: AtomicU64::new(0), hook }
    }

    /// Counts, tells, and drops a message. Whatever the hook or the message's destructor does, the
    /// caller goes on.
    pub(crate) fn bury<M>(&self, recipient: &str, message: M) {
        // Relaxed: a statistic.
        self.count.fetch_add(1, Ordering::Relaxed);
        let letter = DeadLetter { recipient, message_type: type_name::<M>() };
        tracing::debug!(
            target: "mini_actor",
            recipient,
            message_type = letter.message_type,
            "dead letter"
        );
        let told = catch_unwind(AssertUnwindSafe(|| {
            if let Some(hook) = &self.hook {
                hook(&letter);
            }
        }));
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(message)));
        if told.is_err() || dropped.is_err() {
            tracing::error!(target: "mini_actor", recipient, "the end of a dead letter panicked");
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters").field("count", &self.count()).finish_non_exhaustive()
    }
}
