//! What is kept beside the messages of a mailbox: the spans in which they were told, and when a
//! timer's message was due.

use std::collections::BTreeMap;

use lars_base::in_span::CapturedSpan;

use crate::base::late::Timed;
use crate::base::late::course::Course;
use crate::sync::plain::AtomicU64;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering, UnsafeCell};

/// A span in which something was told.
pub(crate) type Told = Arc<CapturedSpan>;

/// The span of the calling thread, for a message that it tells.
pub(crate) fn told_here() -> Option<Told> {
    CapturedSpan::current().map(Arc::new)
}

/// What is kept beside one message. For most it is nothing.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    pub(crate) told: Option<Told>,
    /// If it is a timer's, and what is late is explained.
    pub(crate) timed: Option<Timed>,
}

impl Aside {
    fn is_empty(&self) -> bool {
        self.told.is_none() && self.timed.is_none()
    }
}

/// What is kept beside the messages that wait, by the addresses at which they wait.
///
/// A sender enters it after it has taken the slot, and before it fills it. The reader takes it out
/// before it leaves the slot empty. So what is here belongs to the message that is at its address,
/// or is about to be.
#[derive(Debug)]
pub(crate) struct Asides {
    kept: Mutex<BTreeMap<usize, Aside>>,
    /// Whether messages keep the spans in which they are told.
    pub(super) spans: bool,
    /// How many messages of timers wait. Counted up before the message is filled in, and down when
    /// its aside has been taken out: who has found the message sees it counted.
    timed: AtomicUsize,
    /// How many messages of timers have come.
    came: AtomicU64,
    /// For the one activation.
    course: UnsafeCell<Course>,
}

impl Asides {
    pub(super) fn new(spans: bool) -> Self {
        Self {
            kept: Mutex::default(),
            spans,
            timed: AtomicUsize::new(0),
            came: AtomicU64::new(0),
            course: UnsafeCell::new(Course::default()),
        }
    }

    pub(super) fn enter(&self, address: usize, aside: Aside) {
        if aside.is_empty() {
            return;
        }
        if aside.timed.is_some() {
            // Relaxed: see `take`, and a statistic.
            self.timed.fetch_add(1, Ordering::Relaxed);
            self.came.fetch_add(1, Ordering::Relaxed);
        }
        let before = self.kept.lock().insert(address, aside);
        debug_assert!(before.is_none(), "the message before it left what was beside it");
    }

    /// Takes out what belongs to the message at this address, which the caller has found there.
    ///
    /// Not to be dropped under a lock: a span calls the log subscriber.
    pub(super) fn take(&self, address: usize) -> Aside {
        // Relaxed: a message is filled in by a release and found by an acquire, so the count of
        // this one is seen, and it is taken back only below.
        if !self.spans && self.timed.load(Ordering::Relaxed) == 0 {
            return Aside::default();
        }
        let aside = self.kept.lock().remove(&address).unwrap_or_default();
        if aside.timed.is_some() {
            // Relaxed: a reader of another message, if there is one, counts its own.
            self.timed.fetch_sub(1, Ordering::Relaxed);
        }
        aside
    }

    /// Whether a message of a timer waits; and how many have come.
    pub(crate) fn timed(&self) -> (bool, u64) {
        // Relaxed: one that comes at this moment is seen a message later.
        (self.timed.load(Ordering::Relaxed) > 0, self.came.load(Ordering::Relaxed))
    }

    /// What the actor has done while such messages waited.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation, and `look` runs no foreign code.
    pub(crate) unsafe fn with_course<R>(&self, look: impl FnOnce(&mut Course) -> R) -> R {
        // SAFETY: the caller is the one activation, to which it belongs, and does not come here
        // again inside.
        self.course.with_mut(|course| look(unsafe { &mut *course }))
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;
    use crate::sync::real_now;

    #[test]
    fn nothing_is_kept_beside_a_message_that_is_no_timer_s_and_has_no_span() {
        let asides = Asides::new(false);
        let is_kept = || !asides.kept.lock().is_empty();
        asides.enter(8, Aside::default());
        assert!(!is_kept());
        let now = real_now();
        let timed = Some(Timed { promised: now, put_in: now });
        asides.enter(8, Aside { told: None, timed });
        assert!(is_kept());
        assert!(asides.take(8).timed.is_some() && !is_kept());
    }
}
