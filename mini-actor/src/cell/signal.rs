//! The system lane: signals that actors and the system send each other beside messages.
//!
//! Signals are never refused and never dropped, and do not count against a mailbox's capacity. Some
//! have a place among the messages: a stop, a due timer, the end of another actor. They carry the
//! number of messages that were accepted before them, and wait until that many have been taken out.
//! The others do not wait for messages.

use std::any::Any;
use std::collections::BTreeMap;
use std::collections::btree_map::IntoValues;

use crate::base::lineage::Lineage;
use crate::base::stop_reason::{StopReason, Terminated};
use crate::base::supervision::Panic;
use crate::base::timer_key::ActorTimer;
use crate::cell::askers::Askers;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};
use lars_base::time::Instant;

pub(crate) enum Signal {
    /// Stop when this many messages have been received.
    Stop { at: u64, reason: StopReason },
    /// Stop before the next message.
    Kill(StopReason),
    /// Something is due behind this many messages.
    Due(u64, Due),
    /// A child has stopped.
    ChildGone(u64),
    /// A child escalates. `at_start`: that kept this actor from starting, because it spawned the
    /// child when it started, and the child could not be started.
    ChildFailed { panic: Panic, at_start: bool },
    /// The pause before a restart is over; with the number of the restart.
    Revive(u64),
    /// Somebody wants to know its timers.
    ListTimers(Box<dyn FnOnce(Vec<ActorTimer>) + Send>),
}

/// What is received in its turn, like a message.
pub(crate) enum Due {
    /// A keyed timer; with its generation, and when it fired if that may turn out to be late.
    Tick { generation: u64, fired: Option<Instant> },
    /// Perhaps the receive timeout; with when its timer fired.
    Quiet { generation: u64, fired: Instant },
    /// The same, of a timer that was due before it was armed: that it is late says nothing more.
    MissedQuiet { generation: u64, fired: Instant },
    /// A watched actor has stopped; its messages come first. Ends are reported one at a time, so
    /// that very many at once do not keep other actors from their turn.
    Gone(Terminated),
}

/// The signals of one actor.
pub(crate) struct Lane {
    waiting: Mutex<Vec<Signal>>,
    /// A hint for the activation, beside the bit in the run word, on a line that senders of
    /// messages do not write.
    hint: AtomicBool,
}

impl Lane {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::new(Vec::new()), hint: AtomicBool::new(false) }
    }

    /// Puts one in. The caller then announces it in the run word. If the signal has a place among
    /// the messages, `make` reads it, under the lock: so no signal has a place before the one in
    /// front.
    pub(crate) fn push(&self, make: impl FnOnce() -> Signal) {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() {
            // Most signals come alone, such as the stops of very many actors.
            waiting.reserve_exact(1);
        }
        waiting.push(make());
        drop(waiting);
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
    fn lineage(&self) -> &Lineage;
    fn watchers(&self) -> &Watchers;
    fn askers(&self) -> &Askers;
    /// Whether it accepts no more messages.
    fn is_stopped(&self) -> bool;
    /// Puts a signal into its lane. If it has stopped, nothing happens.
    fn signal(self: Arc<Self>, signal: Signal);
    /// Asks it to stop after what is queued.
    fn stop_for(self: Arc<Self>, reason: StopReason);
    /// Reports the end of an actor that it watches, behind what is queued.
    fn tell_end(self: Arc<Self>, gone: Terminated);
    fn processed(&self) -> u64;
    /// Messages that wait, including those that it is working off now.
    fn depth(&self) -> u64;
    /// If it has something to do, or futures are piped to it: how many messages it has accepted.
    fn at_work(&self) -> Option<u64>;
    /// Whether it has got so far, or has nothing to do.
    fn has_received(&self, accepted: u64) -> bool;
    /// Whether it has got further than that, or has nothing to do. So the turn that it was in when
    /// it had accepted so many is over.
    fn has_passed(&self, accepted: u64) -> bool;
    /// Whether futures are piped to it that have not ended.
    fn has_pipes(&self) -> bool;
    fn restarts(&self) -> u64;
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// A party that learns of an actor's end.
pub(crate) enum Watcher {
    Actor(Arc<dyn Resident>),
    Other(Box<dyn FnOnce(StopReason) + Send>),
}

/// The watchers of one actor, until it has stopped; then, why it has.
pub(crate) struct Watchers {
    /// Boxed, and made by the first watcher: very many actors have none.
    state: Mutex<Result<Option<Box<Watching>>, StopReason>>,
}

/// By number, and so in the order in which they began to watch; they are notified in that order. A
/// watcher that leaves is found by its number: many thousands may watch one actor.
#[derive(Default)]
struct Watching {
    next: u64,
    watchers: BTreeMap<u64, Watcher>,
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(Ok(None)) }
    }

    /// Adds one, and returns the number that [`remove`](Self::remove) takes. If the actor has
    /// stopped already, gives the watcher back with the reason.
    pub(crate) fn add(&self, watcher: Watcher) -> Result<u64, (Watcher, StopReason)> {
        match &mut *self.state.lock() {
            Ok(watching) => {
                let watching = watching.get_or_insert_default();
                let number = watching.next;
                watching.next += 1;
                watching.watchers.insert(number, watcher);
                Ok(number)
            }
            Err(reason) => Err((watcher, *reason)),
        }
    }

    /// Removes the watcher that [`add`](Self::add) gave this number.
    pub(crate) fn remove(&self, number: u64) {
        let mut removed = None;
        if let Ok(Some(watching)) = &mut *self.state.lock() {
            removed = watching.watchers.remove(&number);
        }
        // Outside the lock: it may be the last reference.
        drop(removed);
    }

    /// The actor has stopped. Returns the watchers to notify; later ones learn it from `add`.
    pub(crate) fn close(&self, reason: StopReason) -> IntoValues<u64, Watcher> {
        let before = std::mem::replace(&mut *self.state.lock(), Err(reason));
        before.ok().flatten().map_or_else(BTreeMap::new, |it| it.watchers).into_values()
    }

    /// Why the actor stopped, if it has.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.state.lock().as_ref().err().copied()
    }

    /// How many watchers there are.
    #[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
    pub(crate) fn len(&self) -> usize {
        let state = self.state.lock();
        let watching = state.as_ref().ok().and_then(Option::as_ref);
        watching.map_or(0, |watching| watching.watchers.len())
    }
}

#[cfg(all(test, lars_loom))]
mod models {
    use super::*;
    use crate::sync::AtomicU64;
    use std::sync::Arc as Shared;

    /// A watcher that comes while the actor stops is notified exactly once.
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

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_may_be_late_takes_no_more_room_on_its_way() {
        // (On 32 bits both are smaller.)
        assert!(size_of::<Due>() <= 32 && size_of::<Signal>() <= 48);
    }

    #[test]
    fn watchers_are_told_in_the_order_in_which_they_came_without_those_that_left() {
        let watchers = Watchers::new();
        let (told, order) = mpsc::channel();
        let numbers: Vec<u64> = (0..5)
            .map(|number| {
                let told = told.clone();
                let tell = Box::new(move |_| told.send(number).unwrap());
                watchers.add(Watcher::Other(tell)).map_err(|_| "it lives").unwrap()
            })
            .collect();
        watchers.remove(numbers[1]);
        watchers.remove(numbers[3]);
        watchers.remove(numbers[3]);
        for watcher in watchers.close(StopReason::Asked) {
            if let Watcher::Other(tell) = watcher {
                tell(StopReason::Asked);
            }
        }
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [0, 2, 4]);
    }
}
