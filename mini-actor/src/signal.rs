//! The system lane: what actors and the system tell each other beside messages.
//!
//! Signals never queue behind messages, are never dropped, and are not counted against a mailbox's capacity.
//! Those that belong at a place among the messages (a stop, a due timer) carry the number of messages that
//! were accepted before them, and wait until so many have been taken out.

use std::any::Any;

use crate::stop_reason::{StopReason, Terminated};
use crate::supervision::Panic;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};

pub(crate) enum Signal {
    /// Stop when so many messages have been received.
    Stop { at: u64, reason: StopReason },
    /// Stop before the next message.
    Kill(StopReason),
    /// One that is being watched has stopped.
    Terminated(Terminated),
    /// A child has stopped.
    ChildGone(u64),
    /// A child escalates.
    ChildFailed(Panic),
    /// The pause before a restart is over; with the number of the restart.
    Revive(u64),
    /// A keyed timer is due, behind so many messages; with the timer's generation.
    Tick { at: u64, generation: u64 },
    /// The receive timeout may be due, behind so many messages.
    Quiet { at: u64, generation: u64 },
}

/// The signals of one actor.
pub(crate) struct Lane {
    waiting: Mutex<Vec<Signal>>,
    /// A hint for the activation, beside the bit in the run word, on a line that senders of messages do not
    /// write.
    hint: AtomicBool,
}

impl Lane {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::new(Vec::new()), hint: AtomicBool::new(false) }
    }

    /// Puts one in. The caller then announces it in the run word.
    pub(crate) fn push(&self, signal: Signal) {
        self.waiting.lock().push(signal);
        // Relaxed: the run word decides; this only lets a running activation look sooner.
        self.hint.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn hint(&self) -> bool {
        self.hint.load(Ordering::Relaxed)
    }

    /// Takes all out. The caller has cleared the bit in the run word before.
    pub(crate) fn take(&self) -> Vec<Signal> {
        let mut waiting = self.waiting.lock();
        self.hint.store(false, Ordering::Relaxed);
        std::mem::take(&mut *waiting)
    }
}

/// An actor without the type of its messages.
pub(crate) trait Resident: Send + Sync {
    fn id(&self) -> u64;
    fn path(&self) -> &Arc<str>;
    fn watchers(&self) -> &Watchers;
    /// Puts a signal into its lane. If it has stopped, nothing happens.
    fn signal(self: Arc<Self>, signal: Signal);
    /// Asks it to stop after what is queued.
    fn stop_for(self: Arc<Self>, reason: StopReason);
    fn processed(&self) -> u64;
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// Who is told when an actor stops.
pub(crate) enum Watcher {
    Actor(Arc<dyn Resident>),
    Other(Box<dyn FnOnce(StopReason) + Send>),
}

/// The watchers of one actor, until it has stopped; then, why it has.
pub(crate) struct Watchers {
    state: Mutex<Result<Vec<Watcher>, StopReason>>,
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(Ok(Vec::new())) }
    }

    /// Adds one. If the actor has stopped already, gives it back with the reason.
    pub(crate) fn add(&self, watcher: Watcher) -> Result<(), (Watcher, StopReason)> {
        match &mut *self.state.lock() {
            Ok(watchers) => {
                watchers.push(watcher);
                Ok(())
            }
            Err(reason) => Err((watcher, *reason)),
        }
    }

    /// Removes an actor.
    pub(crate) fn remove(&self, id: u64) {
        let mut removed = None;
        if let Ok(watchers) = &mut *self.state.lock()
            && let Some(place) = watchers
                .iter()
                .position(|watcher| matches!(watcher, Watcher::Actor(actor) if actor.id() == id))
        {
            removed = Some(watchers.swap_remove(place));
        }
        // Outside the lock: it may be the last reference.
        drop(removed);
    }

    /// The actor has stopped: who is to be told. All who come later are told by `add`.
    pub(crate) fn close(&self, reason: StopReason) -> Vec<Watcher> {
        std::mem::replace(&mut *self.state.lock(), Err(reason)).unwrap_or_default()
    }

    /// Why the actor stopped, if it has.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.state.lock().as_ref().err().copied()
    }
}

#[cfg(all(test, lars_loom))]
mod models {
    use super::*;
    use crate::sync::AtomicU64;
    use std::sync::Arc as Shared;

    /// Whoever watches while the actor stops is told by one of the two, and only by one.
    #[test]
    fn a_watcher_that_races_with_the_end_is_told_exactly_once() {
        loom::model(|| {
            let watchers = Shared::new(Watchers::new());
            let told = Shared::new(AtomicU64::new(0));
            let watching: Vec<_> = (0..2)
                .map(|_| {
                    let (watchers, told) = (Shared::clone(&watchers), Shared::clone(&told));
                    loom::thread::spawn(move || {
                        let tell = Box::new(move |_| {
                            told.fetch_add(1, Ordering::Relaxed);
                        });
                        if let Err((Watcher::Other(tell), reason)) =
                            watchers.add(Watcher::Other(tell))
                        {
                            tell(reason);
                        }
                    })
                })
                .collect();
            for watcher in watchers.close(StopReason::Itself) {
                if let Watcher::Other(tell) = watcher {
                    tell(StopReason::Itself);
                }
            }
            for thread in watching {
                thread.join().unwrap();
            }
            assert_eq!(told.load(Ordering::Relaxed), 2);
            assert_eq!(watchers.reason(), Some(StopReason::Itself));
        });
    }
}
