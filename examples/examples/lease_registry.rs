//! A registry of services: each has a lease, which its heartbeats renew, and which expires when
//! they stay away.
//!
//! Every lease is one timer. A heartbeat moves its deadline out, in place (`Cancellable::reset`),
//! so the registry never sweeps through its leases, and a renewal never touches a shared queue. The
//! example runs ten minutes of 20,000 services in virtual time: most are healthy, some crash, some
//! are slow, some pause for longer than their lease and come back, some say goodbye. At the end
//! each lease's expiry is checked, to the nanosecond.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use clap::Parser;
use examples::checks::{Problem, verify};
use examples::number::number;
use lars_scheduler::{Cancellable, Handle, LightArrayRevolverScheduler};

const HEARTBEAT: Duration = Duration::from_secs(10);
/// Three heartbeats may be late, or two be lost.
const TTL: Duration = Duration::from_secs(35);
/// A lease that is shorter than this is a mistake.
const SHORTEST_TTL: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);

/// Service leases, each a timer that heartbeats move out.
#[derive(Parser)]
struct Options {
    /// How many services there are.
    #[arg(long, default_value_t = 20_000, value_parser = number::<usize>(1_000, 1_000_000))]
    services: usize,
    /// How many minutes of their life to show.
    #[arg(long, default_value_t = 10, value_parser = number::<u32>(1, 1_440))]
    minutes: u32,
}

// The registry.

/// What the registry tells about a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Expired {
    service: usize,
    at: Duration,
}

struct Lease {
    /// Tells leases of one service apart: an expiry that comes late must not take the next lease
    /// with it.
    number: u64,
    expiry: Cancellable,
}

#[derive(Default)]
struct Tally {
    registered: AtomicU64,
    renewed: AtomicU64,
    left: AtomicU64,
}

struct Registry {
    timers: Handle,
    start: Instant,
    ttl: Duration,
    leases: Vec<Mutex<Option<Lease>>>,
    next: AtomicU64,
    expired: Mutex<Vec<Expired>>,
    tally: Tally,
}

/// The time of a lease was refused.
#[derive(Debug)]
struct TooShort(Duration);

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lease is {:?}, but it must be at least {SHORTEST_TTL:?}", self.0)
    }
}

impl Error for TooShort {}

impl Registry {
    fn new(timers: Handle, ttl: Duration, services: usize) -> Result<Arc<Self>, TooShort> {
        if ttl < SHORTEST_TTL {
            return Err(TooShort(ttl));
        }
        let start = timers.now();
        Ok(Arc::new(Self {
            timers,
            start,
            ttl,
            leases: (0..services).map(|_| Mutex::new(None)).collect(),
            next: AtomicU64::new(0),
            expired: Mutex::new(Vec::new()),
            tally: Tally::default(),
        }))
    }

