//! A system as its actors and users see it.

use crate::cell::dead_letters::{DeadLetter, Subscription};
use crate::cell::home::Cell;
use crate::cell::registry::{Registry, SystemMetrics};
use crate::refs::address::ActorRef;
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
    registry: Arc<Registry>,
    scheduler: Scheduler,
}

impl System {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        let scheduler = Scheduler::new(registry.timers.clone());
        Self { registry, scheduler }
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The scheduler for messages to actors of this system.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The name that the system was built with.
    pub fn name(&self) -> &str {
        &self.registry.name
    }

    /// A snapshot of the system's counts.
    pub fn metrics(&self) -> SystemMetrics {
        self.registry.metrics()
    }

    /// The living actor at `path`, if it receives messages of this type.
    pub fn find<M: Send + 'static>(&self, path: &str) -> Option<ActorRef<M>> {
        self.registry.find(path)?.as_any().downcast::<Cell<M>>().ok().map(ActorRef::new)
    }

    /// The paths of all living actors, sorted.
    pub fn paths(&self) -> Vec<Arc<str>> {
        self.registry.paths()
    }

    /// Calls `hook` with every dead letter from now on, on the thread that found out, until the
    /// subscription is dropped. A hook that panics is logged. They are counted in any case. It may
    /// send messages: a dead letter that comes of that, on its thread, is counted and logged, and
    /// shown to no hook.
    pub fn on_dead_letter(
        &self,
        hook: impl Fn(&DeadLetter<'_>) + Send + Sync + 'static,
    ) -> Subscription {
        self.registry.dead_letters.subscribe(Arc::new(hook))
    }
}

show!([] System, "System", |it| name: it.registry.name);
