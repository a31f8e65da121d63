//! Time: nanoseconds since the scheduler's origin, from the system or from a test.
#![allow(clippy::disallowed_methods)] // the one file that reads the monotonic clock
#![cfg_attr(lars_loom, allow(dead_code))] // no model has the systems that use some of this

mod boot;

use std::time::Duration;

use self::boot::Boot;
use crate::base::error::ConfigError;
use crate::base::tick::LAST_INSTANT;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Ordering, real_now, thread_slot};
use lars_base::time::Instant;

/// How far a coarse reading may be behind, in nanoseconds: twice the longest period of the kernel's
/// own tick. (While no processor ticks it may be behind by more. A reader then takes the time for
/// earlier than it is.)
pub(crate) const LAG: u64 = 20_000_000;

/// For how long a driver sleeps at most, in nanoseconds, if time goes on in a suspend that no sleep
/// counts. So what came due in one begins at most this much after the machine has woken.
const LOOK_AGAIN: u64 = 1_000_000_000;

/// A monotonic clock. Its origin is the instant at which its scheduler was built.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    origin: Instant,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    /// `std`'s monotonic clock (`CLOCK_MONOTONIC` on Linux: it stands still while the machine
    /// is suspended), and what it showed at the origin or a moment later.
    System { start: u64 },
    /// The time since boot, which goes on in a suspend.
    Boot(Boot),
    /// A number that a test moves.
    Manual(Arc<Manual>),
}

#[derive(Debug)]
struct Manual {
    now: AtomicU64,
    /// The thread that moves the clock whenever nothing else is left to do, as its number plus one;
    /// 0 if there is none.
    follows: AtomicUsize,
    /// Another thread has looked at the time meanwhile, to wait for it.
    seen_elsewhere: AtomicBool,
}

impl Clock {
    pub(crate) fn system() -> Self {
        let (origin, start) = origin_and(monotonic);
        Self { origin, source: Source::System { start } }
    }

    /// The system's clock, or the one that goes on while the machine is suspended.
    pub(crate) fn real(count_suspend: bool) -> Result<Self, ConfigError> {
        if !count_suspend {
            return Ok(Self::system());
        }
        let (origin, start) = origin_and(|_| boot::read());
        let boot = start.map(Boot::new).ok_or(ConfigError::CountSuspend)?;
        Ok(Self { origin, source: Source::Boot(boot) })
    }

    /// A clock that stands at `start` until it is moved.
    pub(crate) fn manual(start: u64) -> Self {
        let manual = Manual {
            now: AtomicU64::new(start),
            follows: AtomicUsize::new(0),
            seen_elsewhere: AtomicBool::new(false),
        };
        Self { origin: real_now(), source: Source::Manual(Arc::new(manual)) }
    }

