//! The threads of the node's own pool, shared by its handlers.
//!
//! A handler that blocks would take all of them, and with them the runs of all others. So the pool
//! has one thread more for each handler, and a run begins only if its handler has none, or if there
//! is still one of those that all share. What has to wait does so here and not in the queue of the
//! pool, where it would hold up what is behind it.
//!
//! A thread that has finished a run takes the next one from here: of the handler that has the
//! fewest, so that no backlog keeps the shared threads for itself.
//!
//! If it is to be known why runs are late, it is remembered when all threads of the pool were in
//! runs: what came then waited in the queue of the pool.

use std::collections::VecDeque;

use crate::sync::Mutex;
use crate::time::{Micros, Mono, MonoClock};

/// How many times in which the pool was full are remembered: the last ones.
const FULL: usize = 256;

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
    watch: Option<Watch>,
}

/// When all threads of the pool were in runs.
struct Watch {
    clock: MonoClock,
    threads: usize,
    /// From when, until when, and which handler had most of them.
    full: VecDeque<(Mono, Mono, usize)>,
    /// What was before this is forgotten.
    since: Mono,
    /// Since when they are.
    now: Option<(Mono, usize)>,
}

/// What the threads were in during some time.
pub(super) struct Crowd {
    /// How long that is remembered, and for how long not all of them were in runs.
    pub(super) free: Micros,
    /// For how long they were, and which handler had most of them.
    pub(super) full: Vec<(usize, Micros)>,
}

/// What one handler has.
struct Lot<J> {
    running: usize,
    waiting: VecDeque<J>,
}

impl<J> Lots<J> {
    /// Which handler has most threads; this one, if it has as many as any other.
    fn most(&self, place: usize) -> usize {
        let most = (0..self.of.len()).max_by_key(|it| (self.of[*it].running, *it == place));
        most.unwrap_or(place)
    }

    /// A thread is in a run of this handler, or no longer.
    fn look(&mut self, place: usize) {
        if self.watch.is_some() {
            let (running, most) = (self.of.iter().map(|lot| lot.running).sum(), self.most(place));
            self.watch.iter_mut().for_each(|watch| watch.look(running, most));
        }
    }

    /// The next run for a thread that has none.
    fn next(&mut self, shared: usize) -> Option<(usize, J)> {
        let waits = |place: &usize| !self.of[*place].waiting.is_empty();
        let open = (0..self.of.len()).filter(waits).filter(|it| self.is_open(*it, shared));
        let next = open.min_by_key(|place| self.of[*place].running)?;
        let lot = &mut self.of[next];
        let run = lot.waiting.pop_front()?;
        lot.running += 1;
        Some((next, run))
    }

    /// Whether this handler may have one thread more.
    fn is_open(&self, place: usize, shared: usize) -> bool {
        let beyond: usize = self.of.iter().map(|lot| lot.running.saturating_sub(1)).sum();
        self.of[place].running == 0 || beyond < shared
    }
}

impl Watch {
    fn look(&mut self, running: usize, most: usize) {
        let full = running >= self.threads;
        match self.now {
            None if full => self.now = Some((self.clock.now(), most)),
            Some((from, most)) if !full => {
                self.now = None;
                if self.full.len() == FULL
                    && let Some((_, to, _)) = self.full.pop_front()
                {
                    self.since = to;
                }
                self.full.push_back((from, self.clock.now(), most));
            }
            _ => {}
        }
    }

    fn between(&self, from: Mono, to: Mono) -> Crowd {
        let mut free = (to - from.max(self.since)).max(Micros::ZERO);
        let mut full = Vec::new();
        let now = self.now.map(|(from, most)| (from, to, most));
        for (began, ended, most) in self.full.iter().copied().chain(now) {
            let time = ended.min(to) - began.max(from);
            if time > Micros::ZERO {
                full.push((most, time));
                free = free - time;
            }
        }
        Crowd { free, full }
    }
}

impl<J> Threads<J> {
    pub(super) fn new(handlers: usize, shared: Option<usize>) -> Self {
        let lot = |_| Lot { running: 0, waiting: VecDeque::new() };
        let lots = Lots { of: (0..handlers).map(lot).collect(), ended: false, watch: None };
        Self { shared, lots: Mutex::new(lots) }
    }

    /// From now on it is remembered when all of so many threads are in runs.
    pub(super) fn watch(&self, threads: usize, clock: MonoClock) {
        let (full, since) = (VecDeque::new(), clock.now());
        self.lots.lock().watch = Some(Watch { clock, threads, full, since, now: None });
    }

