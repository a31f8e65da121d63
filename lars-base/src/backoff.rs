//! How long to wait before the next attempt: growth, cap, jitter. It is pure arithmetic, without a
//! clock or a timer.
//!
//! A [`BackoffPolicy`] is a checked value; [`start`](BackoffPolicy::start) makes a [`Backoff`] of
//! it for each operation that is retried.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_base::backoff::BackoffPolicy;
//! use std::time::Duration;
//!
//! let second = Duration::from_secs(1);
//! let policy = BackoffPolicy::builder().initial(second).max_attempts(4).build()?;
//! let mut backoff = policy.start();
//! assert_eq!(backoff.next_delay(), Some(second)); // after the first attempt
//! assert_eq!(backoff.next_delay(), Some(2 * second));
//! assert_eq!(backoff.next_delay(), Some(4 * second));
//! assert_eq!(backoff.next_delay(), None); // the fourth attempt was the last
//! # Ok(()) }
//! ```
//!
//! **Jitter stays inside the cap.** Akka's `retry` and backoff supervisor add it to the capped
//! delay, so that the longest delay exceeds the maximum. Here the cap is the cap.

use std::time::Duration;

/// The shortest first delay. Growth from zero would stay there.
const MIN_INITIAL: Duration = Duration::from_nanos(1);
/// The smallest factor: delays that do not grow.
const MIN_FACTOR: f64 = 1.0;
/// By how much a decorrelated delay may exceed the one before.
const DECORRELATED_GROWTH: u32 = 3;

/// How random jitter spreads the delays of clients that fail at the same moment, so that they do
/// not return at the same moment. The kinds and their names are those of *Exponential Backoff And
/// Jitter* in the AWS Architecture Blog.
///
/// `base` is what the delay would be without jitter: `min(cap, initial * factor^n)`. No kind
/// exceeds the cap.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_base::backoff::{BackoffPolicy, Jitter};
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// let policy = BackoffPolicy::builder().initial(second).cap(3 * second);
/// let exact: Vec<_> = policy.jitter(Jitter::None).build()?.start().take(3).collect();
/// assert_eq!(exact, [second, 2 * second, 3 * second]);
/// for jitter in [Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
///     let delays = policy.jitter(jitter).build()?.start();
///     assert!(delays.take(100).all(|delay| delay <= 3 * second)); // never above the cap
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Jitter {
    /// `base`, exactly.
    #[default]
    None,
    /// Between zero and `base`. Spreads best, with the least work in total.
    Full,
    /// Between half of `base` and `base`: never a very short delay.
    Equal,
    /// Between `initial` and three times the delay before, and not above the cap. The factor is not
    /// used.
    Decorrelated,
}

/// A setting of a [`BackoffBuilder`] is out of its range.
///
/// The message names the setting, the value that was given and the limit that it broke.
///
/// # Examples
///
/// ```
/// use lars_base::backoff::{BackoffError, BackoffPolicy};
/// use std::time::Duration;
///
/// let secs = Duration::from_secs;
/// let error = BackoffPolicy::builder().initial(secs(5)).cap(secs(2)).build().unwrap_err();
/// assert_eq!(error, BackoffError::Cap { given: secs(2), initial: secs(5) });
/// assert_eq!(error.to_string(), "cap is 2s, but it must be at least the initial delay of 5s");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BackoffError {
    /// Growth from a delay of zero would stay there.
    #[error("initial is {given:?}, but it must be at least {min:?}")]
    Initial {
        /// What was asked for.
        given: Duration,
        /// The shortest first delay.
        min: Duration,
    },
    /// The factor is below one, infinite or not a number.
    #[error("factor is {given}, but it must be a finite number of at least {min}")]
    Factor {
        /// What was asked for.
        given: f64,
        /// The smallest factor.
        min: f64,
    },
    /// The cap is below the first delay.
    #[error("cap is {given:?}, but it must be at least the initial delay of {initial:?}")]
    Cap {
        /// What was asked for.
        given: Duration,
        /// The first delay.
        initial: Duration,
    },
    /// There must be at least one attempt.
    #[error("max_attempts is {given}, but it must be at least {min} (leave it unset for no limit)")]
    MaxAttempts {
        /// What was asked for.
        given: u32,
        /// The fewest attempts.
        min: u32,
    },
}

/// Builds a [`BackoffPolicy`]. Made by [`BackoffPolicy::builder`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_base::backoff::{BackoffPolicy, Jitter};
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let policy = BackoffPolicy::builder()
///     .initial(ms(10))
///     .factor(3.0)
///     .cap(ms(80))
///     .max_attempts(5)
///     .jitter(Jitter::Equal) // between the half of it and all of it
///     .build()?;
/// for (delay, most) in policy.start().zip([10, 30, 80, 80]) {
///     assert!(ms(most) / 2 <= delay && delay <= ms(most));
/// }
/// assert_eq!(policy.start().count(), 4);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use = "a builder does nothing until it builds"]
pub struct BackoffBuilder {
    policy: BackoffPolicy,
}

