//! The owner of a system: builds it, closes it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use lars_scheduler::{ClosePolicy, Executor, LightArrayRevolverScheduler, Pool, Runnable};

use crate::dead_letters::{DeadLetter, DeadLetters};
use crate::error::{BuildError, CloseError, NAME_RULE, is_name};
use crate::handle::System;
use crate::registry::Registry;
use crate::sync::plain::AtomicBool;
use crate::sync::{Arc, Ordering, real_now};

type DeadLetterHook = Box<dyn Fn(&DeadLetter<'_>) + Send + Sync>;

/// The most messages of one activation.
const MAX_THROUGHPUT: usize = 1 << 20;

/// Builds a system. Made by [`ActorSystem::builder`].
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    name: String,
    threads: usize,
    throughput: usize,
    tick: Duration,
    shutdown_timeout: Duration,
    close_policy: ClosePolicy,
    dead_letter_hook: Option<DeadLetterHook>,
}

impl Builder {
    /// How many threads run the actors, from 1 to [`Pool::MAX_THREADS`]; as many as the machine has cores by
    /// default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How many messages an actor receives before another gets its turn on the thread, from 1 to 1,048,576;
    /// 64 by default. Larger is faster for busy actors, smaller is fairer to the others.
    pub fn throughput(mut self, messages: usize) -> Self {
        self.throughput = messages;
        self
    }

    /// The tick of the scheduler: what deadlines are rounded up to; 1 ms by default.
    pub fn tick_duration(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// How long [`ActorSystem::close`] waits, first for the scheduler and then for the actors; 5 s each by
    /// default.
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.shutdown_timeout = limit;
        self
    }

    /// What [`ActorSystem::close`] does with the messages that are scheduled and not due. By default it sends
    /// them, before their time; an actor cannot tell. With [`ClosePolicy::RunNone`] it drops them.
    pub fn close_policy(mut self, policy: ClosePolicy) -> Self {
        self.close_policy = policy;
        self
    }

    /// Calls `hook` with every dead letter, on the thread that found out. They are counted in any case. A
    /// hook that panics is logged.
    pub fn on_dead_letter(
        mut self,
        hook: impl Fn(&DeadLetter<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.dead_letter_hook = Some(Box::new(hook));
        self
    }

    /// Starts the system: its scheduler's thread, and the threads for the actors.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting that is out of its range, or says which thread could not be started.
    pub fn build(self) -> Result<ActorSystem, BuildError> {
        if !is_name(&self.name) {
            return Err(BuildError::Name { given: self.name, rule: NAME_RULE });
        }
        if self.throughput == 0 || self.throughput > MAX_THROUGHPUT {
            return Err(BuildError::Throughput { given: self.throughput, max: MAX_THROUGHPUT });
        }
        let pool = Pool::new(&format!("{}-actors", self.name), self.threads)?;
        // The threads are started now: a system that has none had better say so here than at the first
        // message.
        pool.execute(Runnable::new(|| ()))
            .map_err(|rejected| BuildError::Dispatcher(rejected.reason().to_owned()))?;
        let scheduler = LightArrayRevolverScheduler::builder()
            .tick_duration(self.tick)
            .thread_name(format!("{}-scheduler", self.name))
            .shutdown_timeout(self.shutdown_timeout)
            .close_policy(self.close_policy)
            .executor(pool.clone())
            .build()?;
        let dead_letters = DeadLetters::new(self.dead_letter_hook);
        let registry = Registry::new(
            self.name,
            scheduler.handle(),
            pool,
            self.throughput as u64,
            dead_letters,
        );
        Ok(ActorSystem {
            system: System::new(Arc::new(registry)),
            scheduler,
            shutdown_timeout: self.shutdown_timeout,
            closed: AtomicBool::new(false),
        })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("threads", &self.threads)
            .field("throughput", &self.throughput)
            .field("tick_duration", &self.tick)
            .field("shutdown_timeout", &self.shutdown_timeout)
            .field("close_policy", &self.close_policy)
            .finish_non_exhaustive()
    }
}

/// A system of actors: their threads, their scheduler, and the list of who is alive.
///
/// This is the owner, which closes the system; spawning goes through the [`System`] that it dereferences to,
/// or through clones of that. Dropping it asks all actors to stop, and drops the scheduled messages; it
/// waits for the timer thread, up to the `shutdown_timeout`, and not for actors.
#[derive(Debug)]
pub struct ActorSystem {
    system: System,
    scheduler: LightArrayRevolverScheduler,
    shutdown_timeout: Duration,
    closed: AtomicBool,
}

/// What [`ActorSystem::close`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// What became of the scheduler's tasks. Those that it ran are, but for closures of one's own, messages
    /// sent before their time.
    pub scheduler: lars_scheduler::CloseReport,
    /// Actors that were alive, and have received what was queued and stopped.
    pub actors_stopped: usize,
    /// Dead letters in all of the system's life.
    pub dead_letters: u64,
}

impl fmt::Display for CloseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "scheduler: {}; actors stopped: {}; dead letters: {}",
            self.scheduler, self.actors_stopped, self.dead_letters
        )
    }
}

impl ActorSystem {
    /// A system with the default settings.
    ///
    /// # Errors
    ///
    /// As for [`Builder::build`].
    pub fn new(name: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder(name).build()
    }

    /// A builder with the default settings. The name is what the threads are named after.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder {
            name: name.into(),
            threads: num_cpus::get().min(Pool::MAX_THREADS),
            throughput: 64,
            tick: Duration::from_millis(1),
            shutdown_timeout: Duration::from_secs(5),
            close_policy: ClosePolicy::default(),
            dead_letter_hook: None,
        }
    }

    /// The system as its actors see it, to be cloned and passed around.
    pub fn system(&self) -> System {
        self.system.clone()
    }

    /// Closes the system, in this order: the scheduler is closed, and the messages that it still holds are
    /// sent now, before their time (or dropped, by [`Builder::close_policy`]); periodic sends end; no more actors can be spawned; every actor receives what is in its
    /// mailbox and is stopped. Closing again does nothing but wait for actors that had not stopped yet.
    ///
    /// # Errors
    ///
    /// [`CloseError::FromInside`] on a thread of the system; [`CloseError::Scheduler`] if the scheduler's
    /// thread is occupied for too long; [`CloseError::Timeout`] if actors are still busy when the
    /// `shutdown_timeout` is over.
    pub fn close(&self) -> Result<CloseReport, CloseError> {
        let registry = self.system.registry();
        if registry.pool.is_current() {
            return Err(CloseError::FromInside);
        }
        let scheduler = match self.scheduler.close() {
            Err(lars_scheduler::CloseError::OnTimerThread) => return Err(CloseError::FromInside),
            other => other?,
        };
        // Relaxed: only says what `drop` need not do again.
        self.closed.store(true, Ordering::Relaxed);
        let alive = registry.alive();
        registry.close();
        let deadline = real_now().checked_add(self.shutdown_timeout);
        match registry.wait_until_empty(deadline) {
            0 => {
                // The last activations are about to end; so that nothing of the system runs when this
                // returns.
                registry.pool.wait_idle(deadline);
                Ok(CloseReport {
                    scheduler,
                    actors_stopped: alive,
                    dead_letters: registry.dead_letters.count(),
                })
            }
            running => Err(CloseError::Timeout { running, limit: self.shutdown_timeout }),
        }
    }
}

impl Deref for ActorSystem {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

impl Drop for ActorSystem {
    fn drop(&mut self) {
        if !self.closed.load(Ordering::Relaxed) {
            self.system.registry().close();
        }
    }
}
