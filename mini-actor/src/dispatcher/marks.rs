//! What the calling thread is in the middle of, in thread-locals that are set for a while.

use std::cell::Cell;

use crate::sync::{LocalKey, thread_local};

/// Sets a value of the calling thread until this is dropped, also in a panic.
pub(crate) struct Set<T: Copy + 'static> {
    place: &'static LocalKey<Cell<T>>,
    before: T,
}

impl<T: Copy + 'static> Set<T> {
    #[inline]
    pub(crate) fn enter(place: &'static LocalKey<Cell<T>>, value: T) -> Self {
        Self { place, before: place.with(|place| place.replace(value)) }
    }
}

impl<T: Copy + 'static> Drop for Set<T> {
    fn drop(&mut self) {
        self.place.with(|place| place.set(self.before));
    }
}

thread_local! {
    /// The system and the actor whose activation runs on this thread.
    static RUNNING: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// Marks the calling thread as running an actor, until it is dropped.
pub(crate) struct Inside {
    _set: Set<(usize, u64)>,
}

impl Inside {
    #[inline]
    pub(crate) fn enter(system: usize, actor: u64) -> Self {
        Self { _set: Set::enter(&RUNNING, (system, actor)) }
    }

    /// Whether the calling thread runs an actor of this system.
    pub(crate) fn system(system: usize) -> bool {
        RUNNING.with(Cell::get).0 == system
    }

    /// Whether the calling thread runs an actor, of whatever system.
    pub(crate) fn any_actor() -> bool {
        RUNNING.with(Cell::get).1 != 0
    }

    /// Whether the calling thread runs this actor.
    pub(crate) fn actor(actor: u64) -> bool {
        RUNNING.with(Cell::get).1 == actor
    }
}

thread_local! {
    /// Whether this thread makes a message, in a slot of a mailbox that stays empty until that is
    /// done.
    static MAPPING: Cell<bool> = const { Cell::new(false) };
}

/// Marks the calling thread as making a message, until it is dropped.
pub(crate) struct Mapping {
    _set: Set<bool>,
}

impl Mapping {
    pub(crate) fn enter() -> Self {
        Self { _set: Set::enter(&MAPPING, true) }
    }

    /// Whether the calling thread does, so that a mailbox might wait for it.
    pub(crate) fn is_running() -> bool {
        MAPPING.with(Cell::get)
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_the_actor_that_was_entered_last_until_that_is_left_also_by_a_panic() {
        // The systems and the actors that the thread is in.
        let within = || {
            let systems: Vec<_> = (1..4).filter(|&system| Inside::system(system)).collect();
            let actors: Vec<_> = (7..10).filter(|&actor| Inside::actor(actor)).collect();
            assert_eq!(Inside::any_actor(), !actors.is_empty());
            (systems, actors)
        };
        assert_eq!(within(), (vec![], vec![]));
        let outer = Inside::enter(1, 7);
        assert_eq!(within(), (vec![1], vec![7]));
        let _ = lars_base::panics::contain(|| {
            let _inner = Inside::enter(2, 8);
            assert_eq!(within(), (vec![2], vec![8]));
            panic!("expected by this test");
        });
        assert_eq!(within(), (vec![1], vec![7]));
        drop(outer);
        assert_eq!(within(), (vec![], vec![]));
    }

    #[test]
    fn a_thread_makes_a_message_until_the_mark_of_that_is_dropped() {
        assert!(!Mapping::is_running());
        let mark = Mapping::enter();
        assert!(Mapping::is_running());
        drop(mark);
        assert!(!Mapping::is_running());
    }
}
