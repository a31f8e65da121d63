//! Internal parts, for the benches and the fuzzer of this workspace. Not part of the interface:
//! they may change in any release.

use std::ops::Range;
use std::ptr;
use std::time::Duration;

use crate::base::identity::Label;
use crate::base::raw_task::RawTask;
use crate::base::tick::Tick;
use crate::engine::entry::state::{Arm, Flags, Take};
use crate::engine::entry::{Entry, Whereabouts};
use crate::engine::intake::{Intake as Queue, Pop};
use crate::engine::wheel::{Advance, Wheel as Inner};
use crate::sync::{AtomicBool, Ordering};

fn entries(count: usize) -> Box<[Entry]> {
    (0..count).map(|_| Entry::free(0)).collect()
}

/// An intake, and entries for its producers.
#[allow(missing_debug_implementations)]
pub struct Intake {
    queue: Queue,
    /// Referred to by the queue while they are in it, so they are dropped after it.
    entries: Box<[Entry]>,
    /// Whether each producer has pushed its part.
    pushed: Box<[AtomicBool]>,
}

impl Intake {
    /// An empty intake, and `each` entries for every producer.
    pub fn new(producers: usize, each: usize) -> Self {
        Self {
            queue: Queue::new(),
            entries: entries(producers * each),
            pushed: (0..producers).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    fn part(&self, producer: usize) -> Range<usize> {
        let each = self.entries.len() / self.pushed.len();
        producer * each..(producer + 1) * each
    }

    /// Pushes the entries of one producer one by one.
    ///
    /// # Panics
    ///
    /// If they were pushed before, and not consumed.
    pub fn produce(&self, producer: usize) {
        // Acquire: pairs with the release in `consume`.
        assert!(!self.pushed[producer].swap(true, Ordering::Acquire), "pushed already");
        for entry in &self.entries[self.part(producer)] {
            // SAFETY: the entry is this producer's, which pushes it once, and lives as long as the
            // queue. What is written through the pointer are its links, which are atomics.
            unsafe { self.queue.push(ptr::from_ref(entry).cast_mut()) };
        }
    }

    /// Pops everything; says how much it was.
    pub fn consume(&mut self) -> usize {
        let mut popped = 0;
        // SAFETY: `&mut self` is the only reference to the queue, so this is the only consumer, and
        // nobody is pushing.
        while let Pop::Entry(_) = unsafe { self.queue.pop() } {
            popped += 1;
        }
        for pushed in &self.pushed {
            pushed.store(false, Ordering::Release);
        }
        popped
    }
}

/// A wheel, and entries to put into it.
#[derive(Debug)]
pub struct Wheel {
    wheel: Inner,
    tick: Tick,
    free: Vec<*mut Entry>,
    /// Owned, but kept as a pointer: the wheel and the list above refer to them.
    entries: *mut [Entry],
}

impl Wheel {
    /// A wheel that begins at zero.
    ///
    /// # Panics
    ///
    /// If the tick is out of range, or the size is.
    pub fn new(tick: Duration, size: usize, capacity: usize) -> Self {
        let tick = Tick::new(tick).expect("a tick in range");
        let entries = Box::into_raw(entries(capacity));
        let first = entries.cast::<Entry>();
        // SAFETY: the allocation has `capacity` entries.
        let free = (0..capacity).map(|number| unsafe { first.add(number) }).collect();
        Self { wheel: Inner::new(tick, size, 0), tick, free, entries }
    }

    /// Puts a timer into the wheel; returns its number, which is used again after it has left.
    ///
    /// # Panics
    ///
    /// If all entries are in it.
    pub fn insert(&mut self, deadline: Duration) -> usize {
        let entry = self.free.pop().expect("an entry is free");
        // SAFETY: the entry is free, nobody else refers to it, and it lives as long as the wheel,
        // in whose allocation it is.
        unsafe {
            let task = |task| RawTask::write(task, || (), Label::default());
            (*entry).fill(crate::base::tick::nanos(deadline), task);
            (*entry).state.publish(0, Flags::default());
            let Arm::Armed(_) = (*entry).state.arm() else { unreachable!("it was just queued") };
            self.wheel.insert(entry);
            entry.offset_from(self.entries.cast::<Entry>()) as usize
        }
    }

    /// Takes a timer out.
    ///
    /// # Safety
    ///
    /// The timer of this number is in the wheel, due or not.
    pub unsafe fn remove(&mut self, number: usize) {
        debug_assert!(number < self.entries.len(), "there is no timer {number}");
        // SAFETY: the wheel numbers its own entries, so this one is in the allocation. It is in the
        // wheel, due or not.
        unsafe {
            let entry = self.entries.cast::<Entry>().add(number);
            self.wheel.unlink(entry);
            self.retire(entry);
        }
    }

    /// Moves the wheel towards an instant: to the next tick that has timers, or as far as the
    /// budget of moves between levels goes. Says whether it has got there, with nothing to do up to
    /// there.
    pub fn step(&mut self, to: Duration, mut budget: usize) -> bool {
        let target = self.tick.reached_by(crate::base::tick::nanos(to));
        self.wheel.advance(target, &mut budget) == Advance::Reached
    }

    /// Takes out the next timer that is due; returns its number.
    pub fn pop_due(&mut self) -> Option<usize> {
        let entry = self.wheel.pop_due()?;
        // SAFETY: it was in the wheel, and nobody else has it; both are in the one allocation.
        unsafe {
            self.retire(entry);
            Some(entry.offset_from(self.entries.cast::<Entry>()) as usize)
        }
    }

    /// When the wheel has to be moved next: at its first timer, or before that.
    pub fn next_wake_up(&mut self) -> Option<Duration> {
        self.wheel.next_tick().map(|tick| Duration::from_nanos(self.tick.start_of(tick)))
    }

    /// Moves the wheel to an instant, cascading without a limit. Returns how many timers expired.
    pub fn advance(&mut self, to: Duration) -> usize {
        while !self.step(to, usize::MAX) {}
        let mut due = 0;
        while self.pop_due().is_some() {
            due += 1;
        }
        due
    }

    /// # Safety
    ///
    /// The entry is armed, and in no list.
    unsafe fn retire(&mut self, entry: *mut Entry) {
        Entry::assert_address(entry);
        // SAFETY: the entry is one of the wheel's own, which live as long as the wheel.
        let whereabouts = unsafe { (*entry).whereabouts() };
        debug_assert_eq!(whereabouts, Whereabouts::Nowhere, "the entry is still in a list");
        // SAFETY: the entry is armed, and nobody else refers to it: no handle was ever made.
        unsafe {
            let taken = (*entry).state.take(|| true, || ());
            let Take::Taken { .. } = taken else { unreachable!("it was armed") };
            drop((*entry).take_task());
            // (No handle was ever made for the handle bit.)
            (*entry).state.set_free();
        }
        self.free.push(entry);
    }
}

impl Drop for Wheel {
    fn drop(&mut self) {
        // The tasks of these benches own nothing, so those that wait may be forgotten.
        // SAFETY: `Box::into_raw` made it. The wheel still points to the entries, but does not
        // follow its links any more.
        drop(unsafe { Box::from_raw(self.entries) });
    }
}
