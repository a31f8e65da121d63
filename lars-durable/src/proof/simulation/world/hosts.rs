//! Actors: who hosts them, on each node. A copy of a name is made when a message is due, is busy
//! for a while with each, and goes some time after it was told to.
//!
//! Who may live where is decided as the real host decides it. What goes from a host to its engine
//! takes a moment, in the order in which it was said.

use std::collections::{BTreeMap, VecDeque};

use super::{SECOND, Step, World, noted};
use crate::engine::{Launch, RunEnd};
use crate::model::tenancy::{self, Deliveries, Next, Tenant, Vacated};
use crate::model::{BucketNo, Fence, Recipient, TimerId};
use crate::proof::history::{Event, Tag};
use crate::time::{Mono, Timestamp};

/// The handler whose runs are messages.
pub(super) const KIND: &str = "actor";

/// How many names there are.
const NAMES: u64 = 5;

/// A node that closes, and whose store always answers, has left so long after the last of its
/// actors and runs, at the latest.
const FAREWELL: i64 = 100_000;

pub(super) type Name = u64;

/// Whom a message is for, of the few that there are.
fn name_of(tag: Tag) -> Name {
    tag % NAMES
}

pub(super) fn address(tag: Tag) -> String {
    format!("{KIND}/{}", name_of(tag))
}

/// Whose it is, as a kind of actors says it.
pub(super) fn recipient(payload: &str) -> Recipient {
    let tag = payload.parse().expect("payloads are tags");
    Recipient::of(&address(tag))
}

/// The actors of one process.
#[derive(Default)]
pub(super) struct Hosts {
    homes: BTreeMap<Name, Home>,
    pub(super) vacated: Vacated,
    deliveries: Deliveries,
    /// What the engine has not been told yet.
    inbox: VecDeque<Input>,
    /// When an actor or a run was last busy here.
    busy_at: i64,
}

/// What there is of one actor.
struct Home {
    bucket: BucketNo,
    waiting: BTreeMap<(Timestamp, TimerId), Letter>,
    copy: Option<Copy>,
    in_hand: bool,
}

pub(super) struct Letter {
    launch: Launch,
    /// Under which it was launched.
    lease: u32,
    /// What the store's clock showed when it came: nobody looks at it again.
    clock: i64,
    /// When the look at the lease was, if the process stood still after it.
    looked: Option<i64>,
}

struct Copy {
    number: u64,
    lives: Tenant,
    /// It takes nothing more, and goes when it has handled what it has.
    stops: bool,
    /// It does not handle what it has not begun.
    killed: bool,
    /// Its node has had its lease since before it was made, and has it until then.
    entitled_until: Mono,
}

enum Input {
    MovedIn { bucket: BucketNo, epoch: u32 },
    MovedOut { bucket: BucketNo },
    Ended { id: TimerId, fence: Fence, end: RunEnd },
}

pub(super) enum HostStep {
    /// The engine is told what it has not been told yet.
    Tell,
    /// The actor comes to what it has in its mailbox.
    Receive {
        name: Name,
        letter: Letter,
    },
    Received {
        name: Name,
        tag: Tag,
        id: TimerId,
        fence: Fence,
        end: RunEnd,
        panics: bool,
    },
    /// It has had enough of silence.
    Passivate {
        name: Name,
        number: u64,
    },
    Gone {
        name: Name,
        number: u64,
    },
}

/// What is known of all actors of a history.
#[derive(Default)]
pub(super) struct Stage {
    copies: u64,
    /// What the store's clock showed when a message first came.
    came: BTreeMap<Tag, i64>,
    /// The greatest fence that a name has shown to others.
    shown: BTreeMap<Name, Fence>,
    /// The first thing that was not allowed.
    pub(super) wrong: Option<String>,
}

impl Hosts {
    /// The node has its lease until then; it was renewed `now`.
    pub(super) fn entitle(&mut self, now: Mono, until: Mono) {
        for copy in self.homes.values_mut().filter_map(|home| home.copy.as_mut()) {
            if now < copy.entitled_until {
                copy.entitled_until = until;
            }
        }
    }
}

impl World {
    fn wrong(&mut self, what: String) {
        self.stage.wrong.get_or_insert(what);
    }

