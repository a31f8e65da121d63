//! A scheduler that a web page turns, or another host that has one thread and callbacks.

use std::ops::Deref;
use std::sync::{OnceLock, Weak};
use std::time::Duration;

use crate::api::config::Builder;
use crate::api::timer_driver::TimerDriver;
use crate::base::error::ConfigError;
use crate::sync::{Arc, Mutex};
use lars_base::debug_fields;
use lars_base::time::{Clocks, Instant, set_clocks};

/// The longest wait that a host is asked for. (`setTimeout` takes 24.8 days at most, and waits for
/// nothing beyond that.)
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What the host does for its timers. In a browser: `performance.now`, `Date.now` and `setTimeout`.
///
/// `examples/wasm` has it in ten lines, by plain imports.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    /// The time since an instant of the host's choice. It must not go back.
    pub now: fn() -> Duration,
    /// The time since the beginning of 1970. It may jump, both ways.
    pub since_epoch: fn() -> Duration,
    /// Has [`turn`] called after this time, which is in whole milliseconds, with this number. It
    /// returns at once: it must not call `turn` itself. A call that comes early or late makes no
    /// timer early.
    pub call_turn: fn(Duration, u32),
}

/// The calls of [`turn`] that the host has been asked for, and what they turn.
struct Page {
    host: Host,
    calls: Mutex<Calls>,
}

struct Calls {
    drivers: Vec<Weak<TimerDriver>>,
    /// When each comes, and its number. A page has few: one is added only if it is the first.
    pending: Vec<(Instant, u32)>,
    last: u32,
}

static PAGE: OnceLock<Page> = OnceLock::new();

/// Fires what is due. For the host: see [`Host::call_turn`].
pub fn turn(call: u32) {
    let Some(page) = PAGE.get() else { return };
    let mut drivers: Vec<Arc<TimerDriver>> = Vec::new();
    {
        let mut calls = page.calls.lock();
        calls.pending.retain(|&(_, number)| number != call);
        calls.drivers.retain(|driver| driver.strong_count() > 0);
        drivers.extend(calls.drivers.iter().filter_map(Weak::upgrade));
    }
    // Without the lock: tasks may build schedulers.
    if let Some(next) = drivers.iter().filter_map(|driver| driver.turn_at(Instant::now())).min() {
        page.call_at(next);
    }
}

impl Page {
    /// Sees to it that `turn` is called at `instant`, or before that.
    fn call_at(&self, instant: Instant) {
        let mut calls = self.calls.lock();
        if calls.pending.iter().any(|&(at, _)| at <= instant) {
            return;
        }
        let now = Instant::now();
        let exact = instant.saturating_duration_since(now).min(LONGEST);
        // Rounded up, as `setTimeout` would round down.
        let delay = Duration::from_millis(exact.as_nanos().div_ceil(1_000_000) as u64);
        let call = calls.last.wrapping_add(1);
        calls.last = call;
        calls.pending.push((now + exact, call));
        drop(calls);
        (self.host.call_turn)(delay, call);
    }
}

/// A scheduler that the host turns: it asks the host for a call when something is due.
///
/// Built by [`Builder::build_browser`]. It is a [`TimerDriver`] that needs no loop: the same
/// promises, and the same [`Handle`](crate::Handle). Tasks run inside the host's call, and must be
/// short. A browser is late where it likes: it makes nested calls wait for 4 ms, and those of a
/// hidden tab for a second or more. Nothing is early or lost by that.
///
/// Dropping it drops what is pending.
pub struct BrowserScheduler {
    driver: Arc<TimerDriver>,
}

impl Builder {
    /// A scheduler that a web page turns, by the calls of `host`. A page may have several; the
    /// first host that is given stays.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a setting is out of its range.
    pub fn build_browser(self, host: Host) -> Result<BrowserScheduler, ConfigError> {
        set_clocks(Clocks { monotonic: host.now, since_epoch: host.since_epoch });
        let page = PAGE.get_or_init(|| Page {
            host,
            calls: Mutex::new(Calls { drivers: Vec::new(), pending: Vec::new(), last: 0 }),
        });
        let driver = Arc::new(self.build_driver(|| page.call_at(Instant::now()))?);
        page.calls.lock().drivers.push(Arc::downgrade(&driver));
        // The driver calls its hook only for what is earlier than its last turn said.
        page.call_at(Instant::now());
        Ok(BrowserScheduler { driver })
    }
}

impl Deref for BrowserScheduler {
    type Target = TimerDriver;

    fn deref(&self) -> &TimerDriver {
        &self.driver
    }
}

impl Drop for BrowserScheduler {
    /// Stops without running anything, also while a task of this scheduler drops it.
    fn drop(&mut self) {
        self.driver.end();
    }
}

debug_fields!(|it: BrowserScheduler| driver: it.driver);
