//! The sleep word: how a producer knows whether the timer thread must be woken.
//!
//! | value | meaning | written by |
//! |---|---|---|
//! | `AWAKE` (0) | the timer thread is up, or somebody is waking it; it will look again before it sleeps on | the timer thread; a producer that wakes it |
//! | an instant | it sleeps, and wakes by itself at this instant | the timer thread |
//! | `FOREVER` | it sleeps until it is woken | the timer thread |
//! | `STOPPED` | it has stopped; what is pushed now is never popped | the timer thread, last |
//!
//! # No wake-up is lost
//!
//! What a producer writes first is a *notice*: the head of a channel's intake, or the tick by which
//! a lane wants to be visited (`Lane::earliest`).
//!
//! ```text
//!   producer                            timer thread
//!   write the notice            (1)     store word := instant     (3)
//!   load word                   (2)     load the notices          (4)
//! ```
//!
//! All four are `SeqCst`, so they stand in one order. So is every other write of the word: a load
//! that comes after (3) in that order must not see an older `AWAKE`. (C++20 excludes that of
//! relaxed writes too. C++11 does not, of those by other threads, nor does Miri.) If (2) comes
//! before (3), the producer sees the old value; but then (1) comes before (4), and the timer
//! thread sees the notice and does not sleep. Otherwise the producer sees the instant, and wakes
//! the thread if its timer is due before that. With `STOPPED` for the instant the same argument
//! says that a push is either seen by the last drain or refused by its own producer. The stop word
//! takes the notice's place when somebody asks for a stop. A producer whose lane wants a visit by
//! an earlier tick anyway gives no notice: the producer of that earlier notice has woken the
//! thread if need be.
//!
//! A producer wakes by a compare-and-swap to `AWAKE`, and only the winner pays for the wake-up, so
//! a sleep costs at most one of them (about 15 µs of the producer's time). The others rely on the
//! winner: if it is interrupted between the two steps, their timers wait until it continues, or
//! until the thread wakes by itself. So a wake-up may be as late as the system lets a thread wait
//! for its processor, but it is not lost.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering, Unparker, model_fence};
use lars_base::debug_fields;
use lars_base::panics::quietly;

const AWAKE: u64 = 0;
const STOPPED: u64 = u64::MAX;
/// The instant of a sleep that only ends when somebody wakes the thread.
pub(crate) const FOREVER: u64 = u64::MAX - 1;

/// What [`SleepWord::after_push`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum AfterPush {
    /// The driver will pop the entry in time.
    Seen,
    /// The driver has stopped. It may have popped the entry before that, or never will.
    Stopped,
}

/// How the party that sleeps is woken.
pub(crate) enum Alarm {
    /// The timer thread, which is parked.
    Unpark(Unparker),
    /// The owner of a scheduler that has no thread. The function does not panic.
    Call(Box<dyn Fn() + Send + Sync>),
    /// Nobody sleeps.
    None,
}

impl Alarm {
    fn raise(&self) {
        match self {
            Self::Unpark(unparker) => unparker.unpark(),
            Self::Call(wake) => wake(),
            Self::None => {}
        }
    }
}

impl From<Unparker> for Alarm {
    fn from(unparker: Unparker) -> Self {
        Self::Unpark(unparker)
    }
}

/// What the owner's function holds is foreign code too.
impl Drop for Alarm {
    fn drop(&mut self) {
        if let Self::Call(wake) = self {
            let wake = std::mem::replace(wake, Box::new(|| ()));
            quietly(|| drop(wake));
        }
    }
}

debug_fields!(|_it: Alarm|);

#[derive(Debug)]
pub(crate) struct SleepWord {
    word: CachePadded<AtomicU64>,
    alarm: Alarm,
}

impl SleepWord {
    pub(crate) fn new(alarm: impl Into<Alarm>) -> Self {
        Self { word: CachePadded::new(AtomicU64::new(AWAKE)), alarm: alarm.into() }
    }

    /// Called after each push, with the instant by which the driver must have popped it.
    #[inline]
    pub(crate) fn after_push(&self, pop_by: u64) -> AfterPush {
        model_fence();
        // SeqCst: (2) in the module's documentation.
        let word = self.word.load(Ordering::SeqCst);
        if word == AWAKE {
            return AfterPush::Seen;
        }
        if word == STOPPED {
            return AfterPush::Stopped;
        }
        if pop_by < word {
            self.wake_from(word);
        }
        AfterPush::Seen
    }

    /// Whether the driver has begun to hand back what it has. If not, it will see what the caller
    /// has stored in a `SeqCst` way before this.
    pub(crate) fn is_stopped(&self) -> bool {
        model_fence();
        // SeqCst: (2), with that store instead of a push.
        self.word.load(Ordering::SeqCst) == STOPPED
    }

