//! Actors in virtual time: a whole system without threads and without sleeping.
//!
//! A [`TestKit`] is a system whose clock the test moves, and whose actors run on the test's own
//! thread, in the order in which they were scheduled. So a test does the same each time, down to
//! the jitter of restarts, which begins with the same numbers. Everything else is as in production:
//! the same actors, mailboxes and scheduler.
//!
//! ```
//! use mini_actor::test_kit::TestKit;
//! use mini_actor::{Actor, Context, Recipient};
//! use std::time::Duration;
//!
//! /// Says "still there" every ten minutes.
//! struct Watchman(Recipient<&'static str>);
//!
//! impl Actor for Watchman {
//!     type Message = ();
//!     fn started(&mut self, ctx: &mut Context<Self>) {
//!         let every = Duration::from_secs(600);
//!         let _ = ctx.timers().start_at_fixed_rate("round", every, every, || ());
//!     }
//!     fn receive(&mut self, (): (), _: &mut Context<Self>) {
//!         let _ = self.0.tell("still there");
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kit = TestKit::new("test")?;
//! let office = kit.probe::<&'static str>("office");
//! let report = office.actor().recipient();
//! let watchman = kit.spawn("watchman", move || Watchman(report))?;
//!
//! office.expect_no_message_for(Duration::from_secs(599));
//! assert_eq!(office.expect_message_within(Duration::from_secs(1)), "still there");
//! watchman.stop();
//! office.expect_terminated(&watchman);
//! office.expect_no_message_for(Duration::from_secs(3600));
//! assert_eq!(kit.elapsed(), Duration::from_secs(4200));
//! # Ok(()) }
//! ```

use std::collections::VecDeque;
use std::ops::Deref;
use std::time::Duration;

use lars_scheduler::VirtualTime;

use crate::actor::context::{Actor, Context};
use crate::base::error::BuildError;
use crate::base::stop_reason::{StopReason, Terminated};
use crate::base::supervision::{Directive, Panic};
use crate::cell::dead_letters::{Subscription, Undelivered};
use crate::cell::signal::Resident;
use crate::refs::address::ActorRef;
use crate::sync::{Arc, Mutex};
use crate::system::builder::Builder;
use crate::system::owner::ActorSystem;

/// After this many activations without a movement of time a test kit gives up.
const LIMIT: usize = 1_000_000;

/// A dead letter that the kit has kept.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use std::time::Duration;
///
/// let kit = TestKit::new("test")?;
/// let probe = kit.probe::<u32>("gone");
/// let _ = kit.scheduler().schedule_once(Duration::from_secs(1), probe.actor(), 7)?;
/// probe.actor().stop();
/// kit.advance(Duration::from_secs(1));
/// let letters = kit.dead_letters();
/// assert_eq!(letters.len(), 1);
/// assert!(letters[0].recipient.ends_with("gone"));
/// assert_eq!(letters[0].message_type, "u32");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Letter {
    /// The path of the recipient.
    pub recipient: String,
    /// The type of the message.
    pub message_type: &'static str,
    /// Why it was not received.
    pub reason: Undelivered,
}

/// A panic of an actor that the kit has kept, with the decision about it.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::supervision::Directive;
/// use mini_actor::{Actor, Context};
///
/// struct Parser;
///
/// impl Actor for Parser {
///     type Message = &'static str;
///     fn receive(&mut self, line: &'static str, _: &mut Context<Self>) {
///         panic!("{line} is no number");
///     }
/// }
///
/// let kit = TestKit::new("test")?;
/// kit.spawn("parser", || Parser)?.tell("a dozen")?;
/// let crashes = kit.panics();
/// assert_eq!(crashes.len(), 1);
/// assert_eq!(&*crashes[0].panic.path, "/parser");
/// assert_eq!(crashes[0].panic.message, "a dozen is no number");
/// assert_eq!(crashes[0].directive, Directive::Stop);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Crash {
    /// The panic, with the path of the actor.
    pub panic: Panic,
    /// The decision about it.
    pub directive: Directive,
}

/// A system in virtual time. Dereferences to its [`ActorSystem`].
///
/// Time stands still until [`advance`](Self::advance) or a probe moves it. Only the test's thread
/// may call the methods: an actor must not move the time that it lives in.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use std::time::Duration;
///
/// let kit = TestKit::new("test")?;
/// let probe = kit.probe::<u32>("probe");
/// let second = Duration::from_secs(1);
/// let _ = kit.scheduler().schedule_once(second, probe.actor(), 7)?;
/// kit.advance(second);
/// assert_eq!(probe.expect_message(), 7);
///
/// let _ = kit.scheduler().schedule_once(second, probe.actor(), 8)?;
/// kit.advance_while_busy(second); // sent, and not received yet
/// assert_eq!(kit.settle(), 1);
/// assert_eq!(probe.try_message(), Some(8));
///
/// probe.actor().stop();
/// kit.settle();
/// let _ = probe.actor().tell(9);
/// assert_eq!(kit.elapsed(), 2 * second);
/// # Ok(()) }
/// ```
pub struct TestKit {
    inner: Arc<Inner>,
    system: ActorSystem,
}