    /// What the threads were in between these two, if that is watched.
    pub(super) fn between(&self, from: Mono, to: Mono) -> Option<Crowd> {
        Some(self.lots.lock().watch.as_ref()?.between(from, to))
    }

    /// Whether they are of the node's own pool.
    pub(super) fn are_own(&self) -> bool {
        self.shared.is_some()
    }

    /// A run of the handler in this place is about to begin: gives it back if it may. Then
    /// [`leave`](Self::leave) has to follow. If it has to wait, `waits` hears which handler has
    /// most threads.
    pub(super) fn enter(
        &self,
        place: usize,
        mut run: J,
        waits: impl FnOnce(&mut J, usize),
    ) -> Option<J> {
        let mut lots = self.lots.lock();
        let open = self.shared.is_none_or(|shared| lots.is_open(place, shared));
        if !open && !lots.ended {
            waits(&mut run, lots.most(place));
            lots.of[place].waiting.push_back(run);
            return None;
        }
        lots.of[place].running += 1;
        lots.look(place);
        Some(run)
    }

    /// A run of this handler has ended: which one the thread goes on with, and whose.
    pub(super) fn leave(&self, place: usize) -> Option<(usize, J)> {
        let mut lots = self.lots.lock();
        lots.of[place].running -= 1;
        let next = lots.next(self.shared?);
        lots.look(place);
        next
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

    fn enter(threads: &Threads<u32>, place: usize, run: u32) -> Option<u32> {
        threads.enter(place, run, |_, _| ())
    }

    #[test]
    fn who_has_to_wait_hears_which_handler_has_most_threads() {
        let threads = Threads::new(2, Some(2));
        assert_eq!((0..3).filter_map(|run| enter(&threads, 0, run)).count(), 3);
        let mut heard = Vec::new();
        for run in [10, 11] {
            threads.enter(1, run, |run, most| heard.push((*run, most)));
        }
        assert_eq!(heard, [(11, 0)]);
    }

    #[test]
    fn what_the_threads_were_in_adds_up_as_far_as_it_is_remembered() {
        let mut watch = Watch {
            clock: MonoClock::start(),
            threads: 2,
            full: [(Mono(10), Mono(20), 0), (Mono(30), Mono(40), 1)].into(),
            since: Mono(5),
            now: Some((Mono(50), 2)),
        };
        let Crowd { free, full } = watch.between(Mono(0), Mono(35));
        assert_eq!((free, full), (Micros(15), vec![(0, Micros(10)), (1, Micros(5))]));
        let Crowd { free, full } = watch.between(Mono(35), Mono(60));
        assert_eq!((free, full), (Micros(10), vec![(1, Micros(5)), (2, Micros(10))]));
        watch.look(2, 7);
        assert_eq!(watch.now, Some((Mono(50), 2)), "it is as it was");
        watch.look(1, 7);
        assert_eq!((watch.now, watch.full.len()), (None, 3));
    }

    #[test]
    fn a_handler_never_takes_the_last_thread_that_another_one_needs() {
        let threads = Threads::new(3, Some(2));
        let began: Vec<u32> = (0..10).filter_map(|run| enter(&threads, 0, run)).collect();
        assert_eq!(began, [0, 1, 2], "its own and the two that are shared");
        assert_eq!((enter(&threads, 1, 10), enter(&threads, 2, 20)), (Some(10), Some(20)));
        assert_eq!((enter(&threads, 1, 11), enter(&threads, 2, 21)), (None, None));
        assert_eq!([0, 1, 2].map(|place| threads.waiting(place)), [7, 1, 1]);
    }

    #[test]
    fn a_thread_goes_on_with_the_handler_that_has_the_fewest() {
        let threads = Threads::new(2, Some(2));
        assert_eq!((0..5).filter_map(|run| enter(&threads, 0, run)).count(), 3);
        assert!(enter(&threads, 1, 10).is_some() && enter(&threads, 1, 11).is_none());
        assert_eq!(threads.leave(0), Some((1, 11)), "a shared one");
        assert_eq!(threads.leave(1), Some((0, 3)), "and back");
    }

    #[test]
    fn what_waits_when_the_node_ends_is_given_back_and_nothing_waits_after_that() {
        let threads = Threads::new(1, Some(0));
        assert_eq!((enter(&threads, 0, 1), enter(&threads, 0, 2)), (Some(1), None));
        assert_eq!(threads.end(), [2]);
        assert_eq!(enter(&threads, 0, 3), Some(3));
        assert_eq!((threads.leave(0), threads.leave(0)), (None, None));
    }
}