/// To change something of a policy.
impl From<BackoffPolicy> for BackoffBuilder {
    fn from(policy: BackoffPolicy) -> Self {
        Self { policy }
    }
}

impl BackoffBuilder {
    /// The first delay, before jitter; 100 ms by default. At least 1 ns.
    pub fn initial(mut self, initial: Duration) -> Self {
        self.policy.initial = initial;
        self
    }

    /// By how much each delay exceeds the one before, before jitter; 2 by default. At least 1,
    /// which keeps the delays as they are.
    pub fn factor(mut self, factor: f64) -> Self {
        self.policy.factor = factor;
        self
    }

    /// The longest delay, jitter included; 30 s by default. Not below the first delay.
    /// [`Duration::MAX`] means no limit.
    pub fn cap(mut self, cap: Duration) -> Self {
        self.policy.cap = cap;
        self
    }

    /// How many attempts are made in all; no limit by default. The first one counts: with a limit
    /// of 5 there are four delays, and with a limit of 1 there is none.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = Some(attempts);
        self
    }

    /// How jitter spreads the delays; not at all by default.
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.policy.jitter = jitter;
        self
    }

    /// The policy, checked.
    ///
    /// # Errors
    ///
    /// [`BackoffError`] for the first setting that is out of its range.
    pub fn build(self) -> Result<BackoffPolicy, BackoffError> {
        let BackoffPolicy { initial, factor, cap, max_attempts, .. } = self.policy;
        if initial < MIN_INITIAL {
            return Err(BackoffError::Initial { given: initial, min: MIN_INITIAL });
        }
        if !factor.is_finite() || factor < MIN_FACTOR {
            return Err(BackoffError::Factor { given: factor, min: MIN_FACTOR });
        }
        if cap < initial {
            return Err(BackoffError::Cap { given: cap, initial });
        }
        if let Some(given @ 0) = max_attempts {
            return Err(BackoffError::MaxAttempts { given, min: 1 });
        }
        Ok(self.policy)
    }
}

/// How delays grow: a checked value, which is `Copy`.
///
/// [`start`](Self::start) makes a [`Backoff`] of it, one for each operation that is retried.
///
/// With the feature `serde` it can be read and written; what is read is checked. A field that is
/// missing has the default of the builder's method of that name, and an unknown field is an error.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_base::backoff::{BackoffPolicy, Jitter};
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let policy = BackoffPolicy::builder().initial(ms(100)).cap(ms(500)).max_attempts(5).build()?;
/// let delays: Vec<_> = policy.start().collect();
/// assert_eq!(delays, [ms(100), ms(200), ms(400), ms(500)]); // the fifth attempt was the last
///
/// let spread = BackoffPolicy::builder().jitter(Jitter::Full).build()?;
/// assert!(spread.start().next_delay() <= Some(ms(100)));
///
/// let wrong = BackoffPolicy::builder().factor(0.5).build().unwrap_err();
/// assert_eq!(wrong.to_string(), "factor is 0.5, but it must be a finite number of at least 1");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(try_from = "unchecked::Policy"))]
pub struct BackoffPolicy {
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    initial: Duration,
    factor: f64,
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    cap: Duration,
    max_attempts: Option<u32>,
    jitter: Jitter,
}

/// A policy as it is read, to be checked.
#[cfg(feature = "serde")]
mod unchecked {
    use std::time::Duration;

    use super::{BackoffBuilder, BackoffError, BackoffPolicy, Jitter};

    #[derive(serde::Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub(super) struct Policy {
        #[serde(with = "humantime_serde")]
        initial: Duration,
        factor: f64,
        #[serde(with = "humantime_serde")]
        cap: Duration,
        max_attempts: Option<u32>,
        jitter: Jitter,
    }

    impl Default for Policy {
        fn default() -> Self {
            let BackoffPolicy { initial, factor, cap, max_attempts, jitter } =
                BackoffPolicy::builder().policy;
            Self { initial, factor, cap, max_attempts, jitter }
        }
    }

    impl TryFrom<Policy> for BackoffPolicy {
        type Error = BackoffError;

        fn try_from(read: Policy) -> Result<Self, BackoffError> {
            let Policy { initial, factor, cap, max_attempts, jitter } = read;
            let policy = Self { initial, factor, cap, max_attempts, jitter };
            BackoffBuilder { policy }.build()
        }
    }
}

impl BackoffPolicy {
    /// A builder with the defaults: from 100 ms doubled up to 30 s, without a limit on the
    /// attempts, without jitter.
    pub fn builder() -> BackoffBuilder {
        BackoffBuilder {
            policy: Self {
                initial: Duration::from_millis(100),
                factor: 2.0,
                cap: Duration::from_secs(30),
                max_attempts: None,
                jitter: Jitter::None,
            },
        }
    }

