//! A system as its actors and users see it.

use std::time::Duration;

use lars_scheduler::late::Lateness;

use crate::base::timer_key::ActorTimer;
use crate::cell::dead_letters::{DeadLetter, Subscription};
use crate::cell::late_messages::LateMessages;
use crate::cell::metrics::SystemMetrics;
use crate::cell::registry::Registry;
use crate::cell::signal::{Resident, Signal};
use crate::refs::address::{ActorMetrics, ActorRef};
use crate::refs::ask::Ask;
use crate::refs::sends::Scheduler;
use crate::sync::Arc;

/// A system of actors, to spawn in and to schedule with. Cheap to clone, `Send` and `Sync`.
///
/// It does not keep the system open; that is what its [`ActorSystem`](crate::ActorSystem) does.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use mini_actor::{Actor, Context};
/// use mini_actor::System;
/// use mini_actor::test_kit::TestKit;
/// use std::time::Duration;
/// # struct Worker;
/// # impl Actor for Worker {
/// #     type Message = u32;
/// #     fn receive(&mut self, _: u32, _: &mut Context<Self>) {}
/// # }
///
/// let kit = TestKit::new("demo")?; // or an `ActorSystem`
/// let system: System = kit.system();
/// let worker = system.spawn("worker", || Worker)?;
/// assert_eq!((system.name(), &*system.paths()[0]), ("demo", "/worker"));
/// assert_eq!(system.find::<u32>("/worker"), Some(worker.clone()));
/// assert_eq!(system.find::<String>("/worker"), None); // it receives numbers
///
/// let _ = system.scheduler().schedule_once(Duration::from_secs(1), &worker, 7)?;
/// kit.advance(Duration::from_secs(1));
/// assert_eq!((system.metrics().alive, system.metrics().processed), (1, 1));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct System {
    /// In one place, because each actor has a clone.
    parts: Arc<Parts>,
}

struct Parts {
    registry: Arc<Registry>,
    scheduler: Scheduler,
}

