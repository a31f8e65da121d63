//! Starting actors.

use std::marker::PhantomData;
use std::panic::Location;
use std::time::Duration;

use crate::actor::context::{Actor, Context, STASH};
use crate::actor::life::{Factory, Incarnations, Supervised};
use crate::base::error::SpawnError;
use crate::base::lineage::Lineage;
use crate::base::name::{NAME_RULE, Name, is_name};
use crate::base::supervision::SupervisionStrategy;
use crate::cell::home::{Cell, Origin};
use crate::cell::signal::Resident;
use crate::dispatcher::Dispatcher;
use crate::dispatcher::pool::Pool;
use crate::mailbox::overflow::{Capacity, Overflow};
use crate::refs::address::ActorRef;
use crate::refs::system::System;
use crate::sync::{Arc, Ordering};

/// How an actor is created, and the rules that it lives by.
///
/// ```
/// # use mini_actor::{Actor, ActorSystem, Context};
/// use mini_actor::supervision::SupervisionStrategy;
/// use mini_actor::{Overflow, Props};
/// use std::time::Duration;
/// # struct Worker;
/// # impl Actor for Worker {
/// #     type Message = ();
/// #     fn receive(&mut self, (): (), _: &mut Context<Self>) {}
/// # }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let system = ActorSystem::new("demo")?;
/// let props = Props::new(|| Worker)
///     .bounded(1_000, Overflow::Fail)
///     .supervision(SupervisionStrategy::restart().limit(3, Duration::from_secs(10)));
/// let worker = system.spawn_with("worker", props)?;
/// # drop(worker);
/// # Ok(()) }
/// ```
#[must_use = "nothing is spawned yet"]
pub struct Props<A: Actor> {
    factory: Factory<A>,
    capacity: Capacity,
    /// Without one a panic stops the actor.
    supervision: Option<SupervisionStrategy>,
    stash: usize,
    pinned: bool,
    actor: PhantomData<fn() -> A>,
}

impl<A: Actor> Props<A> {
    /// An actor that `factory` creates, on a thread of the system, at the start and at each
    /// restart.
    pub fn new(factory: impl FnMut() -> A + Send + 'static) -> Self {
        Self::of(Factory::Many(Box::new(factory)))
    }

    /// An actor that can be created only once: a restart stops it instead.
    pub fn once(factory: impl FnOnce() -> A + Send + 'static) -> Self {
        Self::of(Factory::Once(Some(Box::new(factory))))
    }

    fn of(factory: Factory<A>) -> Self {
        Self {
            factory,
            capacity: Capacity::Unbounded,
            supervision: None,
            stash: STASH,
            pinned: false,
            actor: PhantomData,
        }
    }

    /// Gives it a mailbox for `capacity` messages, at least 1; `overflow` says what a full mailbox
    /// does. By default mailboxes are unbounded.
    pub fn bounded(mut self, capacity: usize, overflow: Overflow) -> Self {
        self.capacity = Capacity::Bounded(capacity, overflow);
        self
    }

    /// What happens when the actor panics. By default it stops.
    pub fn supervision(mut self, supervision: SupervisionStrategy) -> Self {
        self.supervision = Some(supervision);
        self
    }

    /// How many messages it may [stash](Context::stash); 1,024 by default.
    pub fn stash(mut self, capacity: usize) -> Self {
        self.stash = capacity;
        self
    }

    /// Gives it a thread of its own, because it blocks, or waits for room in full mailboxes
    /// ([`Overflow::Block`]). (In virtual time it runs on the test's thread like all others.)
    ///
    /// The thread starts when the actor is spawned, stays across restarts, and ends after the actor
    /// has stopped. It has the name of the system, the path of the actor, and `-0`: for an actor
    /// `/orders` of a system `shop`, `shop/orders-0`. Messages that take long there are not
    /// [slow](crate::Builder::slow_receive).
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }
}

