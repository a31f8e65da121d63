//! What happens to an actor that panics.

use std::time::Duration;

use lars_base::backoff::{Backoff, BackoffPolicy};

use crate::sync::Arc;

/// The decision about a panic.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::supervision::{Directive, SupervisionStrategy};
/// use mini_actor::{Actor, Context, Props};
///
/// struct Parser;
///
/// impl Actor for Parser {
///     type Message = &'static str;
///     fn receive(&mut self, problem: &'static str, _: &mut Context<Self>) {
///         panic!("{problem}");
///     }
/// }
///
/// let supervision = SupervisionStrategy::decide(|panic| match panic.message.as_str() {
///     "bad line" => Directive::Resume,
///     "bad state" => Directive::Restart,
///     _ => Directive::Stop,
/// });
/// let kit = TestKit::new("test")?;
/// let parser = kit.spawn_with("parser", Props::new(|| Parser).supervision(supervision))?;
/// parser.tell("bad line")?;
/// parser.tell("bad state")?;
/// kit.settle();
/// assert_eq!((parser.metrics().restarts, parser.is_stopped()), (1, false));
/// parser.tell("bad disk")?;
/// kit.settle();
/// assert!(parser.is_stopped());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Directive {
    /// The actor goes on with the next message, in the state that the panic left.
    Resume,
    /// Its children are stopped, and a new actor takes its place: same references, same mailbox,
    /// same watchers.
    Restart,
    /// It stops. What is in its mailbox becomes dead letters.
    Stop,
    /// It stops, and its parent is treated as if that had panicked.
    Escalate,
}

/// A panic of an actor, for [`SupervisionStrategy::decide`] and for the hook of
/// [`Builder::on_panic`](crate::Builder::on_panic).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use mini_actor::{Actor, Context};
/// use mini_actor::supervision::Directive;
/// use mini_actor::ActorSystem;
/// use std::sync::mpsc;
/// # struct Parser;
/// # impl Actor for Parser {
/// #     type Message = u32;
/// #     fn receive(&mut self, line: u32, _: &mut Context<Self>) {
/// #         panic!("line {line} is bad");
/// #     }
/// # }
///
/// let (sender, panics) = mpsc::channel();
/// let kit = ActorSystem::builder("test")
///     .on_panic(move |panic, directive| drop(sender.send((panic.clone(), directive))))
///     .build_virtual()?;
/// let parser = kit.spawn("parser", || Parser)?;
/// parser.tell(7)?;
/// kit.settle();
/// let (panic, directive) = panics.try_recv()?;
/// assert_eq!((&*panic.path, &*panic.message), ("/parser", "line 7 is bad"));
/// assert_eq!(directive, Directive::Stop);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Panic {
    /// The path of the actor that panicked; for an escalated panic, the child's.
    pub path: Arc<str>,
    /// The message of the panic, where it had one.
    pub message: String,
}

/// A panic, with what was being received. Given to [`Actor::restarting`](crate::Actor::restarting).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::supervision::{Failure, SupervisionStrategy};
/// use mini_actor::{Actor, Context, Props, Recipient};
///
/// struct Parser(Recipient<String>);
///
/// impl Actor for Parser {
///     type Message = String;
///     fn receive(&mut self, line: String, _: &mut Context<Self>) {
///         line.parse::<u32>().expect("a number");
///     }
///     fn keep(line: &String) -> Option<String> {
///         Some(line.clone())
///     }
///     fn restarting(&mut self, failure: Failure<String>, _: &mut Context<Self>) {
///         assert_eq!(&*failure.panic.path, "/parser");
///         let _ = self.0.tell(failure.message.expect("`keep` has kept it"));
///     }
/// }
///
/// let kit = TestKit::new("test")?;
/// let office = kit.probe::<String>("office");
/// let bad = office.actor().recipient();
/// let props = Props::new(move || Parser(bad.clone())).supervision(SupervisionStrategy::restart());
/// let parser = kit.spawn_with("parser", props)?;
/// parser.tell("12".to_owned())?;
/// parser.tell("a dozen".to_owned())?;
/// assert_eq!(office.expect_message(), "a dozen");
/// # Ok(()) }
/// ```
#[non_exhaustive]
pub struct Failure<M> {
    /// The actor, and the panic's message.
    pub panic: Panic,
    /// The message that failed, if [`Actor::keep`](crate::Actor::keep) kept it.
    pub message: Option<M>,
}

show!([M] Failure<M>, "Failure", |it| panic: it.panic, message_kept: it.message.is_some());

type Decide = Arc<dyn Fn(&Panic) -> Directive + Send + Sync>;

/// What happens to an actor that panics. The code that spawns the actor chooses it, with
/// [`Props::supervision`](crate::Props::supervision).
///
/// Without one, an actor that panics stops.
///
/// ```
/// use mini_actor::supervision::SupervisionStrategy;
/// use std::time::Duration;
///
/// // At most 5 restarts within a minute: 100 ms after the first panic, 200 ms after the next, and
/// // so on.
/// let patient = SupervisionStrategy::restart()
///     .limit(5, Duration::from_secs(60))
///     .backoff(Duration::from_millis(100), Duration::from_secs(10));
/// # let _ = patient;
/// ```
#[derive(Clone)]
#[must_use = "it is given to `Props::supervision`"]
pub struct SupervisionStrategy {
    decide: Decide,
    pub(crate) limit: Option<(u32, Duration)>,
    backoff: Option<BackoffPolicy>,
}