struct Inner {
    time: Arc<VirtualTime>,
    system: crate::refs::system::System,
    records: Arc<Records>,
    _subscription: Subscription,
}

/// What has happened since the test last asked.
#[derive(Default)]
struct Records {
    letters: Mutex<Vec<Letter>>,
    crashes: Mutex<VecDeque<Crash>>,
    terminations: Mutex<Vec<Terminated>>,
}

impl Builder {
    /// Builds the system in virtual time: no threads, and a clock that stands still until the test
    /// moves it. The number of threads, the time slice and the shutdown timeout have no effect.
    ///
    /// # Errors
    ///
    /// Same as [`build`](Self::build).
    #[cfg_attr(docsrs, doc(cfg(feature = "test-kit")))]
    pub fn build_virtual(mut self) -> Result<TestKit, BuildError> {
        let records = Arc::new(Records::default());
        let kept = Arc::clone(&records);
        let on_panic = self.on_panic.take();
        self.on_panic = Some(Arc::new(move |panic, directive| {
            kept.crashes.lock().push_back(Crash { panic: panic.clone(), directive });
            if let Some(on_panic) = &on_panic {
                on_panic(panic, directive);
            }
        }));
        let kept = Arc::clone(&records);
        self.on_stop = Some(Box::new(move |gone| kept.terminations.lock().push(gone)));
        let (system, time) = self.build_manual()?;
        let kept = Arc::clone(&records);
        let subscription = system.on_dead_letter(move |letter| {
            kept.letters.lock().push(Letter {
                recipient: letter.recipient.to_owned(),
                message_type: letter.message_type,
                reason: letter.reason,
            });
        });
        let inner = Inner { time, system: system.system(), records, _subscription: subscription };
        Ok(TestKit { inner: Arc::new(inner), system })
    }
}

impl TestKit {
    /// A system with the default settings.
    ///
    /// # Errors
    ///
    /// [`BuildError::Name`] if the name is invalid.
    pub fn new(name: impl Into<String>) -> Result<Self, BuildError> {
        ActorSystem::builder(name).build_virtual()
    }

    /// Runs everything that can run without a movement of time. Returns the number of activations
    /// of actors.
    ///
    /// # Panics
    ///
    /// If an actor, a closure or a future of this system calls it; and after a million activations
    /// without an end.
    #[track_caller]
    pub fn settle(&self) -> usize {
        self.inner.settle()
    }

    /// Moves time forwards by exactly `duration`, from deadline to deadline. At each, what is due
    /// is sent, and everything that can run does so, before time moves on. Time ends 584 years
    /// after its start; a longer `duration` moves it to that end. Each deadline on the way costs
    /// real time, so do not move years ahead while a timer fires every second.
    ///
    /// # Panics
    ///
    /// Same as [`settle`](Self::settle).
    #[track_caller]
    pub fn advance(&self, duration: Duration) {
        self.inner.advance_until(duration, || false);
    }

    /// Moves time forwards as if all actors were busy for that long: what is due is sent, and no
    /// actor runs. What is then in their mailboxes is received by the next call that runs them.
    ///
    /// # Panics
    ///
    /// If an actor, a closure or a future of this system calls it.
    #[track_caller]
    pub fn advance_while_busy(&self, duration: Duration) {
        self.inner.assert_outside();
        self.inner.time.advance(duration);
    }

    /// How far time has been moved.
    pub fn elapsed(&self) -> Duration {
        self.inner.time.elapsed()
    }