show!([A: Actor] Props<A>, "Props", |it|
    capacity: it.capacity, supervision: it.supervision, stash: it.stash, pinned: it.pinned
);

impl System {
    /// Starts an actor without a parent. `factory` creates it, on a thread of the system, before
    /// its first message; messages can be sent as soon as this returns. If it panics, it stops;
    /// [`spawn_with`](Self::spawn_with) has other choices.
    ///
    /// # Names
    ///
    /// A name has 1 to 255 bytes, neither `/` nor control characters, and no `$` in front: a `$`
    /// begins the names of [anonymous](Self::spawn_anonymous) actors. Living actors with the same
    /// parent have different names. A name is free again when its actor has stopped.
    ///
    /// The path of an actor is that of its parent, a `/`, and its name.
    ///
    /// # Errors
    ///
    /// [`SpawnError::NameTaken`] if an actor of that name is alive; [`SpawnError::Name`] if the
    /// name is against the rule; [`SpawnError::Closed`] after the system was closed.
    #[track_caller]
    pub fn spawn<A: Actor>(
        &self,
        name: &str,
        factory: impl FnOnce() -> A + Send + 'static,
    ) -> Result<ActorRef<A::Message>, SpawnError> {
        self.spawn_with(name, Props::once(factory))
    }

    /// Starts an actor without a parent.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Self::spawn); and [`SpawnError::Capacity`] for a mailbox with a capacity of
    /// zero, [`SpawnError::Window`] for a restart limit over zero time, [`SpawnError::Thread`] if
    /// the thread of a pinned actor cannot be started.
    #[track_caller]
    pub fn spawn_with<A: Actor>(
        &self,
        name: &str,
        props: Props<A>,
    ) -> Result<ActorRef<A::Message>, SpawnError> {
        let cell = make(self, Some(name), None, false, props)?;
        cell.schedule();
        Ok(ActorRef::new(cell))
    }

    /// Starts an actor without a parent that needs no name of yours. Its name is `$` and a number
    /// that no other actor of the system has.
    ///
    /// # Errors
    ///
    /// As for [`spawn_with`](Self::spawn_with), except those about names.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use mini_actor::{Actor, Context};
    /// use mini_actor::Props;
    /// use mini_actor::test_kit::TestKit;
    /// # struct Job;
    /// # impl Actor for Job {
    /// #     type Message = u32;
    /// #     fn receive(&mut self, _: u32, _: &mut Context<Self>) {}
    /// # }
    ///
    /// let kit = TestKit::new("test")?;
    /// let jobs: Result<Vec<_>, _> =
    ///     (0..3).map(|_| kit.spawn_anonymous(Props::once(|| Job))).collect();
    /// assert_eq!(jobs?[0].path(), "/$1");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn spawn_anonymous<A: Actor>(
        &self,
        props: Props<A>,
    ) -> Result<ActorRef<A::Message>, SpawnError> {
        let cell = make(self, None, None, false, props)?;
        cell.schedule();
        Ok(ActorRef::new(cell))
    }
}

impl<A: Actor> Context<A> {
    /// Starts a child. It is stopped before this actor stops, and when this actor is restarted.
    /// Otherwise like [`System::spawn`].
    ///
    /// # Errors
    ///
    /// As for [`System::spawn`]; and [`SpawnError::Stopping`] once this actor has begun to stop its
    /// children.
    #[track_caller]
    pub fn spawn<B: Actor>(
        &mut self,
        name: &str,
        factory: impl FnOnce() -> B + Send + 'static,
    ) -> Result<ActorRef<B::Message>, SpawnError> {
        self.spawn_with(name, Props::once(factory))
    }

    /// Starts a child. Otherwise like [`System::spawn_with`].
    ///
    /// # Errors
    ///
    /// As for [`System::spawn_with`]; and [`SpawnError::Stopping`] once this actor has begun to
    /// stop its children.
    #[track_caller]
    pub fn spawn_with<B: Actor>(
        &mut self,
        name: &str,
        props: Props<B>,
    ) -> Result<ActorRef<B::Message>, SpawnError> {
        self.spawn_child(Some(name), props)
    }

