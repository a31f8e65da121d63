//! Scheduling many tasks at once, with one reading of the clock: all or none.

use std::panic::Location;
use std::ptr::{self, NonNull};
use std::time::Duration;

use crate::api::cancel::Cancellable;
use crate::api::handle::{Handle, body_of, flags_of};
use crate::base::deadline::Deadline;
use crate::base::error::{Refusal, ScheduleError};
use crate::base::tick::NEVER;
use crate::engine::entry::state::Cancel;
use crate::engine::entry::{Entry, Links};
use crate::engine::entry_handle::EntryHandle;
use crate::engine::lane::For;
use crate::engine::sleep_word::AfterPush;
use crate::executor::task::{IntoTask, TaskOptions};

/// A batch that was refused: as it was handed in.
type Refused<T> = ScheduleError<Vec<(Duration, T)>>;

impl Handle {
    /// Schedules many tasks, each to run once: like [`schedule_once`](Self::schedule_once) for each
    /// of them in order, but with one reading of the clock, and all or none.
    ///
    /// The clock is read when the iterator has ended. The cancellables come in the order of the
    /// tasks; dropping them does not cancel.
    ///
    /// All tasks of a batch have one type. If they differ, box them: `Box<dyn FnOnce() + Send>`.
    ///
    /// # Errors
    ///
    /// As for [`schedule_once`](Self::schedule_once); [`Refusal::Full`] if there is no room for all
    /// of them within `max_pending`. All tasks are given back with their delays, and none runs.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let probe = |host| (Duration::from_secs(host), move || println!("probe host {host}"));
    /// let probes = (1..=3).map(probe);
    /// let probes = time.schedule_batch(probes)?;
    /// assert!(probes[1].cancel());
    /// assert_eq!(time.advance(Duration::from_secs(3)), 2);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn schedule_batch<T: IntoTask>(
        &self,
        batch: impl IntoIterator<Item = (Duration, T)>,
    ) -> Result<Vec<Cancellable>, Refused<T>> {
        // Runs the caller's iterator to its end first: it may schedule as well.
        let batch: Vec<(Duration, T)> = batch.into_iter().collect();
        let core = self.core();
        // (An empty batch learns of a stop as well.)
        if !batch.is_empty() && !core.has_share(core.arena.lanes.of_this_thread(), batch.len()) {
            return Err(ScheduleError::new(Refusal::Overloaded, batch));
        }
        match core.admit(batch.len(), true) {
            Ok(()) if batch.is_empty() => Ok(Vec::new()),
            Ok(()) => self.schedule_admitted(batch),
            Err(refusal) => Err(ScheduleError::new(refusal, batch)),
        }
    }

    /// The batch has its places, and something in it.
    #[track_caller]
    pub(crate) fn schedule_admitted<T: IntoTask>(
        &self,
        batch: Vec<(Duration, T)>,
    ) -> Result<Vec<Cancellable>, Refused<T>> {
        let place = Location::caller();
        let core = self.core();
        let tasks = batch.len();
        let now = core.clock.now();
        let own = core.arena.lanes.of_this_thread();
        // First the count: it decides whether the thread deserves a wheel.
        own.count_batch(tasks as u64);
        let wheel = core.arena.lanes.wheel_of(own, now);
        let mut handles = Vec::with_capacity(tasks);
        // What it takes to put the tasks together again.
        let mut kept = Vec::with_capacity(tasks);
        let mut chain = Chain { first: ptr::null_mut(), last: ptr::null_mut() };
        let mut earliest = Deadline { at: NEVER, immediate: false };
        for (delay, task) in batch {
            // Anew for each: where spans are captured, `fill` calls the subscriber. One that
            // schedules may trade this thread's lane for another.
            let own = core.arena.lanes.of_this_thread();
            let entry = core.arena.find(own, For::Task);
            let (body, options) = task.into_parts();
            let due = Deadline::after(now, delay);
            earliest.at = earliest.at.min(due.at);
            earliest.immediate |= due.immediate;
            let flags = flags_of(&options, due.immediate).local(wheel.is_some());
            // SAFETY: the entry was free, and no other thread has seen it or the one before it:
            // both are pushed below. `publish` sets the handle bit for the handle that is made of
            // it.
            unsafe {
                let found = NonNull::new_unchecked(entry);
                self.fill(found, due.at, &options, place, body);
                (*entry).state.publish(own.lane.number(), flags);
                handles.push(EntryHandle::new(found, self.core_address()));
                chain.append(entry);
            }
            kept.push((delay, options));
        }
        let own = core.arena.lanes.of_this_thread();
        // SAFETY: the entries have handles and are linked, and no other thread has seen them.
        let pushed = unsafe {
            let first = chain.end();
            match wheel {
                Some(wheel) => core.place_batch(own, wheel, first),
                None => core.push_batch(own, core.arena.lanes.channel_of(own), first, earliest),
            }
        };
        match pushed {
            AfterPush::Seen if wheel.is_none() => core.arena.lanes.seek_wheel(own),
            AfterPush::Seen => {}
            // SAFETY: `fill` made the tasks with these options, each with those at its place.
            AfterPush::Stopped => return Err(unsafe { self.take_batch_back(handles, kept) }),
        }
        Ok(handles.into_iter().map(Cancellable::once).collect())
    }

    /// Puts the tasks of a batch together again that the driver has not seen.
    ///
    /// # Safety
    ///
    /// [`fill`](Self::fill) made the task of each entry of the body that belongs to `T`, with the
    /// options at its place.
    unsafe fn take_batch_back<T: IntoTask>(
        &self,
        handles: Vec<EntryHandle>,
        kept: Vec<(Duration, TaskOptions)>,
    ) -> Refused<T> {
        let (core, tasks) = (self.core(), handles.len());
        let take_back = |(handle, (delay, options)): (EntryHandle, _)| {
            let cancelled = handle.entry().state.cancel() != Cancel::TooLate;
            assert!(cancelled, "a part of a batch was taken in");
            let wrapped = self.wrapped(&options);
            // SAFETY: we cancelled it, and the task was made of this body with these options.
            let body = unsafe { body_of(wrapped, handle.entry().take_task()) };
            (delay, T::from_parts(body, options))
        };
        let batch = handles.into_iter().zip(kept).map(take_back).collect();
        core.release_places(tasks);
        core.arena.lanes.of_this_thread().count_refused(tasks as u64);
        ScheduleError::new(Refusal::Stopped, batch)
    }
}

/// Entries that are linked in order, and that no other thread has seen.
struct Chain {
    first: *mut Entry,
    last: *mut Entry,
}

impl Chain {
    /// # Safety
    ///
    /// The entries of the chain are alive, and so is this one, and no other thread has seen them.
    unsafe fn append(&mut self, entry: *mut Entry) {
        if self.first.is_null() {
            self.first = entry;
        } else {
            // SAFETY: both are alive, and nobody else uses their links.
            unsafe { Links::set_next(&*Entry::links(self.last), Entry::links(entry)) };
        }
        self.last = entry;
    }

    /// The first entry. The last has no successor from here on.
    ///
    /// # Safety
    ///
    /// Same as [`append`](Self::append), and there is an entry.
    unsafe fn end(self) -> *mut Entry {
        // SAFETY: it is alive, and nobody else uses its links.
        unsafe { (*Entry::links(self.last)).set_next(ptr::null_mut()) };
        self.first
    }
}