    /// Nanoseconds since the origin.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match &self.source {
            // If the system's clock goes back behind the start, time stands still.
            Source::System { start } => monotonic(self.origin).saturating_sub(*start),
            Source::Boot(boot) => boot.now(),
            // Acquire: a thread that reads an instant also sees what was done before it was set.
            Source::Manual(manual) => manual.now.load(Ordering::Acquire),
        }
    }

    /// A reading at a quarter of the cost of [`now`](Self::now) (5 ns), where the system has one.
    /// It is never ahead of `now`, and usually behind it by less than [`LAG`].
    #[inline]
    pub(crate) fn coarse(&self) -> u64 {
        match &self.source {
            Source::System { start } => coarse(self.origin).saturating_sub(*start),
            Source::Boot(_) | Source::Manual(_) => self.now(),
        }
    }

    /// What tells clocks apart that show different times, if time moves by itself.
    #[inline]
    pub(crate) fn key(&self) -> Option<(Instant, u64)> {
        match &self.source {
            Source::System { start } => Some((self.origin, *start)),
            Source::Boot(_) | Source::Manual(_) => None,
        }
    }

    /// The instant at which it showed zero. Clocks with the same one show the same time.
    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    /// Whether a test moves it.
    pub(crate) fn is_manual(&self) -> bool {
        matches!(self.source, Source::Manual(_))
    }

    /// Moves a manual clock forwards to `instant`; never back, and not beyond its range.
    pub(crate) fn set(&self, instant: u64) {
        if let Source::Manual(manual) = &self.source {
            // Release: see `now`.
            manual.now.fetch_max(instant.min(LAST_INSTANT), Ordering::AcqRel);
        }
    }

    /// From now on the calling thread moves a manual clock whenever it has nothing else to do. No
    /// other thread may wait for that time: it would race with the clock. False if the clock has
    /// followed this thread before: then whoever began that ends it.
    pub(crate) fn follow_this_thread(&self) -> bool {
        let Source::Manual(manual) = &self.source else { return false };
        let number = thread_slot().wrapping_add(1);
        // Relaxed, all of it: a check, which no memory depends on.
        let begins = manual.follows.load(Ordering::Relaxed) != number;
        if begins {
            manual.seen_elsewhere.store(false, Ordering::Relaxed);
            manual.follows.store(number, Ordering::Relaxed);
        }
        begins
    }

    /// Ends what [`follow_this_thread`](Self::follow_this_thread) began.
    pub(crate) fn follow_nobody(&self) {
        if let Source::Manual(manual) = &self.source {
            // Relaxed: see `follow_this_thread`.
            manual.follows.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that the calling thread looks whether its time has come.
    #[inline]
    pub(crate) fn note_waiter(&self) {
        if let Source::Manual(manual) = &self.source {
            // Relaxed: see `follow_this_thread`.
            let follows = manual.follows.load(Ordering::Relaxed);
            if follows != 0 && follows != thread_slot().wrapping_add(1) {
                manual.seen_elsewhere.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether another thread has waited for the time of a clock that follows this one.
    pub(crate) fn has_waiter_elsewhere(&self) -> bool {
        // Relaxed: see `follow_this_thread`.
        matches!(&self.source, Source::Manual(it) if it.seen_elsewhere.load(Ordering::Relaxed))
    }

    /// The instant as the standard library's type; `None` for one that the clock never shows, or
    /// that the platform cannot express.
    pub(crate) fn instant(&self, nanos: u64) -> Option<Instant> {
        if nanos > LAST_INSTANT {
            return None;
        }
        let instant = self.origin.checked_add(Duration::from_nanos(nanos))?;
        match &self.source {
            Source::Boot(boot) => {
                // In this order, so no instant that has come is ahead of `real_now`.
                let now = boot.now();
                let suspended = now.saturating_sub(self.awake());
                instant.checked_sub(Duration::from_nanos(suspended))
            }
            _ => Some(instant),
        }
    }

    /// Nanoseconds between the origin and `instant`; an instant before the origin is the origin. If
    /// this clock goes on in a suspend: as far as the machine has been suspended until now.
    #[inline]
    pub(crate) fn nanos_at(&self, instant: Instant) -> u64 {
        let nanos = crate::base::tick::nanos(instant.saturating_duration_since(self.origin));
        match &self.source {
            Source::Boot(boot) => {
                // In this order, so a deadline is not before its instant.
                let awake = self.awake();
                nanos.saturating_add(boot.now().saturating_sub(awake))
            }
            _ => nanos,
        }
    }

    /// For how long the machine has not been suspended since the origin.
    fn awake(&self) -> u64 {
        crate::base::tick::nanos(real_now().saturating_duration_since(self.origin))
    }

    /// When whoever wants to sleep until `instant` has to look at the clock again.
    #[inline]
    pub(crate) fn look_again_by(&self, now: u64, instant: u64) -> u64 {
        match &self.source {
            Source::Boot(_) => instant.min(now.saturating_add(LOOK_AGAIN)),
            _ => instant,
        }
    }

    /// The machine of a test was suspended for so long.
    #[cfg(all(test, target_os = "linux", not(any(lars_loom, lars_shuttle, miri))))]
    pub(crate) fn suspend(&self, nanos: u64) {
        if let Source::Boot(boot) = &self.source {
            // Relaxed: see `Boot::now`.
            boot.suspended.fetch_add(nanos, Ordering::Relaxed);
        }
    }
}

/// An origin, and what `clock` showed then or a moment later.
///
/// Read after the origin: an instant of the clock is never ahead of the `Instant` that it stands
/// for, so a deadline given as an `Instant` is not early, only late by the time between the two
/// readings. That difference stays for the clock's whole life, so take a pair of readings that
/// nothing interrupted.
fn origin_and<T>(clock: impl Fn(Instant) -> T) -> (Instant, T) {
    let read = |_| {
        let origin = real_now();
        let start = clock(origin);
        (real_now() - origin, origin, start)
    };
    let best = (0..5).map(read).min_by_key(|&(took, ..)| took);
    let (_, origin, start) = best.expect("five are not none");
    (origin, start)
}

/// Nanoseconds on the clock that `Instant` reads, from a start of its own.
///
/// Straight from the system: `Instant` keeps seconds and nanoseconds apart, and taking the
/// difference of two costs a fifth of the reading (28 ns with, 23 ns without, beside an exchange of
/// 5 ns that both include).
#[cfg(all(target_os = "linux", not(any(lars_loom, lars_shuttle))))]
#[inline]
fn monotonic(_origin: Instant) -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// What that clock showed at the kernel's last tick. Read from memory that the kernel shares, and
/// not from a counter.
#[cfg(all(target_os = "linux", not(any(lars_loom, lars_shuttle))))]
#[inline]
fn coarse(_origin: Instant) -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

#[cfg(all(target_os = "linux", not(any(lars_loom, lars_shuttle))))]
#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to the local `time`. The clocks exist on every Linux, so this does not
    // fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    // Since boot: neither is negative, and 584 years of nanoseconds fit.
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Nanoseconds on the clock that `Instant` reads, from a start of its own.
#[cfg(not(all(target_os = "linux", not(any(lars_loom, lars_shuttle)))))]
fn monotonic(origin: Instant) -> u64 {
    crate::base::tick::nanos(real_now().saturating_duration_since(origin))
}

#[cfg(not(all(target_os = "linux", not(any(lars_loom, lars_shuttle)))))]
fn coarse(origin: Instant) -> u64 {
    monotonic(origin)
}

/// When a wait of at most `limit` ends; `None` if that is beyond the clock's range.
pub(crate) fn limit_of_wait(limit: Duration) -> Option<Instant> {
    real_now().checked_add(limit)
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_never_goes_back() {
        let clock = Clock::manual(5);
        clock.set(9);
        clock.set(7);
        assert_eq!(clock.now(), 9);
        clock.set(u64::MAX);
        assert_eq!(clock.now(), LAST_INSTANT);
    }

    #[test]
    fn a_coarse_reading_is_never_ahead_and_does_not_stand_still() {
        let clock = Clock::system();
        let before = clock.coarse();
        while clock.coarse() == before {
            let coarse = clock.coarse();
            assert!(coarse <= clock.now());
        }
        let manual = Clock::manual(7);
        assert_eq!((manual.coarse(), manual.now()), (7, 7));
    }

    #[cfg(all(target_os = "linux", not(any(lars_shuttle, miri))))]
    #[test]
    fn a_clock_that_counts_a_suspend_goes_on_in_it_and_instants_do_not() {
        let hour = 3_600_000_000_000;
        let clock = Clock::real(true).unwrap();
        let shown = |nanos| clock.instant(nanos).unwrap();
        for hours in 0..3 {
            let before = Instant::now();
            let now = clock.now();
            assert!(now >= hours * hour && now < (hours + 1) * hour, "{now}");
            // An instant stays what it is elsewhere: no clock but this one is ahead.
            let is = shown(now);
            assert!(is <= Instant::now() && (hours == 0 || is >= before));
            assert!(clock.nanos_at(Instant::now()) >= now, "a deadline would be early");
            // What is given as a delay has passed by that much more.
            let due = clock.now() + hour / 2;
            clock.suspend(hour);
            assert!(clock.now() > due);
            assert!(shown(due) < Instant::now());
        }
    }

    #[test]
    fn instants_before_the_origin_are_the_origin() {
        let early = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        let clock = Clock::system();
        assert_eq!(clock.nanos_at(early), 0);
    }
}
