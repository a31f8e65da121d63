//! Backpressure: what becomes of a call whose lane has used up its credit. See
//! [`pace`](crate::engine::pace).

use std::cell::Cell;

use crate::base::backpressure::Backpressure;
use crate::engine::lane::OwnLane;
use crate::engine::pace::{CREDIT, Pace};
use crate::engine::shared::Core;
use crate::sync::{Ordering, nap, thread_local};

thread_local! {
    /// While it is set, no call of this thread waits: the thread holds a lock that others want.
    static WAITS_LATER: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether calls of this thread wait later, and returns what was set before.
#[cfg_attr(lars_loom, allow(dead_code))] // no model has systems
pub(crate) fn wait_later(later: bool) -> bool {
    // A thread whose thread-locals are gone waits, as any other does.
    WAITS_LATER.try_with(|it| it.replace(later)).unwrap_or(false)
}

/// How long a call sleeps at a time, in nanoseconds: at least and at most, if few lanes ask.
const NAPS: (u64, u64) = (50_000, 1_000_000);
/// How long it sleeps at least for each lane that asks: a wake-up takes the processor from the
/// timer thread.
const NAP_EACH: u64 = 50_000;
/// However many they are.
const LONGEST_NAP: u64 = 20_000_000;
/// How long a call waits in all, in nanoseconds. Then it goes on.
const LONGEST_WAIT: u64 = 1_000_000_000;

/// What a lane without credit is to do.
enum Answer {
    /// It has credit now.
    GoOn,
    /// It is to wait for so many nanoseconds, and to ask again.
    Nap(u64),
    Refused,
}

impl Core {
    /// Whether the calling thread may go on with a call that schedules so many tasks. Waits until
    /// it may, or refuses them, as the builder was told.
    ///
    /// Not for futures and repeats: see [`goes_on`](Self::goes_on).
    #[inline]
    pub(crate) fn has_share(&self, own: OwnLane<'_>, tasks: usize) -> bool {
        !own.is_out_of_credit() || self.get_share(own, tasks)
    }

    /// A future, or a series between two runs, makes a timer: it is charged, but goes on in any
    /// case. A future must not hold up its runtime's thread, and a series must not end. Each has
    /// one timer, and makes no other before that has fired; so they cannot outrun the timer thread.
    #[inline]
    pub(crate) fn goes_on(&self, own: OwnLane<'_>) {
        if own.is_out_of_credit() {
            // Nothing is owed for it: calls of this thread that may wait do not wait for futures.
            own.grant_up_to(1, self.clock.now());
        }
    }

    /// Before a piece of a batch, or after a move of another thread's deadline: waits if the thread
    /// has used up its share and is to wait. (A batch is not refused in the middle, and the
    /// deadline has been moved.)
    #[inline]
    pub(crate) fn wait_for_share(&self, own: OwnLane<'_>) {
        if own.is_out_of_credit() && self.pace.mode == Backpressure::Wait {
            let _goes_on = self.get_share(own, 0);
        }
    }

    #[cold]
    #[inline(never)]
    fn get_share(&self, own: OwnLane<'_>, tasks: usize) -> bool {
        if self.pace.mode == Backpressure::Wait && WAITS_LATER.try_with(Cell::get).unwrap_or(false)
        {
            // Nothing is granted: what the call takes is owed, and the next one waits for it.
            return true;
        }
        // What its thread has cancelled behind its gate is no work for the timer thread.
        own.earn_cancelled(CREDIT);
        let began = self.clock.now();
        let (mut now, mut waits) = (began, false);
        loop {
            match self.ask(own, now, now.saturating_sub(began)) {
                Answer::GoOn => break,
                Answer::Refused => {
                    // Relaxed: a statistic.
                    self.refused_early.fetch_add(tasks as u64, Ordering::Relaxed);
                    return false;
                }
                Answer::Nap(nanos) => {
                    if !waits {
                        self.pace.waits.begin();
                    }
                    waits = true;
                    nap(nanos);
                }
            }
            now = self.clock.now();
        }
        if waits {
            self.pace.waits.end(now.saturating_sub(began));
        }
        true
    }

    /// What the lane is to do, whose caller has waited for so long.
    fn ask(&self, own: OwnLane<'_>, now: u64, waited: u64) -> Answer {
        // (It may have earned enough by what it has cancelled.)
        if !own.is_out_of_credit() {
            return Answer::GoOn;
        }
        // The timer thread does not wait for itself, and nobody for one that has stopped.
        if self.is_driven_here() || self.stop.is_requested() || self.sleep.is_stopped() {
            own.grant_up_to(CREDIT, now);
            return Answer::GoOn;
        }
        let sharers = self.pace.sharers(own.asked_in(), now);
        let Some(price) = self.pace.price(now, self.sleep.is_up(now)) else {
            own.grant_up_to(Pace::whole_credit(sharers), now);
            return Answer::GoOn;
        };
        let missing = own.earn(now, price * sharers, CREDIT);
        if !own.is_out_of_credit() {
            return Answer::GoOn;
        }
        if self.pace.mode == Backpressure::Refuse {
            return Answer::Refused;
        }
        if waited >= LONGEST_WAIT {
            own.grant_up_to(1, now);
            return Answer::GoOn;
        }
        Answer::Nap(nap_for(missing, sharers))
    }
}

/// How long a call sleeps that will have earned what is missing in so long, while so many lanes
/// ask; in nanoseconds.
fn nap_for(missing: u64, sharers: u64) -> u64 {
    let (least, most) = NAPS;
    missing.clamp(least, most).max(sharers * NAP_EACH).min(LONGEST_NAP)
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_nap_is_as_long_as_credit_is_missing_and_longer_if_many_lanes_ask() {
        let missing_and_sharers = [
            (1, 1, 50_000),
            (60_000, 1, 60_000),
            (2_000_000, 1, 1_000_000),
            (60_000, 7, 350_000),
            (2_000_000, 30, 1_500_000),
            (2_000_000, 300, 15_000_000),
            (2_000_000, 10_000, 20_000_000),
        ];
        for (missing, sharers, nap) in missing_and_sharers {
            assert_eq!(nap_for(missing, sharers), nap, "{missing} ns, {sharers} lanes");
        }
    }
}
