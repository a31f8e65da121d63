//! The timer thread: reads the clock, drains the channels, turns the driver, sleeps.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::base::panics::PanicIn;
use crate::engine::counts::DriverCounts;
use crate::engine::driver::walk::Walked;
use crate::engine::driver::{Driver, Intaken, Next};
use crate::engine::sleep_word::FOREVER;
use crate::sync::{Parker, relax, thread};

/// How often the timer thread looks again at a thread that is in the middle of scheduling
/// something. After that the timer thread sleeps for a moment: the other thread was interrupted,
/// and may need this very core. (The timer thread does not yield, because Linux puts a thread that
/// yields behind all others.)
const PATIENCE: u32 = 8;
/// For how long it sleeps then.
const SHORT_SLEEP: Duration = Duration::from_micros(50);

/// The shortest slice that Linux gives, in nanoseconds.
#[cfg(all(target_os = "linux", not(miri)))]
const SHORT_SLICE: u64 = 100_000;

/// The body of the thread. Calls `begins` first, which does not panic. Returns when the scheduler
/// was asked to stop and the promise was kept.
pub(crate) fn run(mut driver: Driver, parker: &Parker, short_slices: bool, begins: impl FnOnce()) {
    *driver.core().driven_by.lock() = Some(thread::current().id());
    // Foreign code. It must not wait for this thread, which is known as the timer thread by now.
    begins();
    sleep_exactly();
    if short_slices {
        ask_for_short_slices();
    }
    driver.is_turned_in_time();
    let mut crashes = 0_u32;
    // Unwind safety: the driver keeps what is due in its wheel and not on the stack, so after a
    // panic it goes on with the next entry. Foreign code is contained where it is called; what can
    // still get here is the panic of a waker that the end of the scheduler wakes, and our own
    // mistakes.
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| drive(&mut driver, parker))) {
        let core = driver.core();
        DriverCounts::add(&core.counts.restarts, 1);
        core.reporter.panicked(None, PanicIn::TimerThread, payload);
        // Back off, so that a driver that panics at every turn does not spin.
        crashes = crashes.saturating_add(1);
        thread::sleep(Duration::from_millis(u64::from(crashes.min(100))));
    }
    *driver.core().driven_by.lock() = None;
}

fn drive(driver: &mut Driver, parker: &Parker) {
    let mut waits = 0;
    // The sleep that was announced, if the thread is about to go to sleep.
    let mut announced = None;
    loop {
        // Read before taking in: see `Driver::turn`.
        let now = driver.core().clock.now();
        let intaken = driver.take_in();
        driver.note_gap(intaken, now);
        let turn = driver.turn(now);
        let walked = driver.walk(turn.next == Next::Now);
        let core = driver.core();
        if core.stop.is_requested() {
            // So that what ran last is told.
            driver.pause();
            driver.finish();
            return;
        }
        if walked == Walked::More {
            // It has visited lanes, so when to turn next has to be asked anew.
            announced = None;
        }
        if turn.next == Next::Now || walked == Walked::More {
            continue;
        }
        if intaken == Intaken::Gap || turn.next == Next::Soon || walked == Walked::Waiting {
            waits = if turn.fired > 0 { 0 } else { waits + 1 };
            if waits < PATIENCE {
                relax(waits);
            } else {
                thread::sleep(SHORT_SLEEP);
            }
            continue;
        }
        waits = 0;
        let until = match turn.next {
            Next::At(instant) => core.sleep_until(now, instant),
            _ => FOREVER,
        };
        match announced {
            // The announcement was made before the notices were looked at, and nothing is due
            // before it: a producer that gives one later sees it, and wakes this thread if need be.
            Some(announced) if announced <= until && core.sleep.stays_asleep() => {
                sleep(driver, parker, announced);
                driver.slept(now, announced);
            }
            // Go round once more, for the notices of producers that did not see the announcement.
            _ => {
                core.sleep.announce_sleep(until);
                announced = Some(until);
                continue;
            }
        }
        announced = None;
    }
}

/// Sleeps until `instant`, or until woken.
fn sleep(driver: &mut Driver, parker: &Parker, instant: u64) {
    driver.pause();
    let core = driver.core();
    match core.clock.instant(instant) {
        Some(deadline) if instant < FOREVER => parker.park_deadline(deadline),
        _ => parker.park(),
    }
    DriverCounts::add(&core.counts.wake_ups, 1);
    core.sleep.announce_awake();
}

/// Asks the kernel not to prolong this thread's sleeps in order to batch wake-ups. By default it
/// may add 50 µs.
///
/// (The threads that it starts inherit this, those of the pool among them.)
fn sleep_exactly() {
    // SAFETY: sets a property of the calling thread; where that is not allowed it stays as it is.
    #[cfg(all(target_os = "linux", not(miri)))]
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize);
    }
}

/// Asks the kernel to divide this thread's time into short slices. When this thread wakes, it then
/// need not wait for the end of another thread's long slice (Linux 6.12).
///
/// Threads that this thread starts begin with ordinary slices. They would also lose a nice value
/// below zero. So nothing is changed for a thread with such a value.
fn ask_for_short_slices() {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: `attr` consists of numbers, each of which may be zero, and outlives both calls. The
    // kernel writes at most `size` bytes. A call that is refused changes nothing.
    unsafe {
        let mut attr: libc::sched_attr = std::mem::zeroed();
        let size = size_of::<libc::sched_attr>();
        let known = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) == 0;
        if known && attr.sched_policy == libc::SCHED_OTHER as u32 && attr.sched_nice >= 0 {
            attr.sched_runtime = SHORT_SLICE;
            attr.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0);
        }
    }
}