    /// Wakes the timer thread if it sleeps.
    pub(crate) fn wake(&self) {
        model_fence();
        // SeqCst: (2), with the stop word instead of a push. (For a backlog of cancelled or
        // released entries it is a hint: if the thread misses them now, it collects them when it
        // next wakes.)
        let word = self.word.load(Ordering::SeqCst);
        if word != AWAKE && word != STOPPED {
            self.wake_from(word);
        }
    }

    #[cold]
    fn wake_from(&self, word: u64) {
        // SeqCst: every write of the word is; see the module's documentation. Relaxed: if the
        // exchange fails, another is about to wake the thread, or it has woken by itself; in both
        // cases it looks at the intake before it sleeps again.
        if self.word.compare_exchange(word, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            self.alarm.raise();
        }
    }

    /// The timer thread is about to sleep until `instant`, or [`FOREVER`]. It must look at the
    /// intake and the stop word once more after this and before it does.
    pub(crate) fn announce_sleep(&self, instant: u64) {
        // Within the range, so that no instant is mistaken for another state.
        let word = instant.clamp(AWAKE + 1, FOREVER);
        // SeqCst: (3).
        self.word.store(word, Ordering::SeqCst);
        model_fence();
    }

    /// Whether the timer thread is up at `now`, or should be.
    pub(crate) fn is_up(&self, now: u64) -> bool {
        // Relaxed: a hint. (`AWAKE` comes before all instants, and `STOPPED` after them.)
        self.word.load(Ordering::Relaxed) < now
    }

    /// Whether the timer thread is up, or somebody is waking it.
    #[cfg(all(test, lars_loom))]
    pub(crate) fn is_awake(&self) -> bool {
        self.word.load(Ordering::SeqCst) == AWAKE
    }

    /// Whether nobody has ended the sleep that was announced last.
    pub(crate) fn stays_asleep(&self) -> bool {
        // Relaxed: a thread that ends it later raises the alarm after this.
        self.word.load(Ordering::Relaxed) != AWAKE
    }

    /// The timer thread has announced a sleep, and found something to do before it. (It announces
    /// the sleep anew after that.)
    #[inline]
    pub(crate) fn put_off_sleep(&self) {
        // Not stored in each turn: producers read the line.
        if self.stays_asleep() {
            self.announce_awake();
        }
    }

    /// The timer thread is awake.
    pub(crate) fn announce_awake(&self) {
        // SeqCst: every write of the word is; see the module's documentation. (A producer that
        // still sees the instant wakes it needlessly, which is harmless.)
        self.word.store(AWAKE, Ordering::SeqCst);
    }

    /// The driver pops no more after the drain that follows this.
    pub(crate) fn announce_stopped(&self) {
        // SeqCst: (3).
        self.word.store(STOPPED, Ordering::SeqCst);
        model_fence();
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;
    use crate::sync::{Arc, AtomicUsize};

    /// A word, and how often its alarm was raised.
    fn word() -> (SleepWord, Arc<AtomicUsize>) {
        let raised = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&raised);
        let raise = move || _ = counted.fetch_add(1, Ordering::Relaxed);
        (SleepWord::new(Alarm::Call(Box::new(raise))), raised)
    }

    #[test]
    fn a_sleep_is_ended_once_and_only_by_what_must_be_popped_before_its_end() {
        let (word, raised) = word();
        let seen = |pop_by| (word.after_push(pop_by), raised.load(Ordering::Relaxed));
        assert_eq!(seen(0), (AfterPush::Seen, 0), "it is awake");
        word.announce_sleep(100);
        assert_eq!(seen(100), (AfterPush::Seen, 0));
        assert!(word.stays_asleep());
        assert_eq!(seen(99), (AfterPush::Seen, 1));
        assert_eq!(seen(0), (AfterPush::Seen, 1), "it has been woken");
        assert!(!word.stays_asleep());
        word.announce_stopped();
        assert_eq!(seen(0), (AfterPush::Stopped, 1));
    }

    #[test]
    fn the_timer_thread_should_be_up_after_the_end_of_its_sleep_and_not_once_it_has_stopped() {
        let (word, _) = word();
        assert!(word.is_up(1));
        word.announce_sleep(100);
        assert!(!word.is_up(100) && word.is_up(101));
        word.announce_stopped();
        assert!(!word.is_up(u64::MAX));
    }

    #[test]
    fn a_sleep_until_any_instant_is_neither_awake_nor_stopped() {
        for instant in [0, 1, FOREVER, u64::MAX] {
            let (word, _) = word();
            word.announce_sleep(instant);
            assert!(word.stays_asleep() && !word.is_stopped(), "until {instant}");
        }
        let (word, _) = word();
        word.announce_stopped();
        assert!(word.is_stopped());
    }

    #[test]
    fn what_an_owner_s_function_holds_may_panic_when_it_is_dropped() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("on purpose");
            }
        }
        let panics = Panics;
        drop(SleepWord::new(Alarm::Call(Box::new(move || _ = &panics))));
    }
}