    /// Gives a service a lease, instead of one that it may have. Says whether the scheduler takes
    /// it.
    fn register(self: &Arc<Self>, service: usize) -> bool {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let registry = Arc::downgrade(self);
        let mut lease = locked(&self.leases[service]);
        let Ok(expiry) = self.timers.schedule_once(self.ttl, move || {
            expire(&registry, service, number);
        }) else {
            return false;
        };
        if let Some(old) = lease.replace(Lease { number, expiry }) {
            old.expiry.cancel();
        }
        self.tally.registered.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A heartbeat. `false`: there is no lease any more, and the service has to register again.
    /// `true` is a promise: the lease holds for its whole time from now.
    fn renew(&self, service: usize) -> bool {
        let renewed = locked(&self.leases[service])
            .as_ref()
            .is_some_and(|lease| lease.expiry.reset(self.ttl));
        self.tally.renewed.fetch_add(u64::from(renewed), Ordering::Relaxed);
        renewed
    }

    /// A service says goodbye; its lease is over without expiring.
    fn leave(&self, service: usize) {
        if let Some(lease) = locked(&self.leases[service]).take() {
            lease.expiry.cancel();
            self.tally.left.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn live(&self) -> usize {
        self.leases.iter().filter(|lease| locked(lease).is_some()).count()
    }
}

fn expire(registry: &Weak<Registry>, service: usize, number: u64) {
    let Some(registry) = registry.upgrade() else { return };
    let mut lease = locked(&registry.leases[service]);
    if lease.as_ref().is_some_and(|lease| lease.number == number) {
        *lease = None;
        let at = registry.timers.now() - registry.start;
        locked(&registry.expired).push(Expired { service, at });
    }
}

// The services.

/// What a service does in its life.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Healthy,
    /// No heartbeat from then on.
    Crashes(Duration),
    /// Two heartbeats are lost: too few for its lease.
    IsSlow(Duration),
    /// No heartbeat for so long that the lease expires; then it goes on.
    StandsStill(Duration, Duration),
    /// Says goodbye.
    Leaves(Duration),
}

#[derive(Debug, Clone, Copy)]
struct Service {
    /// When it registers; a heartbeat follows every ten seconds.
    begins: Duration,
    fate: Fate,
}

impl Service {
    fn new(random: &mut Random, whole: Duration) -> Self {
        let begins = random.below(HEARTBEAT);
        let at = begins + random.below(whole);
        let fate = match random.below_number(100) {
            0..10 => Fate::Crashes(at),
            10..16 => Fate::IsSlow(at),
            16..20 => Fate::StandsStill(at, TTL + HEARTBEAT + random.below(MINUTE)),
            20..25 => Fate::Leaves(at),
            _ => Fate::Healthy,
        };
        Self { begins, fate }
    }

    fn beats(&self, time: Duration) -> bool {
        match self.fate {
            Fate::Healthy => true,
            Fate::Crashes(at) | Fate::Leaves(at) => time < at,
            Fate::IsSlow(at) => time < at || time >= at + 2 * HEARTBEAT,
            Fate::StandsStill(at, lasts) => time < at || time >= at + lasts,
        }
    }

    /// When its leases should expire, worked out from its heartbeats alone.
    fn expiries(&self, whole: Duration) -> Vec<Duration> {
        let mut expiries = Vec::new();
        let mut deadline = self.begins + TTL;
        let mut time = self.begins + HEARTBEAT;
        loop {
            if let Fate::Leaves(at) = self.fate
                && at <= deadline.min(time)
            {
                return expiries;
            }
            if time > deadline.min(whole) {
                // No heartbeat came in time.
                if deadline > whole {
                    return expiries;
                }
                expiries.push(deadline);
                deadline = Duration::MAX;
            } else {
                if self.beats(time) {
                    deadline = time + TTL;
                }
                time += HEARTBEAT;
            }
        }
    }

    /// Lets it live: it registers, sends heartbeats, and does what its fate is.
    fn start(self, number: usize, registry: &Arc<Registry>) -> Result<(), Box<dyn Error>> {
        let timers = &registry.timers;
        let own = Arc::clone(registry);
        let mut registered = false;
        let _ = timers.schedule_at_fixed_rate(self.begins, HEARTBEAT, move || {
            let now = own.timers.now() - own.start;
            if matches!(self.fate, Fate::Crashes(at) | Fate::Leaves(at) if now >= at) {
                return ControlFlow::Break(());
            }
            if !registered || (self.beats(now) && !own.renew(number)) {
                registered = own.register(number);
            }
            ControlFlow::Continue(())
        })?;
        if let Fate::Leaves(at) = self.fate {
            let own = Arc::clone(registry);
            let _ = timers.schedule_once(at, move || own.leave(number))?;
        }
        Ok(())
    }
}

// The run.

fn main() -> Result<(), Problem> {
    let options = Options::parse();
    let whole = MINUTE * options.minutes;
    let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    let too_short = Registry::new(time.handle(), Duration::from_secs(4), 1).is_err();
    let registry = Registry::new(time.handle(), TTL, options.services)?;
    let mut random = Random(0x5eed);
    let services: Vec<Service> =
        (0..options.services).map(|_| Service::new(&mut random, whole)).collect();
    for (number, service) in services.iter().enumerate() {
        service.start(number, &registry)?;
    }

    println!(
        "{} services, a heartbeat every {HEARTBEAT:?}, leases of {TTL:?}, in virtual time:\n",
        options.services,
    );
    println!("  minute    live    renewals   registered   left   expired");
    let clock = Instant::now();
    let mut before = [0; 4];
    for minute in 1..=options.minutes {
        time.advance(MINUTE);
        let tally = &registry.tally;
        let now = [
            tally.renewed.load(Ordering::Relaxed),
            tally.registered.load(Ordering::Relaxed),
            tally.left.load(Ordering::Relaxed),
            locked(&registry.expired).len() as u64,
        ];
        let [renewed, registered, left, expired] = std::array::from_fn(|at| now[at] - before[at]);
        before = now;
        println!(
            "  {minute:>6} {:>7} {renewed:>11} {registered:>12} {left:>6} {expired:>9}",
            registry.live(),
        );
    }
    let took = clock.elapsed();
    let [renewed, registered, left, _] = before;
    let metrics = time.metrics();
    println!(
        "\n  {renewed} renewals and {} timers fired in {took:.1?}; {} KiB of memory for timers\n",
        metrics.fired,
        metrics.timer_memory / 1024,
    );

    let mut expired = std::mem::take(&mut *locked(&registry.expired));
    let in_order = expired.is_sorted_by_key(|expired| expired.at);
    expired.sort_unstable();
    let mut expected = Vec::new();
    for (service, life) in services.iter().enumerate() {
        expected.extend(life.expiries(whole).into_iter().map(|at| Expired { service, at }));
    }
    let silent =
        |service: usize| matches!(services[service].fate, Fate::Crashes(_) | Fate::StandsStill(..));
    let live = registry.live() as u64;
    let ended = expired.len() as u64 + left;
    verify(&[
        ("a lease of 4 s is refused", too_short),
        ("only services that fell silent expired", expired.iter().all(|one| silent(one.service))),
        ("each of them to the nanosecond when it should: none early, none late, none twice", {
            expired == expected
        }),
        ("the events came in the order of time", in_order),
        ("every lease is live, left or expired", registered == live + ended),
        ("some expired, and most did not", {
            !expired.is_empty() && expired.len() < options.services / 2
        }),
    ])?;
    Ok(())
}

/// The same numbers in every run.
struct Random(u64);

impl Random {
    fn below_number(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn below(&mut self, limit: Duration) -> Duration {
        Duration::from_nanos(self.below_number(limit.as_nanos() as u64))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
