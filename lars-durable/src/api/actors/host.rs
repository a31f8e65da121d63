//! The actors of one kind on this node: made when a message is due, given one at a time, and sent
//! away when their bucket goes.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use futures::task::{ArcWake, waker_ref};
use mini_actor::{ActorRef, Props, SpawnError, System, Termination, Unsendable};

use super::hosted::{DurableActor, Envelope, Hosted};
use super::place::{Decision, Ledger, Letter, Place, Receipt};
use crate::api::address::open;
use crate::api::payload::Payload;
use crate::engine::{Launch, RunEnd};
use crate::model::tenancy::{self, Next, Vacated};
use crate::model::{BucketNo, Fence, Row, TimerId};
use crate::runtime::{Lease, Run, Shared, contain};
use crate::sync::{Arc, Mutex, Weak};
use crate::time::{Micros, Mono, Timestamp};

/// How long a message whose actor has a full mailbox is put off: microseconds.
const FULL: Micros = Micros::SECOND;

/// How long a message that nobody can receive, because the system is closed, is put off.
const NO_SYSTEM: Micros = Micros::SECOND;

/// How long a message may be on its way here after its start is recorded, if no reply of the store
/// takes longer: microseconds. (It begins within a second of that reply, or is given back.)
const ON_ITS_WAY: Micros = Micros::SECOND.times(60);

/// How long a node whose actor system is closed waits for what runs.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

pub(super) type Make<A> = dyn Fn(&str) -> A + Send + Sync;
pub(super) type SetProps<A> = dyn Fn(Props<Hosted<A>>) -> Props<Hosted<A>> + Send + Sync;

type Homes<M> = HashMap<Arc<str>, Arc<Home<M>>>;

pub(super) struct Host<A: DurableActor> {
    pub(super) system: System,
    pub(super) make: Arc<Make<A>>,
    pub(super) set_props: Arc<SetProps<A>>,
    pub(super) silence: Duration,
    /// By name. The locking order is: this, the state of a home, its ledger. No foreign code is
    /// called while one of them is locked.
    homes: Mutex<Homes<A::Message>>,
    vacated: Mutex<Vacated>,
    /// Locked after the state of a home.
    ended: Mutex<Ended>,
}

/// Timers that their actors have ended, and whose messages may be on their way here.
#[derive(Default)]
struct Ended {
    /// And since when.
    timers: BTreeMap<TimerId, Mono>,
    /// Once there are so many timers, those whose messages cannot come any more are removed.
    look_at: usize,
}

impl Ended {
    fn add(&mut self, id: TimerId, now: Mono) {
        if self.timers.len() >= self.look_at {
            self.timers.retain(|_, since| now - *since < ON_ITS_WAY);
            // Twice as many as remain, so that each is looked at a bounded number of times.
            self.look_at = 2 * self.timers.len() + 64;
        }
        self.timers.insert(id, now);
    }
}

/// Everything about one actor.
struct Home<M> {
    place: Arc<Place>,
    state: Mutex<State<M>>,
}

struct State<M> {
    /// In the order of their deadlines.
    waiting: BTreeMap<(Timestamp, TimerId), Letter>,
    actor: Option<Tenant<M>>,
    spawning: bool,
}

struct Tenant<M> {
    actor: ActorRef<Envelope<M>>,
    lives: tenancy::Tenant,
}

/// Why an actor could not be made.
#[derive(Debug, thiserror::Error)]
enum CannotSpawn {
    #[error("the properties of the actor: {0}")]
    Panicked(String),
    #[error(transparent)]
    Refused(SpawnError),
}

/// What is to be done next for an actor.
enum Step<M> {
    Nothing,
    /// Make the actor, in this epoch.
    Spawn(u32),
    Send(ActorRef<Envelope<M>>, Letter),
    Kill(ActorRef<Envelope<M>>),
}