    /// An actor that keeps the messages that it gets, for the test to look at.
    ///
    /// # Panics
    ///
    /// If it cannot be spawned, because the name is invalid or taken, or the system is closed.
    pub fn probe<M: Send + 'static>(&self, name: &str) -> Probe<M> {
        let received = Arc::new(Mutex::new(VecDeque::new()));
        let keeps = Arc::clone(&received);
        let actor = match self.system.spawn(name, move || Keeper(keeps)) {
            Ok(actor) => actor,
            Err(error) => panic!("the probe cannot be spawned: {error}"),
        };
        Probe { inner: Arc::clone(&self.inner), actor, received }
    }

    /// The dead letters since the last call of this.
    ///
    /// # Panics
    ///
    /// Same as [`settle`](Self::settle).
    #[track_caller]
    pub fn dead_letters(&self) -> Vec<Letter> {
        self.settle();
        std::mem::take(&mut *self.inner.records.letters.lock())
    }

    /// The panics of actors since the last call of this, oldest first, without moving time. An
    /// escalated panic is there once for each actor that decided on it.
    ///
    /// # Panics
    ///
    /// Same as [`settle`](Self::settle).
    #[track_caller]
    pub fn panics(&self) -> Vec<Crash> {
        self.settle();
        std::mem::take(&mut *self.inner.records.crashes.lock()).into()
    }

    /// The oldest panic that neither this nor [`panics`](Self::panics) has returned, moving time
    /// until there is one.
    ///
    /// # Panics
    ///
    /// If no actor panics within `limit`; and the same as [`settle`](Self::settle).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use mini_actor::{Actor, Context};
    /// use mini_actor::test_kit::TestKit;
    /// use std::time::Duration;
    /// # struct Parser;
    /// # impl Actor for Parser {
    /// #     type Message = u32;
    /// #     fn receive(&mut self, line: u32, _: &mut Context<Self>) {
    /// #         panic!("line {line} is bad");
    /// #     }
    /// # }
    ///
    /// let kit = TestKit::new("test")?;
    /// let parser = kit.spawn("parser", || Parser)?;
    /// let _ = kit.scheduler().schedule_once(Duration::from_secs(3), &parser, 7)?;
    /// let crash = kit.expect_panic_within(Duration::from_secs(5));
    /// assert_eq!(crash.panic.message, "line 7 is bad");
    /// assert_eq!(kit.elapsed(), Duration::from_secs(3));
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn expect_panic_within(&self, limit: Duration) -> Crash {
        let crashes = &self.inner.records.crashes;
        self.inner.advance_until(limit, || !crashes.lock().is_empty());
        match crashes.lock().pop_front() {
            Some(crash) => crash,
            None => panic!("no actor has panicked within {limit:?}"),
        }
    }

    /// The actors that have stopped since the last call of this, in the order of their ends,
    /// without moving time.
    ///
    /// # Panics
    ///
    /// Same as [`settle`](Self::settle).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::StopReason;
    /// use mini_actor::test_kit::TestKit;
    ///
    /// let kit = TestKit::new("test")?;
    /// let (first, second) = (kit.probe::<u32>("first"), kit.probe::<u32>("second"));
    /// second.actor().kill();
    /// first.actor().stop();
    /// let ends: Vec<_> =
    ///     kit.terminations().iter().map(|gone| (gone.path.to_string(), gone.reason)).collect();
    /// let expected = [("/first", StopReason::Asked), ("/second", StopReason::Killed)];
    /// assert_eq!(ends, expected.map(|(path, reason)| (path.to_owned(), reason)));
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn terminations(&self) -> Vec<Terminated> {
        self.settle();
        std::mem::take(&mut *self.inner.records.terminations.lock())
    }
}

impl Inner {
    /// Code of the system must not move the time that it lives in.
    #[track_caller]
    fn assert_outside(&self) {
        assert!(
            !self.system.registry().is_inside(),
            "the test kit was called by an actor, a closure or a future of its own system"
        );
    }

    #[track_caller]
    fn settle(&self) -> usize {
        self.assert_outside();
        let Some(manual) = self.system.registry().dispatcher.as_manual() else {
            return 0;
        };
        let mut turns = 0;
        loop {
            let fired = self.time.advance(Duration::ZERO);
            let ran = manual.run(LIMIT - turns);
            turns += ran;
            assert!(turns < LIMIT, "the actors go on without end, and time cannot move");
            if fired == 0 && ran == 0 {
                return turns;
            }
        }
    }

    /// Moves time by exactly `duration`, or until `enough` returns true. Returns whether it did.
    #[track_caller]
    fn advance_until(&self, duration: Duration, enough: impl Fn() -> bool) -> bool {
        self.settle();
        if enough() {
            return true;
        }
        let target = self.time.elapsed().saturating_add(duration);
        let ahead = || target.saturating_sub(self.time.elapsed());
        while self.time.advance_to_next_within(ahead()).is_some() {
            self.settle();
            if enough() {
                return true;
            }
        }
        // Nothing is due on the rest of the way.
        self.time.advance(ahead());
        self.settle();
        enough()
    }
}

impl Deref for TestKit {
    type Target = ActorSystem;

    fn deref(&self) -> &ActorSystem {
        &self.system
    }
}

show!([] TestKit, "TestKit", |it| system: it.system, elapsed: it.elapsed());

struct Keeper<M>(Arc<Mutex<VecDeque<M>>>);

