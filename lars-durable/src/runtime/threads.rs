//! The threads of the node's own pool, shared by its handlers.
//!
//! A handler that blocks would take all of them, and with them the runs of all others. So the pool
//! has one thread more for each handler, and a run begins only if its handler has none, or if there
//! is still one of those that all share. What has to wait does so here and not in the queue of the
//! pool, where it would hold up what is behind it.
//!
//! A thread that has finished a run takes the next one from here: of the handler that has the
//! fewest, so that no backlog keeps the shared threads for itself.

use std::collections::VecDeque;

use crate::sync::Mutex;

/// See the module's documentation. `J` is a run that has not begun.
pub(super) struct Threads<J> {
    /// How many handlers share; `None` for an executor that is not the node's own.
    shared: Option<usize>,
    lots: Mutex<Lots<J>>,
}

struct Lots<J> {
    /// By the handler's place.
    of: Vec<Lot<J>>,
    /// Nothing waits any more: the node has ended.
    ended: bool,
}

/// What one handler has.
struct Lot<J> {
    running: usize,
    waiting: VecDeque<J>,
}

impl<J> Lots<J> {
    /// Whether this handler may have one thread more.
    fn is_open(&self, place: usize, shared: usize) -> bool {
        let beyond: usize = self.of.iter().map(|lot| lot.running.saturating_sub(1)).sum();
        self.of[place].running == 0 || beyond < shared
    }
}

impl<J> Threads<J> {
    pub(super) fn new(handlers: usize, shared: Option<usize>) -> Self {
        let lot = |_| Lot { running: 0, waiting: VecDeque::new() };
        let lots = Lots { of: (0..handlers).map(lot).collect(), ended: false };
        Self { shared, lots: Mutex::new(lots) }
    }

    /// A run of the handler in this place is about to begin: gives it back if it may. Then
    /// [`leave`](Self::leave) has to follow.
    pub(super) fn enter(&self, place: usize, run: J) -> Option<J> {
        let mut lots = self.lots.lock();
        let open = self.shared.is_none_or(|shared| lots.is_open(place, shared));
        if !open && !lots.ended {
            lots.of[place].waiting.push_back(run);
            return None;
        }
        lots.of[place].running += 1;
        Some(run)
    }

    /// A run of this handler has ended: which one the thread goes on with, and whose.
    pub(super) fn leave(&self, place: usize) -> Option<(usize, J)> {
        let mut lots = self.lots.lock();
        lots.of[place].running -= 1;
        let shared = self.shared?;
        let waits = |place: &usize| !lots.of[*place].waiting.is_empty();
        let open = (0..lots.of.len()).filter(waits).filter(|it| lots.is_open(*it, shared));
        let next = open.min_by_key(|place| lots.of[*place].running)?;
        let lot = &mut lots.of[next];
        let run = lot.waiting.pop_front()?;
        lot.running += 1;
        Some((next, run))
    }

    /// How many runs of this handler wait for a thread.
    pub(super) fn waiting(&self, place: usize) -> usize {
        self.lots.lock().of[place].waiting.len()
    }

    /// Takes the runs that wait, but for those that are to `stay`.
    pub(super) fn take_waiting(&self, stay: impl Fn(&J) -> bool) -> Vec<J> {
        let mut taken = Vec::new();
        for lot in &mut self.lots.lock().of {
            let (stays, goes): (VecDeque<J>, VecDeque<J>) =
                std::mem::take(&mut lot.waiting).into_iter().partition(|run| stay(run));
            lot.waiting = stays;
            taken.extend(goes);
        }
        taken
    }

    /// Nothing waits from here on. Returns what still did.
    pub(super) fn end(&self) -> Vec<J> {
        self.lots.lock().ended = true;
        self.take_waiting(|_| false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_never_takes_the_last_thread_that_another_one_needs() {
        let threads = Threads::new(3, Some(2));
        let began: Vec<u32> = (0..10).filter_map(|run| threads.enter(0, run)).collect();
        assert_eq!(began, [0, 1, 2], "its own and the two that are shared");
        assert_eq!((threads.enter(1, 10), threads.enter(2, 20)), (Some(10), Some(20)));
        assert_eq!((threads.enter(1, 11), threads.enter(2, 21)), (None, None));
        assert_eq!([0, 1, 2].map(|place| threads.waiting(place)), [7, 1, 1]);
    }

    #[test]
    fn a_thread_goes_on_with_the_handler_that_has_the_fewest() {
        let threads = Threads::new(2, Some(2));
        assert_eq!((0..5).filter_map(|run| threads.enter(0, run)).count(), 3);
        assert!(threads.enter(1, 10).is_some() && threads.enter(1, 11).is_none());
        assert_eq!(threads.leave(0), Some((1, 11)), "a shared one");
        assert_eq!(threads.leave(1), Some((0, 3)), "and back");
    }

    #[test]
    fn what_waits_when_the_node_ends_is_given_back_and_nothing_waits_after_that() {
        let threads = Threads::new(1, Some(0));
        assert_eq!((threads.enter(0, 1), threads.enter(0, 2)), (Some(1), None));
        assert_eq!(threads.end(), [2]);
        assert_eq!(threads.enter(0, 3), Some(3));
        assert_eq!((threads.leave(0), threads.leave(0)), (None, None));
    }
}