    /// Starts a child that needs no name of yours. Otherwise like [`System::spawn_anonymous`].
    ///
    /// # Errors
    ///
    /// As for [`System::spawn_anonymous`]; and [`SpawnError::Stopping`] once this actor has begun
    /// to stop its children.
    #[track_caller]
    pub fn spawn_anonymous<B: Actor>(
        &mut self,
        props: Props<B>,
    ) -> Result<ActorRef<B::Message>, SpawnError> {
        self.spawn_child(None, props)
    }

    #[track_caller]
    fn spawn_child<B: Actor>(
        &mut self,
        name: Option<&str>,
        props: Props<B>,
    ) -> Result<ActorRef<B::Message>, SpawnError> {
        if self.closing {
            return Err(SpawnError::Stopping { path: self.myself().path().to_owned() });
        }
        let parent = Arc::clone(self.myself().cell()) as Arc<dyn Resident>;
        let cell = make(self.system(), name, Some(parent), self.starting, props)?;
        // Known as a child before it can say that it has gone.
        self.add_child(cell.id, Arc::clone(&cell) as Arc<_>);
        cell.schedule();
        Ok(ActorRef::new(cell))
    }
}

/// Makes an actor's home, and enters it into the tree. It counts as scheduled, so the caller has to
/// schedule it. `parent_starts`: it is spawned in its parent's `started`.
#[track_caller]
fn make<A: Actor>(
    system: &System,
    name: Option<&str>,
    parent: Option<Arc<dyn Resident>>,
    parent_starts: bool,
    props: Props<A>,
) -> Result<Arc<Cell<A::Message>>, SpawnError> {
    if let Some(name) = name.filter(|name| !is_name(name)) {
        return Err(SpawnError::Name { given: name.to_owned(), rule: NAME_RULE });
    }
    if matches!(props.capacity, Capacity::Bounded(0, _)) {
        return Err(SpawnError::Capacity);
    }
    if let Some((_, given)) = props.supervision.as_ref().and_then(|rules| rules.limit)
        && given.is_zero()
    {
        return Err(SpawnError::Window { given, min: Duration::from_nanos(1) });
    }
    let registry = Arc::clone(system.registry());
    let name = match name {
        Some(name) => Name::Given(name),
        // Relaxed: only has to be unique.
        None => Name::Anonymous(1 + registry.anonymous.fetch_add(1, Ordering::Relaxed)),
    };
    let above = parent.as_deref().map(|parent| (parent.id(), Arc::clone(parent.lineage().own())));
    let lineage = Lineage::new(name, above);
    let wants_thread = props.pinned && matches!(registry.dispatcher, Dispatcher::Pool(_));
    let mut pinned = None;
    if wants_thread {
        // A thread is not started for a name that is taken.
        registry.tree.reserve(&lineage)?;
        let name = format!("{}{}", registry.tree.system, lineage.to_path());
        let on_start = registry.rules.on_thread_start.lock().clone();
        let pool = Pool::start_own(&name, &on_start).map_err(|error| {
            registry.tree.give_up(&lineage);
            SpawnError::Thread(error.to_string())
        })?;
        pinned = Some(Dispatcher::Pool(pool));
    }
    let origin =
        Origin { lineage, registry: Arc::clone(&registry), capacity: props.capacity, pinned };
    let place = Location::caller(); // a closure would be its own caller
    let supervised = props.supervision.map(|rules| Supervised::new(rules, place, parent_starts));
    let cell = Cell::new(origin, |cell| {
        let ctx = Context::new(cell, system.clone(), props.stash);
        Box::new(Incarnations::new(props.factory, supervised, parent, ctx))
    });
    if let Err(error) = registry.tree.enter(Arc::clone(&cell) as _, wants_thread) {
        cell.discard();
        return Err(error);
    }
    Ok(cell)
}