impl<M: Send + 'static> Home<M> {
    fn next(&self) -> Step<M> {
        let mut state = self.state.lock();
        let mut ledger = self.place.ledger.lock();
        let State { waiting, actor, spawning } = &mut *state;
        let Some(first) = waiting.first_entry().filter(|_| ledger.in_hand.is_none()) else {
            return Step::Nothing;
        };
        let key = first.get().row.key.as_ref();
        if key.is_some_and(|key| ledger.asking.contains_key(key)) {
            return Step::Nothing;
        }
        let epoch = first.get().fence.epoch();
        match (tenancy::next(actor.as_ref().map(|tenant| tenant.lives), epoch), actor) {
            (Next::Send, Some(tenant)) => {
                let mut letter = first.remove();
                (letter.receipt.in_hand, ledger.in_hand) = (true, Some(letter.row.id));
                Step::Send(tenant.actor.clone(), letter)
            }
            (Next::Kill, Some(tenant)) => {
                tenant.lives.leaving = true;
                Step::Kill(tenant.actor.clone())
            }
            (Next::Make, None) if !*spawning => {
                *spawning = true;
                Step::Spawn(epoch)
            }
            _ => Step::Nothing,
        }
    }

    /// Takes a letter back that could not be handed over.
    fn take_back(&self, state: &mut State<M>, mut letter: Letter) {
        letter.receipt.in_hand = false;
        self.place.ledger.lock().in_hand = None;
        state.waiting.insert((letter.row.deadline, letter.row.id), letter);
    }

    fn is_empty(&self) -> bool {
        let state = self.state.lock();
        let Ledger { in_hand, open, .. } = *self.place.ledger.lock();
        state.waiting.is_empty()
            && state.actor.is_none()
            && !state.spawning
            && in_hand.is_none()
            && open == 0
    }
}

fn give_back(letters: impl IntoIterator<Item = Letter>, after: Micros) {
    for letter in letters {
        letter.receipt.say(RunEnd::GiveBack { after });
    }
}

impl<A: DurableActor> Host<A> {
    pub(super) fn new(
        system: System,
        make: Arc<Make<A>>,
        set_props: Arc<SetProps<A>>,
        silence: Duration,
    ) -> Self {
        let (homes, vacated, ended) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { system, make, set_props, silence, homes, vacated, ended }
    }

    /// A message is due.
    pub(super) fn deliver(self: &Arc<Self>, run: Run) {
        let Run { launch: Launch { row, bucket, fence, .. }, ending, lease, shared } = run;
        let name: Arc<str> = match open(&row.payload) {
            Ok((name, _)) => name.into(),
            Err(reason) => return ending.say(RunEnd::Park { reason }),
        };
        if self.is_vacated(bucket, fence.epoch()) {
            return ending.say(RunEnd::GiveBack { after: Micros::ZERO });
        }
        let (home, ended) = {
            let mut homes = self.homes.lock();
            let home = homes
                .entry(Arc::clone(&name))
                .or_insert_with(|| self.new_home(&name, bucket, &shared));
            let receipt = Receipt::new(Arc::clone(&home.place), ending);
            let ended = self.take_in(home, row, (fence, lease), receipt);
            (Arc::clone(home), ended)
        };
        if let Some(letter) = ended {
            letter.receipt.drop_ended();
        }
        self.pump(&home);
    }

    /// A message waits for its actor, unless that has ended its timer: then it is given back.
    fn take_in(
        &self,
        home: &Home<A::Message>,
        row: Arc<Row>,
        (fence, lease): (Fence, Lease),
        receipt: Receipt,
    ) -> Option<Letter> {
        let mut state = home.state.lock();
        let arrival = {
            let mut ledger = home.place.ledger.lock();
            ledger.arrivals += 1;
            ledger.arrivals
        };
        let (key, id) = ((row.deadline, row.id), row.id);
        let letter = Letter { row, fence, lease, arrival, receipt };
        if self.ended.lock().timers.remove(&id).is_some() {
            return Some(letter);
        }
        let before = state.waiting.insert(key, letter);
        debug_assert!(before.is_none(), "a timer runs once at a time");
        None
    }

