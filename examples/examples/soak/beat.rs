//! Heartbeats: repeats that check themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lars_scheduler::{Cancellable, Handle, MissedTickBehavior, Periodic, ScheduleError};

use crate::books::{Books, LOST};

/// A heartbeat that goes on.
#[derive(Debug)]
pub struct Beat {
    series: Cancellable,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    books: Arc<Books>,
    /// Before this instant the next run must not begin.
    bound: AtomicU64,
    running: AtomicBool,
    /// A cancel has returned `true`.
    cancelled: AtomicBool,
}

impl Beat {
    /// Starts one: at a fixed rate, or with a fixed delay.
    pub fn start(
        books: &Arc<Books>,
        timers: &Handle,
        every: Duration,
        fixed_rate: bool,
    ) -> Result<Self, ScheduleError<()>> {
        let nanos = every.as_nanos() as u64;
        let state = Arc::new(State {
            books: Arc::clone(books),
            bound: AtomicU64::new(books.now() + nanos),
            running: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
        });
        let own = Guard(Arc::clone(&state));
        books.beats_begun.fetch_add(1, Ordering::SeqCst);
        let series = if fixed_rate {
            let run = move || {
                let own = &own;
                own.0.run(|bound, _| bound + nanos);
            };
            let run = Periodic::new(run).missed_ticks(MissedTickBehavior::Skip);
            timers.schedule_at_fixed_rate(every, every, run).map_err(|error| error.map(drop))?
        } else {
            let run = move || {
                let own = &own;
                own.0.run(|_, now| now + nanos);
            };
            timers.schedule_with_fixed_delay(every, every, run).map_err(|error| error.map(drop))?
        };
        Ok(Self { series, state })
    }

    /// Cancels it, and says whether that was what ended it, which it always is.
    pub fn end(self) {
        let books = &self.state.books;
        if !self.series.cancel() {
            books.fault("a heartbeat had ended by itself".to_owned());
            return;
        }
        self.state.cancelled.store(true, Ordering::SeqCst);
        books.beats_ended.fetch_add(1, Ordering::SeqCst);
        if self.state.bound.load(Ordering::SeqCst) + LOST < books.now() {
            books.fault("a heartbeat had stopped".to_owned());
        }
    }
}

/// What the repeat's closure owns. The closure goes with the series: at the cancel, or after the
/// run that was under way or waited for a thread.
#[derive(Debug)]
struct Guard(Arc<State>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.books.beats_gone.fetch_add(1, Ordering::SeqCst);
    }
}

impl State {
    /// One run; `next` says from the bound and the time before when the next may begin.
    fn run(&self, next: impl FnOnce(u64, u64) -> u64) {
        let (bound, now) = (self.bound.load(Ordering::SeqCst), self.books.now());
        if self.running.swap(true, Ordering::SeqCst) {
            self.books.fault("two runs of a heartbeat overlap".to_owned());
        }
        if self.cancelled.load(Ordering::SeqCst) {
            self.books.fault("a heartbeat ran after it was cancelled".to_owned());
        }
        if now < bound {
            self.books.fault(format!("a heartbeat ran {} ns early", bound - now));
        }
        self.books.beat_runs.fetch_add(1, Ordering::SeqCst);
        self.bound.store(next(bound, now), Ordering::SeqCst);
        self.running.store(false, Ordering::SeqCst);
    }
}