    /// A backoff at its beginning. Each one draws different numbers; otherwise jitter would spread
    /// nothing.
    pub fn start(&self) -> Backoff {
        Backoff::new(*self, fastrand::Rng::new())
    }

    /// A backoff at its beginning whose jitter is the same in every run with the same seed: for
    /// tests.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_base::backoff::{BackoffPolicy, Jitter};
    /// let policy = BackoffPolicy::builder().max_attempts(9).jitter(Jitter::Full).build()?;
    /// assert!(policy.start_with_seed(7).eq(policy.start_with_seed(7)));
    /// # Ok(()) }
    /// ```
    pub fn start_with_seed(&self, seed: u64) -> Backoff {
        Backoff::new(*self, fastrand::Rng::with_seed(seed))
    }

    /// The first delay, before jitter.
    pub fn initial(&self) -> Duration {
        self.initial
    }

    /// The longest delay.
    pub fn cap(&self) -> Duration {
        self.cap
    }

    /// How many attempts are made in all; `None` for no limit.
    pub fn max_attempts(&self) -> Option<u32> {
        self.max_attempts
    }

    /// The delay after `failures` failed attempts (from 1), without jitter.
    fn base(&self, failures: u32) -> Duration {
        if failures == 1 {
            return self.initial;
        }
        let exponent = i32::try_from(failures - 1).unwrap_or(i32::MAX);
        // Exact up to 2^53 ns, 104 days, when the factor is a whole number.
        let nanos = self.initial.as_nanos() as f64 * self.factor.powi(exponent);
        // Beyond what 64 bits hold, 584 years, everything is the cap.
        if nanos >= u64::MAX as f64 {
            return self.cap;
        }
        Duration::from_nanos(nanos as u64).clamp(self.initial, self.cap)
    }
}

/// The delays between attempts, one after another. Made by [`BackoffPolicy::start`].
///
/// Also an [`Iterator`] over the delays. It is not `Clone`: a copy would draw the same numbers, and
/// clients that share a policy would return at the same moment.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_base::backoff::BackoffPolicy;
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let mut backoff = BackoffPolicy::builder().initial(ms(10)).factor(3.0).build()?.start();
/// assert_eq!(backoff.next_delay(), Some(ms(10)));
/// assert_eq!(backoff.next_delay(), Some(ms(30)));
/// backoff.reset(); // a success
/// assert_eq!(backoff.next_delay(), Some(ms(10)));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Backoff {
    policy: BackoffPolicy,
    failures: u32,
    /// The last delay; the next one depends on it under `Decorrelated`.
    previous: Duration,
    rng: fastrand::Rng,
}

impl Backoff {
    fn new(policy: BackoffPolicy, rng: fastrand::Rng) -> Self {
        Self { policy, failures: 0, previous: policy.initial, rng }
    }

    /// Call it when an attempt has failed: it returns how long to wait before the next one, or
    /// `None` if that was the last. It stays `None` until [`reset`](Self::reset).
    pub fn next_delay(&mut self) -> Option<Duration> {
        let failures = self.failures.saturating_add(1);
        if self.policy.max_attempts.is_some_and(|max| failures >= max) {
            self.failures = self.policy.max_attempts.unwrap_or(failures);
            return None;
        }
        self.failures = failures;
        let BackoffPolicy { initial, cap, jitter, .. } = self.policy;
        let delay = match jitter {
            Jitter::None => self.policy.base(failures),
            Jitter::Full => self.between(Duration::ZERO, self.policy.base(failures)),
            Jitter::Equal => {
                let base = self.policy.base(failures);
                self.between(base / 2, base)
            }
            Jitter::Decorrelated => {
                let highest = self.previous.saturating_mul(DECORRELATED_GROWTH).min(cap);
                self.between(initial, highest)
            }
        };
        self.previous = delay;
        Some(delay)
    }

    /// Call it when an attempt has succeeded: the delays start over, the random sequence goes on.
    pub fn reset(&mut self) {
        self.failures = 0;
        self.previous = self.policy.initial;
    }

    /// How many attempts have failed since the beginning or the last [`reset`](Self::reset).
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// How the delays grow.
    pub fn policy(&self) -> &BackoffPolicy {
        &self.policy
    }

    /// A delay between the two, both included, each as likely as any other. A span of more than 584
    /// years is drawn from its first 584.
    fn between(&mut self, lowest: Duration, highest: Duration) -> Duration {
        let span = u64::try_from((highest - lowest).as_nanos()).unwrap_or(u64::MAX);
        lowest + Duration::from_nanos(self.rng.u64(0..=span))
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.next_delay()
    }
}

impl From<BackoffPolicy> for Backoff {
    fn from(policy: BackoffPolicy) -> Self {
        policy.start()
    }
}

impl From<&BackoffPolicy> for Backoff {
    fn from(policy: &BackoffPolicy) -> Self {
        policy.start()
    }
}