impl<M: Send + 'static> Actor for Keeper<M> {
    type Message = M;

    fn receive(&mut self, message: M, _: &mut Context<Self>) {
        self.0.lock().push_back(message);
    }
}

/// An actor that keeps the messages that it gets. Made by [`TestKit::probe`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::StopReason;
/// use std::time::Duration;
///
/// let kit = TestKit::new("test")?;
/// let (first, second) = (kit.probe::<u32>("first"), kit.probe::<u32>("second"));
/// first.actor().tell(1)?;
/// assert_eq!(first.expect_message(), 1);
/// assert_eq!(first.try_message(), None);
///
/// let _ = kit.scheduler().schedule_once(Duration::from_secs(5), first.actor(), 2)?;
/// first.expect_no_message_for(Duration::from_secs(4));
/// assert_eq!(first.expect_message_within(Duration::from_secs(1)), 2);
///
/// second.actor().stop();
/// assert_eq!(first.expect_terminated(second.actor()), StopReason::Asked);
/// # Ok(()) }
/// ```
pub struct Probe<M> {
    inner: Arc<Inner>,
    actor: ActorRef<M>,
    received: Arc<Mutex<VecDeque<M>>>,
}

impl<M: Send + 'static> Probe<M> {
    /// The reference to send to.
    pub fn actor(&self) -> &ActorRef<M> {
        &self.actor
    }

    /// The next message, if there is one, without moving time.
    #[track_caller]
    pub fn try_message(&self) -> Option<M> {
        self.inner.settle();
        self.received.lock().pop_front()
    }

    /// The next message, which must be there.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[track_caller]
    pub fn expect_message(&self) -> M {
        match self.try_message() {
            Some(message) => message,
            None => panic!("{} has received nothing", self.actor.path()),
        }
    }

    /// The next message, moving time until it comes.
    ///
    /// # Panics
    ///
    /// If it does not come within `limit`.
    #[track_caller]
    pub fn expect_message_within(&self, limit: Duration) -> M {
        self.inner.advance_until(limit, || !self.received.lock().is_empty());
        match self.received.lock().pop_front() {
            Some(message) => message,
            None => panic!("{} has received nothing within {limit:?}", self.actor.path()),
        }
    }

    /// Moves time by `duration`, during which no message must come, the very end included.
    ///
    /// # Panics
    ///
    /// If a message was there, or comes.
    #[track_caller]
    pub fn expect_no_message_for(&self, duration: Duration) {
        let before = self.inner.time.elapsed();
        if self.inner.advance_until(duration, || !self.received.lock().is_empty()) {
            let after = self.inner.time.elapsed() - before;
            panic!("{} has received a message after {after:?}", self.actor.path());
        }
    }

    /// Why an actor has stopped, without moving time. It must have stopped.
    ///
    /// # Panics
    ///
    /// If it has not.
    #[track_caller]
    pub fn expect_terminated<N: Send + 'static>(&self, other: &ActorRef<N>) -> StopReason {
        self.inner.settle();
        match other.cell().watchers().reason() {
            Some(reason) => reason,
            None => panic!("{} has not stopped", other.path()),
        }
    }

    /// Why an actor has stopped, moving time until it has.
    ///
    /// # Panics
    ///
    /// If it does not stop within `limit`; and the same as [`TestKit::settle`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use mini_actor::{Actor, Context};
    /// use mini_actor::StopReason;
    /// use mini_actor::test_kit::TestKit;
    /// use std::time::Duration;
    ///
    /// struct Session;
    ///
    /// impl Actor for Session {
    ///     type Message = ();
    ///     fn started(&mut self, ctx: &mut Context<Self>) {
    ///         let _ = ctx.timers().start_single("idle", Duration::from_secs(30), ());
    ///     }
    ///     fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
    ///         ctx.stop();
    ///     }
    /// }
    ///
    /// let kit = TestKit::new("test")?;
    /// let probe = kit.probe::<()>("probe");
    /// let session = kit.spawn("session", || Session)?;
    /// let reason = probe.expect_terminated_within(&session, Duration::from_secs(60));
    /// assert_eq!((reason, kit.elapsed()), (StopReason::Itself, Duration::from_secs(30)));
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn expect_terminated_within<N: Send + 'static>(
        &self,
        other: &ActorRef<N>,
        limit: Duration,
    ) -> StopReason {
        let reason = || other.cell().watchers().reason();
        self.inner.advance_until(limit, || reason().is_some());
        match reason() {
            Some(reason) => reason,
            None => panic!("{} has not stopped within {limit:?}", other.path()),
        }
    }
}

show!([M] Probe<M>, "Probe", |it| actor: it.actor);
