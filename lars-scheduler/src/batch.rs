//! Scheduling many tasks at once: one reading of the clock, one push.

use std::ptr::{self, NonNull};
use std::time::Duration;

use crate::cancel::{BACKLOG, Cancellable, EntryHandle};
use crate::entry::state::Cancel;
use crate::entry::{Entry, Links};
use crate::error::{Refusal, ScheduleError};
use crate::handle::{Handle, body_of, flags_of};
use crate::sleep::AfterPush;
use crate::sync::relax;
use crate::task::IntoTask;
use crate::tick::{NEVER, nanos};

/// A batch that was refused: as it was handed in.
type Refused<T> = ScheduleError<Vec<(Duration, T)>>;

impl Handle {
    /// Schedules many tasks, each to run once: as [`schedule_once`](Self::schedule_once) for each, in order, but
    /// with one reading of the clock and one publication for all of them.
    ///
    /// The delays count from one instant, read when the iterator has ended. All are accepted or none. The
    /// cancellables come in the order of the tasks; to drop them does not cancel.
    ///
    /// All tasks of a batch have one type. For different ones, `Box<dyn FnOnce() + Send>` is a type.
    ///
    /// # Errors
    ///
    /// [`Refusal::Stopped`] after the scheduler was stopped, closed or dropped, and [`Refusal::Full`] if there
    /// is no room for all of them within `max_pending`. All tasks are given back with their delays, and none runs.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let probes = (1..=3).map(|host| (Duration::from_secs(host), move || println!("probe host {host}")));
    /// let probes = time.schedule_batch(probes)?;
    /// assert!(probes[1].cancel());
    /// assert_eq!(time.advance(Duration::from_secs(3)), 2);
    /// # Ok(()) }
    /// ```
    pub fn schedule_batch<T: IntoTask>(
        &self,
        batch: impl IntoIterator<Item = (Duration, T)>,
    ) -> Result<Vec<Cancellable>, Refused<T>> {
        // First the caller's code, to its end: what follows calls none.
        let batch: Vec<(Duration, T)> = batch.into_iter().collect();
        match self.admit(batch.len(), true) {
            Ok(()) if batch.is_empty() => Ok(Vec::new()),
            Ok(()) => self.schedule_admitted(batch),
            Err(refusal) => Err(ScheduleError::new(refusal, batch)),
        }
    }

    /// The batch has its places, and something in it.
    pub(crate) fn schedule_admitted<T: IntoTask>(
        &self,
        batch: Vec<(Duration, T)>,
    ) -> Result<Vec<Cancellable>, Refused<T>> {
        let core = self.core();
        let tasks = batch.len();
        let now = core.clock.now();
        let place = core.lanes.of_this_thread();
        let mut handles = Vec::with_capacity(tasks);
        // What it takes to put the tasks together again.
        let mut kept = Vec::with_capacity(tasks);
        let (mut first, mut last) = (ptr::null_mut::<Entry>(), ptr::null_mut());
        let mut pop_by = NEVER;
        let mut batch = batch.into_iter();
        core.arena.find_all(&core.lanes, place, tasks, |entry| {
            let (delay, task) = batch.next().expect("as many entries as there are tasks");
            let (body, options) = task.into_parts();
            let deadline = now.saturating_add(nanos(delay));
            pop_by = pop_by.min(core.pop_by(deadline, delay.is_zero()));
            // SAFETY: the entry was free and is ours alone, as the one before it is; `publish` sets the handle bit
            // for the handle that is made of it.
            unsafe {
                (*entry).fill(deadline, self.task_of(&options, body));
                (*entry).state.publish(flags_of(&options, delay.is_zero()));
                handles.push(EntryHandle::new(NonNull::new_unchecked(entry), self.core_address()));
                if first.is_null() {
                    first = entry;
                } else {
                    Links::set_next(&*Entry::links(last), Entry::links(entry));
                }
            }
            last = entry;
            kept.push((delay, options));
        });
        // SAFETY: the entries are ours and linked; the push gives the driver its part.
        unsafe { place.lane.intake.push_chain(first, last) };
        match core.sleep.after_push(pop_by) {
            AfterPush::Seen => {
                if place.add_backlog(tasks as u64, BACKLOG) {
                    core.sleep.wake();
                }
            }
            AfterPush::Stopped => {
                // The last drain finds all of the chain or nothing; when it is over we know which.
                let mut spins = 0;
                while !core.stop.is_resolved() {
                    relax(spins);
                    spins = spins.saturating_add(1);
                }
                if handles[0].entry().state.cancel() != Cancel::TooLate {
                    let take_back = |(number, handle): (usize, EntryHandle)| {
                        let cancelled =
                            number == 0 || handle.entry().state.cancel() != Cancel::TooLate;
                        assert!(cancelled, "a part of a chain was drained");
                        let (delay, options) = std::mem::take(&mut kept[number]);
                        // SAFETY: we cancelled it, and the task was made with these options of the body that
                        // belongs to `T`.
                        let body = unsafe { body_of(&options, handle.entry().take_task()) };
                        (delay, T::from_parts(body, options))
                    };
                    let batch = handles.into_iter().enumerate().map(take_back).collect();
                    core.release_places(tasks);
                    place.count_refused(tasks as u64);
                    return Err(ScheduleError::new(Refusal::Stopped, batch));
                }
            }
        }
        Ok(handles.into_iter().map(Cancellable::once).collect())
    }
}