impl System {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        let scheduler = Scheduler::new(registry.timers.clone());
        Self { parts: Arc::new(Parts { registry, scheduler }) }
    }

    #[inline]
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.parts.registry
    }

    /// The scheduler for messages to actors of this system.
    pub fn scheduler(&self) -> &Scheduler {
        &self.parts.scheduler
    }

    /// The system's name.
    pub fn name(&self) -> &str {
        &self.registry().tree.system
    }

    /// A snapshot of the system's counts.
    pub fn metrics(&self) -> SystemMetrics {
        self.registry().metrics()
    }

    /// Why timers' messages were received late, by cause and culprit. Empty unless
    /// [`Builder::explain_late`](crate::Builder::explain_late) is on. For an interval, take
    /// [the difference](Lateness::since) of two.
    ///
    /// The tasks of the scheduler have a table of their own: [`Handle::lateness`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::ActorSystem;
    /// use std::time::Duration;
    ///
    /// let builder = ActorSystem::builder("server").explain_late(Duration::from_millis(5));
    /// let system = builder.build()?;
    /// let an_hour_ago = system.lateness();
    /// print!("{}", system.lateness().since(&an_hour_ago));
    /// print!("{}", system.scheduler().timers().lateness());
    /// # Ok(()) }
    /// ```
    ///
    /// [`Handle::lateness`]: lars_scheduler::Handle::lateness
    pub fn lateness(&self) -> Lateness {
        self.registry().incidents.late().map(LateMessages::table).unwrap_or_default()
    }

    /// The living actor at `path`, if it receives messages of this type.
    pub fn find<M: Send + 'static>(&self, path: &str) -> Option<ActorRef<M>> {
        ActorRef::of(self.registry().tree.find(path)?)
    }

    /// The actors with the most messages in their mailboxes, at most `limit` of them: the deepest
    /// mailbox first, and equal ones in the order in which they were spawned.
    ///
    /// It looks at every actor, in steps between which actors may be spawned and stopped. An actor
    /// that is spawned or stops meanwhile may or may not be included.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::test_kit::TestKit;
    ///
    /// let kit = TestKit::new("test")?;
    /// let (idle, busy) = (kit.probe::<u32>("idle"), kit.probe::<u32>("busy"));
    /// busy.actor().tell(7)?; // nobody receives in a test kit before it is told to
    /// let busiest = kit.busiest(10);
    /// assert_eq!(busiest.len(), 2);
    /// assert_eq!((&*busiest[0].path, busiest[0].metrics.mailbox_depth), ("/busy", 1));
    /// assert_eq!(&*busiest[1].path, idle.actor().path());
    /// # Ok(()) }
    /// ```
    pub fn busiest(&self, limit: usize) -> Vec<ActorLoad> {
        let load = |actor: Arc<dyn Resident>| ActorLoad {
            path: actor.lineage().to_path(),
            metrics: ActorMetrics {
                mailbox_depth: actor.depth(),
                processed: actor.processed(),
                restarts: actor.restarts(),
            },
        };
        self.registry().tree.deepest(limit).into_iter().map(load).collect()
    }

    /// The active timers of the living actor at `path`, in the order in which they were started.
    /// `None` if there is no such actor.
    ///
    /// The actor is asked, and answers in its next turn, before its next message. The answer is an
    /// error if it stops before that, or is busy for longer than `timeout`. Asking costs its timers
    /// nothing, and each call costs a timer itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::test_kit::TestKit;
    /// use mini_actor::{Actor, Context};
    /// use std::time::Duration;
    ///
    /// struct Session;
    /// impl Actor for Session {
    ///     type Message = &'static str;
    ///     fn started(&mut self, ctx: &mut Context<Self>) {
    ///         let idle = Duration::from_secs(30);
    ///         let _ = ctx.timers().start_single(("idle", 7), idle, "idle");
    ///     }
    ///     fn receive(&mut self, _: &'static str, _: &mut Context<Self>) {}
    /// }
    ///
    /// let kit = TestKit::new("test")?;
    /// kit.spawn("session", || Session)?;
    /// for path in kit.paths() {
    ///     let Some(timers) = kit.timers_of(&path, Duration::from_secs(1)) else { continue };
    ///     for timer in timers.wait()? {
    ///         println!("{path}: {:?} in {:?}, of {}", timer.key, timer.remaining, timer.place);
    ///         assert_eq!((timer.key.name(), timer.key.number()), (Some("idle"), Some(7)));
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn timers_of(&self, path: &str, timeout: Duration) -> Option<Ask<Vec<ActorTimer>>> {
        let actor = self.registry().tree.find(path)?;
        let asked = Arc::clone(&actor);
        Some(Ask::begin(actor, self.registry(), timeout, |reply, _| {
            let tell = |timers| {
                // What nobody waits for any more is no dead letter.
                if reply.is_wanted() {
                    reply.send(timers);
                }
            };
            asked.signal(Signal::ListTimers(Box::new(tell)));
            Ok::<(), (_, ())>(())
        }))
    }

    /// The paths of all living actors, sorted.
    pub fn paths(&self) -> Vec<Arc<str>> {
        self.registry().tree.paths()
    }

    /// Calls `hook` with every dead letter from now on, on the thread that discovers it, until the
    /// subscription is dropped. Dead letters are counted in any case. A panic of the hook is
    /// logged. The hook may send messages. If that causes another dead letter on its thread, that
    /// one is counted and logged but shown to no hook.
    pub fn on_dead_letter(
        &self,
        hook: impl Fn(&DeadLetter<'_>) + Send + Sync + 'static,
    ) -> Subscription {
        self.registry().dead_letters.subscribe(Arc::new(hook))
    }
}

/// An actor and its counts; see [`System::busiest`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActorLoad {
    /// Its path.
    pub path: Arc<str>,
    /// Its counts.
    pub metrics: ActorMetrics,
}

show!([] System, "System", |it| name: it.registry().tree.system);