impl SupervisionStrategy {
    /// Calls `decide` for each panic. If `decide` itself panics, the actor stops.
    pub fn decide(decide: impl Fn(&Panic) -> Directive + Send + Sync + 'static) -> Self {
        Self { decide: Arc::new(decide), limit: None, backoff: None }
    }

    /// An actor that panics goes on with its next message.
    pub fn resume() -> Self {
        Self::decide(|_| Directive::Resume)
    }

    /// An actor that panics is replaced by a new one.
    ///
    /// At once, unless a pause is set. But one that cannot even be started (its factory panics, or
    /// [`started`](crate::Actor::started) does, or a child that it spawns there cannot be started
    /// and [escalates](Self::escalate) that) would be made again without end. So without a pause
    /// and a [`limit`](Self::limit), it pauses before that: 10 ms, then twice as long each time, up
    /// to a second.
    pub fn restart() -> Self {
        Self::decide(|_| Directive::Restart)
    }

    /// An actor that panics stops.
    pub fn stop() -> Self {
        Self::decide(|_| Directive::Stop)
    }

    /// An actor that panics stops, and its parent fails with the same panic.
    pub fn escalate() -> Self {
        Self::decide(|_| Directive::Escalate)
    }

    /// Restarts the actor at most `restarts` times within a sliding window; one panic more stops
    /// it. ([`Duration::MAX`] limits its whole life. A window of zero would limit nothing: spawning
    /// fails with [`SpawnError::Window`](crate::SpawnError::Window).)
    pub fn limit(mut self, restarts: u32, within: Duration) -> Self {
        self.limit = Some((restarts, within));
        self
    }

    /// Pauses before a restart: `first`, then twice as long each time, up to `longest`. The pauses
    /// begin anew once the actor has run for `longest` without a panic. Messages wait meanwhile.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        let policy = BackoffPolicy::builder().initial(first).cap(longest.max(first));
        // A pause that begins with nothing stays at that.
        self.backoff = policy.build().ok();
        self
    }

    /// Pauses before a restart as a [`BackoffPolicy`] says, instead of by
    /// [`backoff`](Self::backoff). Its jitter keeps actors that failed together, because of the
    /// same database, from coming back together, and stays inside the cap. The pauses begin anew
    /// once the actor has run for the policy's cap without a panic. With `max_attempts` the actor
    /// stops when that many starts in a row have ended in a panic, the first included.
    ///
    /// ```
    /// use mini_actor::supervision::SupervisionStrategy;
    /// use mini_actor::backoff::{BackoffPolicy, Jitter};
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let policy = BackoffPolicy::builder()
    ///     .initial(Duration::from_millis(100))
    ///     .cap(Duration::from_secs(10))
    ///     .jitter(Jitter::Equal)
    ///     .build()?;
    /// let spread = SupervisionStrategy::restart().backoff_policy(policy);
    /// # let _ = spread;
    /// # Ok(()) }
    /// ```
    pub fn backoff_policy(mut self, policy: BackoffPolicy) -> Self {
        self.backoff = Some(policy);
        self
    }

    pub(crate) fn directive(&self, panic: &Panic) -> Directive {
        (self.decide)(panic)
    }
}

impl Default for SupervisionStrategy {
    fn default() -> Self {
        Self::stop()
    }
}

show!([] SupervisionStrategy, "SupervisionStrategy", |it| limit: it.limit, backoff: it.backoff);

/// The pauses of an actor that cannot be started, if nothing else bounds its restarts: without any,
/// it would take a processor.
fn between_starts() -> Option<BackoffPolicy> {
    let policy = BackoffPolicy::builder().initial(Duration::from_millis(10));
    policy.cap(Duration::from_secs(1)).build().ok()
}

/// The restarts of one actor so far.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// When the last ones were, within the window of the limit.
    recent: std::collections::VecDeque<lars_base::time::Instant>,
    /// The pauses.
    delays: Option<Backoff>,
    /// The end of the last pause.
    last: Option<lars_base::time::Instant>,
}

impl Restarts {
    /// The pause before the restart that follows a panic at `now`; `None` if that is one too many.
    /// With a `seed` the jitter is the same each time. `at_start`: the panic kept it from starting.
    pub(crate) fn next(
        &mut self,
        rules: &SupervisionStrategy,
        at_start: bool,
        now: lars_base::time::Instant,
        seed: Option<u64>,
    ) -> Option<Duration> {
        if let Some((limit, within)) = rules.limit {
            while self.recent.front().is_some_and(|&at| now.saturating_duration_since(at) >= within)
            {
                self.recent.pop_front();
            }
            if self.recent.len() >= limit as usize {
                return None;
            }
            self.recent.push_back(now);
        }
        let well_for = self.last.map(|last| now.saturating_duration_since(last));
        let unbounded = at_start && rules.limit.is_none();
        let Some(policy) = rules.backoff.or_else(|| between_starts().filter(|_| unbounded)) else {
            return Some(Duration::ZERO);
        };
        let delays = self.delays.get_or_insert_with(|| {
            seed.map_or_else(|| policy.start(), |seed| policy.start_with_seed(seed))
        });
        if well_for.is_some_and(|time| time >= policy.cap()) {
            delays.reset();
        }
        let pause = delays.next_delay()?;
        // It has run since the end of the pause.
        self.last = now.checked_add(pause).or(Some(now));
        Some(pause)
    }
}
