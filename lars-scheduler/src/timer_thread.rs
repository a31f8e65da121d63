//! The timer thread: takes in, reads the clock, turns, sleeps.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::driver::{Driver, Intaken, Next};
use crate::metrics::DriverCounts;
use crate::report::PanicIn;
use crate::sleep::FOREVER;
use crate::sync::{Parker, relax, thread};

/// How often a gap in the intake is looked at again before the thread sleeps for a moment: the
/// producer that left it may need this very core.
const PATIENCE: u32 = 256;
/// For how long it sleeps then.
const GAP_SLEEP: Duration = Duration::from_micros(50);

/// The body of the thread. Returns when the scheduler was asked to stop and the promise was kept.
pub(crate) fn run(mut driver: Driver, parker: &Parker) {
    sleep_exactly();
    *driver.core().driven_by.lock() = Some(thread::current().id());
    let mut crashes = 0_u32;
    // Unwind safety: the driver keeps what is due in its wheel and not on the stack, so after a panic
    // it goes on with the next entry. Foreign code is contained where it is called; what can still
    // get here is a panic in a log subscriber, and our own mistakes.
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| drive(&mut driver, parker))) {
        let core = driver.core();
        DriverCounts::add(&core.counts.restarts, 1);
        let report = AssertUnwindSafe(|| core.reporter.panicked(PanicIn::TimerThread, payload));
        // A subscriber that panics again must not end the thread either.
        let _ = catch_unwind(report);
        // Should it panic at every turn, it shall not do so at full speed.
        crashes = crashes.saturating_add(1);
        thread::sleep(Duration::from_millis(u64::from(crashes.min(100))));
    }
    *driver.core().driven_by.lock() = None;
}

fn drive(driver: &mut Driver, parker: &Parker) {
    let mut gaps = 0;
    // The sleep that was announced, if the thread is about to go to sleep.
    let mut announced = None;
    loop {
        let intaken = driver.take_in();
        // Read after taking in: whatever was taken in was stamped before this.
        let now = driver.core().clock.now();
        let turn = driver.turn(now);
        let core = driver.core();
        if core.stop.is_requested() {
            driver.finish();
            return;
        }
        if intaken == Intaken::Gap {
            gaps += 1;
            if gaps < PATIENCE {
                relax(gaps);
            } else {
                thread::sleep(GAP_SLEEP);
            }
            continue;
        }
        gaps = 0;
        let until = match turn.next {
            Next::Now => continue,
            Next::At(instant) => instant.saturating_add(core.coalesce).min(FOREVER),
            Next::Idle => FOREVER,
        };
        match announced {
            // The announcement was made before the intake was looked at, and nothing in there is due
            // before it: whoever pushes later sees it, and wakes this thread if need be.
            Some(announced) if announced <= until => sleep(driver, parker, announced),
            // Once more round, to see what was pushed by those who did not see the announcement.
            _ => {
                let until = driver.sleep_until(until);
                driver.core().sleep.announce_sleep(until);
                announced = Some(until);
                continue;
            }
        }
        announced = None;
    }
}

/// Sleeps until `instant`, or until woken.
fn sleep(driver: &Driver, parker: &Parker, instant: u64) {
    let core = driver.core();
    match core.clock.instant(instant) {
        Some(deadline) if instant < FOREVER => parker.park_deadline(deadline),
        _ => parker.park(),
    }
    DriverCounts::add(&core.counts.wake_ups, 1);
    core.sleep.announce_awake();
}

/// Asks the kernel not to let this thread sleep longer so that wake-ups coincide. By default it may add 50 µs.
///
/// (The threads that it starts inherit this, those of the pool among them.)
fn sleep_exactly() {
    // SAFETY: sets a property of the calling thread; where that is not allowed it stays as it is.
    #[cfg(all(target_os = "linux", not(miri)))]
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize);
    }
}