    pub(super) fn is_busy(&mut self, node: usize) {
        self.members[node].hosts.busy_at = self.now;
    }

    fn step_in(&mut self, node: usize, after: i64, step: HostStep) {
        let life = self.members[node].life;
        self.at(self.now + after, Step::Host { node, life, step });
    }

    fn tell(&mut self, node: usize, input: Input) {
        self.members[node].hosts.inbox.push_back(input);
        let after = self.rng.i64(0..1_000);
        self.step_in(node, after, HostStep::Tell);
    }

    fn tell_end(&mut self, node: usize, launch: &Launch, end: RunEnd) {
        self.tell(node, Input::Ended { id: launch.row.id, fence: launch.fence, end });
    }

    pub(super) fn host(&mut self, node: usize, life: u32, step: HostStep) -> Result<(), String> {
        match step {
            HostStep::Tell => {
                let now = self.mono(node);
                for input in std::mem::take(&mut self.members[node].hosts.inbox) {
                    let engine = self.member(node);
                    match input {
                        Input::MovedIn { bucket, epoch } => engine.moved_in(bucket, epoch),
                        Input::MovedOut { bucket } => engine.moved_out(bucket),
                        Input::Ended { id, fence, end } => engine.ended(now, id, fence, end),
                    }
                }
                self.turn(node);
            }
            HostStep::Receive { name, letter } => self.receive(node, life, name, letter)?,
            HostStep::Received { name, tag, id, fence, end, panics } => {
                let (clock, noted) = (self.store_now(), noted(&end));
                self.events.push(Event::Ended { tag, fence: fence.0, end: noted, clock });
                self.tell(node, Input::Ended { id, fence, end });
                self.put_down(node, name, panics);
            }
            HostStep::Passivate { name, number } => {
                if let Some(copy) = self.copy(node, name).filter(|copy| copy.number == number) {
                    copy.stops = true;
                    self.go_if_idle(node, name);
                }
            }
            HostStep::Gone { name, number } => {
                let hosts = &mut self.members[node].hosts;
                let Some(home) = hosts.homes.get_mut(&name) else { return Ok(()) };
                if home.copy.as_ref().is_some_and(|copy| copy.number == number) {
                    home.copy = None;
                    let bucket = home.bucket;
                    self.is_busy(node);
                    self.tell(node, Input::MovedOut { bucket });
                    self.pump(node, name);
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, node: usize, name: Name) -> Option<&mut Copy> {
        self.members[node].hosts.homes.get_mut(&name)?.copy.as_mut()
    }

    /// A message is due.
    pub(super) fn deliver(&mut self, node: usize, launch: Launch, lease: u32, looked: Option<i64>) {
        let tag: Tag = launch.row.payload.parse().expect("payloads are tags");
        let (name, bucket) = (name_of(tag), launch.bucket);
        // One that was not received comes again, perhaps after the clock was set back.
        let shown = looked.unwrap_or_else(|| self.store_now());
        let clock = shown.max(self.stage.came.get(&tag).copied().unwrap_or(shown));
        self.stage.came.insert(tag, clock);
        let hosts = &mut self.members[node].hosts;
        if hosts.vacated.includes(bucket, launch.fence.epoch()) {
            return self.tell_end(
                node,
                &launch,
                RunEnd::GiveBack { after: crate::time::Micros::ZERO },
            );
        }
        let none = Home { bucket, waiting: BTreeMap::new(), copy: None, in_hand: false };
        let home = hosts.homes.entry(name).or_insert(none);
        let key = (launch.row.deadline, launch.row.id);
        if home.waiting.insert(key, Letter { launch, lease, clock, looked }).is_some() {
            self.wrong(format!("timer {tag} is on its way to {name} twice"));
        }
        self.pump(node, name);
    }

    /// Does what is to be done for one actor.
    fn pump(&mut self, node: usize, name: Name) {
        loop {
            let homes = &mut self.members[node].hosts.homes;
            let Some(home) = homes.get_mut(&name) else { return };
            let Some(first) = home.waiting.first_entry().filter(|_| !home.in_hand) else {
                break;
            };
            let epoch = first.get().launch.fence.epoch();
            match (tenancy::next(home.copy.as_ref().map(|copy| copy.lives), epoch), &mut home.copy)
            {
                (Next::Make, _) => {
                    let (lease, looked) = (first.get().lease, first.get().looked);
                    let entitled = looked.is_none() && self.holds(node, lease);
                    self.make(node, name, epoch, entitled);
                }
                (Next::Send, Some(copy)) if copy.stops => {
                    // It has closed its mailbox, and its end is about to be known.
                    copy.lives.leaving = true;
                }
                (Next::Send, _) => {
                    let letter = first.remove();
                    home.in_hand = true;
                    let after = self.rng.i64(0..500);
                    self.step_in(node, after, HostStep::Receive { name, letter });
                }
                (Next::Kill, Some(copy)) => {
                    (copy.lives.leaving, copy.killed) = (true, true);
                    self.go_if_idle(node, name);
                }
                (Next::Kill | Next::Wait, _) => break,
            }
        }
        let homes = &mut self.members[node].hosts.homes;
        let empty = |home: &Home| home.waiting.is_empty() && home.copy.is_none() && !home.in_hand;
        if homes.get(&name).is_some_and(empty) {
            homes.remove(&name);
        }
    }

    fn make(&mut self, node: usize, name: Name, epoch: u32, entitled: bool) {
        self.stage.copies += 1;
        let number = self.stage.copies;
        let entitled_until = if entitled { self.members[node].valid_until } else { Mono::MIN };
        if entitled {
            self.check_single(node, name);
        }
        let lives = Tenant { epoch, leaving: false };
        let Some(home) = self.members[node].hosts.homes.get_mut(&name) else { return };
        let bucket = home.bucket;
        home.copy = Some(Copy { number, lives, stops: false, killed: false, entitled_until });
        self.tell(node, Input::MovedIn { bucket, epoch });
        if self.rng.bool() {
            let silence = self.rng.i64(0..4 * SECOND);
            self.step_in(node, silence, HostStep::Passivate { name, number });
        }
    }

    /// Nobody else has a copy of this name for which its node has the lease.
    fn check_single(&mut self, node: usize, name: Name) {
        for other in (0..self.plan.nodes).filter(|other| *other != node) {
            let now = self.mono(other);
            if self.copy(other, name).is_some_and(|copy| now < copy.entitled_until) {
                self.wrong(format!("actor {name} lives on node {other}, and now on {node} too"));
            }
        }
    }

    fn receive(
        &mut self,
        node: usize,
        life: u32,
        name: Name,
        letter: Letter,
    ) -> Result<(), String> {
        let Letter { launch, lease, clock, looked } = letter;
        let valid = self.holds(node, lease);
        let Some(copy) = self.copy(node, name) else {
            return Err(format!("actor {name} went with a message in its hand: {:?}", self.plan));
        };
        if copy.killed {
            let error = "the actor ended before it received the message".into();
            self.is_not_received(node, name, &launch, RunEnd::Retry { error });
            return Ok(());
        }
        let gives_back = RunEnd::GiveBack { after: crate::time::Micros::ZERO };
        if looked.is_none() && !valid {
            self.is_not_received(node, name, &launch, gives_back);
            return Ok(());
        }
        if looked.is_none() && self.chance(self.plan.faults.freeze_at_start) {
            let until = self.now + self.rng.i64(0..10 * SECOND);
            self.members[node].frozen_until = self.members[node].frozen_until.max(until);
            let letter = Letter { launch, lease, clock, looked: Some(self.store_now()) };
            let step = HostStep::Receive { name, letter };
            self.at(until, Step::Host { node, life, step });
            return Ok(());
        }
        let epoch = launch.fence.epoch();
        let Some(shown) = self.members[node].hosts.deliveries.next(launch.bucket, epoch) else {
            self.is_not_received(node, name, &launch, gives_back);
            return Ok(());
        };
        let tag: Tag = launch.row.payload.parse().expect("payloads are tags");
        let allowed = if self.plan.has_bad_clocks() { crate::engine::LEAD.0 } else { 0 };
        let (id, fence, frozen) = (launch.row.id, launch.fence, looked.is_some());
        self.began(tag, &launch, clock + allowed, frozen)?;
        let newest = self.stage.shown.entry(name).or_insert(Fence(0));
        if shown <= *newest && !frozen {
            return Err(format!("actor {name} shows {shown:?} after {newest:?}: {:?}", self.plan));
        }
        *newest = shown.max(*newest);
        if self.chance(self.plan.faults.poison) {
            self.kill(node);
            return Ok(());
        }
        let (long, end) = self.handling();
        let panics = matches!(end, RunEnd::Retry { .. }) && self.rng.bool();
        let step = HostStep::Received { name, tag, id, fence, end, panics };
        self.step_in(node, long, step);
        Ok(())
    }

    /// How long an actor handles a message, and how that ends.
    fn handling(&mut self) -> (i64, RunEnd) {
        let long = match self.rng.u8(..100) {
            0 => self.rng.i64(0..6 * SECOND),
            1..=30 => self.rng.i64(0..50_000),
            _ => self.rng.i64(0..1_000),
        };
        let end = match self.rng.u8(..100) {
            0..=9 if !self.healed => RunEnd::Retry { error: "simulated".into() },
            _ => RunEnd::Done,
        };
        (long, end)
    }

    /// The actor does not receive what it has in its hand: the run ends so.
    fn is_not_received(&mut self, node: usize, name: Name, launch: &Launch, end: RunEnd) {
        self.tell_end(node, launch, end);
        self.put_down(node, name, false);
    }

    /// The actor has handled what it had, or has not.
    fn put_down(&mut self, node: usize, name: Name, panics: bool) {
        self.is_busy(node);
        if let Some(home) = self.members[node].hosts.homes.get_mut(&name) {
            home.in_hand = false;
        }
        if let Some(copy) = self.copy(node, name) {
            copy.stops |= panics;
        }
        self.go_if_idle(node, name);
        self.pump(node, name);
    }

    /// An actor that was told to go goes, if it has nothing in its hand.
    fn go_if_idle(&mut self, node: usize, name: Name) {
        let Some(home) = self.members[node].hosts.homes.get(&name) else { return };
        let Some(copy) = home.copy.as_ref().filter(|_| !home.in_hand) else { return };
        if copy.stops || copy.killed {
            let number = copy.number;
            let long = if self.rng.u8(..20) == 0 { 3 * SECOND } else { 5_000 };
            let after = self.rng.i64(0..long);
            self.step_in(node, after, HostStep::Gone { name, number });
        }
    }

    /// Whoever lives in this bucket for runs of up to this epoch has to go.
    pub(super) fn vacate(&mut self, node: usize, bucket: BucketNo, epoch: u32, lost: bool) {
        let hosts = &mut self.members[node].hosts;
        hosts.vacated.vacate(bucket, epoch);
        let concerned = hosts.homes.iter_mut().filter(|(_, home)| home.bucket == bucket);
        let (mut names, mut back) = (Vec::new(), Vec::new());
        for (name, home) in concerned {
            let waiting = std::mem::take(&mut home.waiting);
            for (key, letter) in waiting {
                if letter.launch.fence.epoch() <= epoch {
                    back.push(letter.launch);
                } else {
                    home.waiting.insert(key, letter);
                }
            }
            if let Some(copy) = home.copy.as_mut().filter(|copy| copy.lives.epoch <= epoch) {
                (copy.lives.leaving, copy.stops) = (true, true);
                copy.killed |= lost;
            }
            names.push(*name);
        }
        for launch in back {
            self.tell_end(node, &launch, RunEnd::GiveBack { after: crate::time::Micros::ZERO });
        }
        for name in names {
            self.go_if_idle(node, name);
        }
    }

    /// A node has left: nobody lives there, and nothing kept it but what lived and ran there.
    pub(super) fn closed(&mut self, node: usize) {
        let hosts = &self.members[node].hosts;
        if let Some((name, _)) = hosts.homes.iter().find(|(_, home)| home.copy.is_some()) {
            let what = format!("node {node} has left, and actor {name} lives there");
            return self.wrong(what);
        }
        let late = self.now - hosts.busy_at;
        if self.plan.faults.is_closes_only() && late > FAREWELL {
            self.wrong(format!("node {node} left {late} us after the last of its actors"));
        }
    }
}