    /// The actor has decided about one of its keys. That ends timers, whose messages are then not
    /// received, whether they wait here or are on their way.
    fn drop_ended(&self, home: &Home<A::Message>, decision: &Decision) {
        let Decision { key, arrivals, ended } = decision;
        let mut state = home.state.lock();
        let is_ended = |letter: &Letter| {
            let before = letter.arrival <= *arrivals;
            letter.row.key.as_ref() == Some(key) && (before || *ended == Some(letter.row.id))
        };
        let waiting = std::mem::take(&mut state.waiting);
        let (dropped, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            waiting.into_iter().partition(|(_, letter)| is_ended(letter));
        state.waiting = rest;
        if let Some(id) = ended
            && !dropped.values().any(|letter| letter.row.id == *id)
        {
            self.ended.lock().add(*id, home.place.shared.gate.now());
        }
        drop(state);
        dropped.into_values().for_each(|letter| letter.receipt.drop_ended());
    }

    /// The actor has ended before it came to this message. If what it received before may be why,
    /// the message waits for the next one, in its place, and this costs no attempt. Otherwise it
    /// fails: it may be that no actor of this name gets as far.
    fn unread(self: &Arc<Self>, home: &Arc<Home<A::Message>>, letter: Letter) {
        if self.is_vacated(home.place.bucket, letter.fence.epoch()) {
            return drop(letter);
        }
        let mut state = home.state.lock();
        // One that lives on has a mailbox that drops what is in it.
        let lives = state.actor.as_ref().is_some_and(|tenant| !tenant.actor.is_stopped());
        let reads = !lives && std::mem::take(&mut home.place.ledger.lock().reads);
        if !reads {
            drop(state);
            return drop(letter);
        }
        home.take_back(&mut state, letter);
        if let Some(tenant) = &mut state.actor {
            tenant.lives.leaving = true;
        }
        drop(state);
        self.pump(home);
    }

    fn new_home(
        self: &Arc<Self>,
        name: &Arc<str>,
        bucket: BucketNo,
        shared: &Arc<Shared>,
    ) -> Arc<Home<A::Message>> {
        let host = Arc::downgrade(self);
        Arc::new_cyclic(|home: &Weak<Home<A::Message>>| {
            let (here, home) = (Weak::clone(&host), Weak::clone(home));
            let (there, place) = (Weak::clone(&host), Weak::clone(&home));
            let (sender, mailbox) = (host, Weak::clone(&home));
            let pump = Box::new(move || {
                if let (Some(host), Some(home)) = (here.upgrade(), home.upgrade()) {
                    host.pump(&home);
                }
            });
            let drop_ended = Box::new(move |decision: &Decision| {
                if let (Some(host), Some(home)) = (there.upgrade(), place.upgrade()) {
                    host.drop_ended(&home, decision);
                }
            });
            let unread = Box::new(move |letter: Letter| {
                if let (Some(host), Some(home)) = (sender.upgrade(), mailbox.upgrade()) {
                    host.unread(&home, letter);
                }
            });
            let place = Place {
                address: format!("{}/{name}", A::Reminder::NAME).into(),
                name: Arc::clone(name),
                bucket,
                shared: Arc::clone(shared),
                ledger: Mutex::default(),
                drop_ended,
                unread,
                pump,
            };
            let state = State { waiting: BTreeMap::new(), actor: None, spawning: false };
            Home { place: Arc::new(place), state: Mutex::new(state) }
        })
    }

    /// Does what is to be done for one actor.
    fn pump(self: &Arc<Self>, home: &Arc<Home<A::Message>>) {
        loop {
            match home.next() {
                Step::Nothing => break,
                Step::Kill(actor) => actor.kill(),
                Step::Spawn(epoch) => self.spawn(home, epoch),
                Step::Send(actor, letter) => self.send(home, &actor, letter),
            }
        }
        self.forget_if_empty(home);
    }

    fn forget_if_empty(&self, home: &Arc<Home<A::Message>>) {
        let mut homes = self.homes.lock();
        let same = homes.get(&home.place.name).is_some_and(|here| Arc::ptr_eq(here, home));
        let gone = if same && home.is_empty() { homes.remove(&home.place.name) } else { None };
        drop(homes);
        drop(gone);
    }

    fn send(
        &self,
        home: &Home<A::Message>,
        actor: &ActorRef<Envelope<A::Message>>,
        letter: Letter,
    ) {
        let Err(refused) = actor.try_tell(Envelope::of(letter)) else { return };
        let reason = refused.reason();
        let Some(letter) = refused.into_message().into_letter() else { return };
        let mut state = home.state.lock();
        home.take_back(&mut state, letter);
        if reason == Unsendable::Full {
            let letters = std::mem::take(&mut state.waiting);
            drop(state);
            give_back(letters.into_values(), FULL);
        } else if let Some(tenant) = state.actor.as_mut().filter(|tenant| tenant.actor == *actor) {
            // It has closed its mailbox, and its end is about to be known.
            tenant.lives.leaving = true;
        }
    }

    fn spawn(self: &Arc<Self>, home: &Arc<Home<A::Message>>, epoch: u32) {
        let place = &home.place;
        place.shared.moved_in(place.bucket, epoch);
        let props = || {
            let (make, place, silence) = (self.make.clone(), Arc::clone(place), self.silence);
            (self.set_props)(Props::new(move || {
                Hosted::new(make(&place.name), Arc::clone(&place), epoch, silence)
            }))
        };
        let name = format!("{}:{}", A::Reminder::NAME, place.name);
        // The properties are set by foreign code.
        let spawned = contain(|| match self.system.spawn_with(&name, props()) {
            // It can be found by its address only, not by its name.
            Err(SpawnError::NameTaken { .. } | SpawnError::Name { .. }) => {
                self.system.spawn_anonymous(props())
            }
            spawned => spawned,
        });
        let spawned = spawned.map_err(CannotSpawn::Panicked);
        let spawned = spawned.and_then(|spawned| spawned.map_err(CannotSpawn::Refused));
        let mut state = home.state.lock();
        state.spawning = false;
        let actor = match spawned {
            Ok(actor) => actor,
            Err(error) => {
                let letters = std::mem::take(&mut state.waiting);
                drop(state);
                self.cannot_spawn(place, letters.into_values(), &error);
                return;
            }
        };
        let lives = tenancy::Tenant { epoch, leaving: false };
        state.actor = Some(Tenant { actor: actor.clone(), lives });
        drop(state);
        self.watch(home, &actor);
        if self.is_vacated(place.bucket, epoch) {
            // The bucket was lost while the actor was spawned.
            self.send_away(home, epoch, true);
        }
    }

    fn cannot_spawn(
        &self,
        place: &Place,
        letters: impl Iterator<Item = Letter>,
        error: &CannotSpawn,
    ) {
        place.shared.moved_out(place.bucket);
        if matches!(error, CannotSpawn::Refused(SpawnError::Closed { .. })) {
            give_back(letters, NO_SYSTEM);
            place.shared.leave(FAREWELL);
            return;
        }
        for letter in letters {
            letter.receipt.say(RunEnd::Retry { error: error.to_string() });
        }
    }

    /// Is told when the actor has gone, by the thread that ends it.
    fn watch(
        self: &Arc<Self>,
        home: &Arc<Home<A::Message>>,
        actor: &ActorRef<Envelope<A::Message>>,
    ) {
        let (host, home, id) = (Arc::downgrade(self), Arc::clone(home), actor.id());
        let told = Box::new(move || {
            let mut state = home.state.lock();
            if state.actor.as_ref().is_some_and(|tenant| tenant.actor.id() == id) {
                state.actor = None;
            }
            drop(state);
            home.place.shared.moved_out(home.place.bucket);
            if let Some(host) = host.upgrade() {
                host.pump(&home);
            }
        });
        let end = Arc::new(EndWatch(Mutex::new(Some((actor.termination(), told)))));
        EndWatch::look(&end);
    }

    fn is_vacated(&self, bucket: BucketNo, epoch: u32) -> bool {
        self.vacated.lock().includes(bucket, epoch)
    }

    /// All actors that live in `bucket` because of a run of up to this epoch have to go.
    pub(super) fn vacate(&self, bucket: BucketNo, epoch: u32, lost: bool) {
        self.vacated.lock().vacate(bucket, epoch);
        let concerned: Vec<Arc<Home<A::Message>>> = (self.homes.lock().values())
            .filter(|home| home.place.bucket == bucket)
            .cloned()
            .collect();
        for home in concerned {
            self.send_away(&home, epoch, lost);
        }
    }

    /// Runs of `epoch` may bring somebody into `bucket` again; those of earlier ones never will.
    pub(super) fn admit(&self, bucket: BucketNo, epoch: u32) {
        self.vacated.lock().admit(bucket, epoch);
    }

    fn send_away(&self, home: &Arc<Home<A::Message>>, epoch: u32, lost: bool) {
        let mut state = home.state.lock();
        let letters = std::mem::take(&mut state.waiting);
        let (back, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            letters.into_iter().partition(|(_, letter)| letter.fence.epoch() <= epoch);
        state.waiting = rest;
        let concerned = state.actor.as_mut().filter(|tenant| tenant.lives.epoch <= epoch);
        let leaves = concerned.map(|tenant| {
            tenant.lives.leaving = true;
            tenant.actor.clone()
        });
        drop(state);
        match leaves {
            Some(actor) if lost => actor.kill(),
            Some(actor) => actor.stop(),
            None => {}
        }
        give_back(back.into_values(), Micros::ZERO);
        self.forget_if_empty(home);
    }
}

type Told = Box<dyn FnOnce() + Send>;

/// Waits for the end of an actor without a thread.
struct EndWatch(Mutex<Option<(Termination, Told)>>);

impl EndWatch {
    fn look(watch: &Arc<Self>) {
        let waker = waker_ref(watch);
        let mut waits = watch.0.lock();
        let Some((termination, _)) = waits.as_mut() else { return };
        if Pin::new(termination).poll(&mut Context::from_waker(&waker)).is_ready() {
            let told = waits.take();
            drop(waits);
            if let Some((_, told)) = told {
                told();
            }
        }
    }
}

impl ArcWake for EndWatch {
    fn wake_by_ref(watch: &Arc<Self>) {
        EndWatch::look(watch);
    }
}
