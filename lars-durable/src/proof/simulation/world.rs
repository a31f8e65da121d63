//! Nodes, store, network, callers and handlers, on one line of time.

mod callers;
mod hosts;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use lars_base::backoff::BackoffPolicy;

use super::plan::{Plan, TRUE_RATE};
use crate::engine::{HandlerSettings, LEAD, Lane, Launch, Node, NodeSettings, Output, RunEnd};
use crate::model::{BucketNo, Fence, Loaded, NodeId, TimerId};
use crate::proof::history::{End, Event, Tag};
use crate::store::{
    Committed, Keep, Letters, MemoryStore, Reply, Request, Store, StoreError, Write,
};
use crate::sync::{Arc, AtomicI64, Ordering};
use crate::time::{Micros, Mono, Timestamp};

const SECOND: i64 = 1_000_000;

const LEASE: i64 = 3 * SECOND;

/// A node that could not reach the store tries again after this long, at the latest.
const PAUSE: i64 = 3 * SECOND;

/// What the store's clock shows in the beginning.
const START: i64 = 1_700_000_000 * SECOND;

/// The handler whose runs do not end.
pub(super) const STUCK: &str = "stuck";

/// A history that is not over by then never will be.
const PATIENCE: i64 = 400 * SECOND;

/// A history with more steps than this has a node that does not rest.
const BUSY: u64 = 200_000;

/// A run without faults is later than this only if something was missed.
const PUNCTUAL: i64 = 100_000;

/// The same of a run whose node has its bucket since a moment, if runs before it take no longer
/// than [`SHORT`]: the bucket may be on its way to another node for half a second, and what had
/// gathered goes by the places that its handler has while the node ramps up.
const SOON: i64 = SECOND;

const SHORT: i64 = 50_000;

/// A timer of which nobody was told, because the node that scheduled it died before it had the
/// store's answer, is found by a sweep: one each two seconds, which leaves out the last second.
const SWEPT: i64 = 3 * SECOND;

/// By then each node has as many places as it may have, if none was started again.
const RAMPED_UP: i64 = 8 * SECOND;

/// What died once waits at most so long for one that is to be alone: until the suspects that run
/// are not waited for any more, and then for that one.
const IN_QUARANTINE: i64 = 20 * SECOND;

/// What happens at an instant.
enum Step {
    /// A node has something to do.
    Turn(usize),
    /// A batch arrives at the store, if that is still the one that it was sent to.
    Apply {
        node: usize,
        life: u32,
        lane: Lane,
        requests: Vec<Request>,
        restores: u32,
    },
    Reply {
        node: usize,
        life: u32,
        lane: Lane,
        result: Result<Committed, StoreError>,
    },
    Begin {
        node: usize,
        life: u32,
        launch: Launch,
        /// The lease under which it was launched.
        lease: u32,
        looked: Option<i64>,
        /// Since when its handler had no other run on this node; `None` if it had one.
        idle_since: Option<i64>,
    },
    End {
        node: usize,
        life: u32,
        tag: Tag,
        id: TimerId,
        fence: Fence,
        end: RunEnd,
    },
    Notified {
        node: usize,
        timers: Vec<(BucketNo, TimerId)>,
    },
    Call,
    Kill(usize),
    Restart(usize),
    Freeze(usize, i64),
    Close(usize),
    Jump(i64),
    Cut(usize, i64),
    Outage(i64),
    BackUp,
    /// All processes die, and the backup takes the place of the store.
    Restore,
    /// The faults stop, and all series are cancelled.
    Heal,
    /// No handler is paused.
    Resume,
    /// Something happens in a process that hosts actors.
    Host {
        node: usize,
        life: u32,
        step: hosts::HostStep,
    },
}

impl Step {
    /// The process and its life, if it happens inside one.
    fn process(&self) -> Option<(usize, u32)> {
        match self {
            Self::Reply { node, life, .. }
            | Self::Begin { node, life, .. }
            | Self::End { node, life, .. }
            | Self::Host { node, life, .. } => Some((*node, *life)),
            _ => None,
        }
    }
}

struct Member {
    /// `None` for a process that is dead.
    node: Option<Node>,
    life: u32,
    /// Nothing happens in it before this.
    frozen_until: i64,
    /// The next turn that is on the line of time.
    turn_at: i64,
    valid_until: Mono,
    /// How often it was declared dead: what was launched under an earlier lease may not begin.
    lease: u32,
    closing: bool,
    /// What its clock shows in the beginning, and how fast it runs, in millionths.
    origin: i64,
    rate: i64,
    /// Until then its lease cannot be renewed.
    cut_until: i64,
    /// Its identity in the store, and when it last renewed its lease.
    identity: NodeId,
    renewed_at: i64,
    open_calls: BTreeMap<u64, Asked>,
    /// What runs of each handler, other than the actors'.
    runs: BTreeMap<Box<str>, Runs>,
    hosts: hosts::Hosts,
}

impl Member {
    /// A run that is about to begin. Since when its handler had no other.
    fn launched(&mut self, launch: &Launch) -> Option<i64> {
        if &*launch.row.handler == hosts::KIND {
            return None;
        }
        let runs = self.runs.entry(launch.row.handler.as_ref().into()).or_default();
        let idle = runs.open.is_empty();
        runs.open.insert(launch.row.id);
        idle.then_some(runs.idle_since)
    }
}

/// The runs of a handler on one node, from their launch to their end.
#[derive(Default)]
struct Runs {
    open: BTreeSet<TimerId>,
    /// When the last of them ended, if none is open.
    idle_since: i64,
}

/// A call that waits for its answer.
#[derive(Clone)]
enum Asked {
    Timers(Vec<Tag>),
    Cancel(u64),
    Reset(u64),
    Other,
}

pub(super) struct World {
    plan: Plan,
    rng: fastrand::Rng,
    now: i64,
    steps: BinaryHeap<Reverse<(i64, u64, usize)>>,
    /// The steps that are to come, by place.
    waiting: Vec<Option<Step>>,
    free: Vec<usize>,
    sequence: u64,
    clock: Arc<AtomicI64>,
    /// How far the store's clock is from the line of time.
    ahead: i64,
    store: MemoryStore,
    members: Vec<Member>,
    next_tag: Tag,
    next_call: u64,
    calls_left: usize,
    series_keys: Vec<u64>,
    healed: bool,
    /// Until then nobody reaches the store.
    away_until: i64,
    /// Since when each bucket has the owner that it has, if it has had another: the store's clock.
    owned_since: BTreeMap<BucketNo, i64>,
    /// Of these it is not known whether the store has them.
    unknown: BTreeSet<Tag>,
    /// How many processes were killed.
    deaths: u32,
    backup: Option<MemoryStore>,
    /// How often it was restored.
    restores: u32,
    /// Whose runs had which key for the outside, and after how many restores.
    keys: BTreeMap<String, (Tag, u32)>,
    jumped: bool,
    stage: hosts::Stage,
    pub(super) events: Vec<Event>,
}

impl World {
    pub(super) fn new(plan: Plan) -> Self {
        let mut rng = fastrand::Rng::with_seed(plan.seed ^ 0x5eed);
        let clock = Arc::new(AtomicI64::new(START));
        let here = Arc::clone(&clock);
        let store = MemoryStore::new(
            plan.buckets,
            Arc::new(move || Timestamp(here.load(Ordering::Relaxed))),
        );
        let members = (0..plan.nodes)
            .map(|place| Member {
                node: None,
                life: 0,
                frozen_until: 0,
                turn_at: i64::MAX,
                valid_until: Mono::MIN,
                lease: 0,
                closing: false,
                origin: rng.i64(0..1_000 * SECOND),
                rate: plan.rates[place],
                cut_until: 0,
                identity: 0,
                renewed_at: 0,
                open_calls: BTreeMap::new(),
                runs: BTreeMap::new(),
                hosts: hosts::Hosts::default(),
            })
            .collect();
        let mut world = Self {
            calls_left: plan.calls,
            plan,
            rng,
            now: 0,
            steps: BinaryHeap::new(),
            waiting: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            clock,
            ahead: START,
            store,
            members,
            next_tag: 1,
            next_call: 0,
            series_keys: Vec::new(),
            healed: false,
            away_until: 0,
            owned_since: BTreeMap::new(),
            unknown: BTreeSet::new(),
            deaths: 0,
            backup: None,
            restores: 0,
            keys: BTreeMap::new(),
            jumped: false,
            stage: hosts::Stage::default(),
            events: Vec::new(),
        };
        world.set_up();
        world
    }

    fn set_up(&mut self) {
        if self.plan.faults.any() {
            self.events.push(Event::Fault);
        }
        for node in 0..self.plan.nodes {
            let at = self.rng.i64(0..SECOND);
            self.at(at, Step::Restart(node));
        }
        let horizon = self.plan.horizon;
        for _ in 0..self.plan.calls {
            let at = self.rng.i64(0..horizon);
            self.at(at, Step::Call);
        }
        let faults = self.plan.faults.clone();
        let node = |rng: &mut fastrand::Rng, nodes| rng.usize(0..nodes);
        for _ in 0..faults.kills {
            let (at, node) = (self.rng.i64(0..horizon), node(&mut self.rng, self.plan.nodes));
            self.at(at, Step::Kill(node));
        }
        for _ in 0..faults.closes {
            let (at, node) = (self.rng.i64(0..horizon), node(&mut self.rng, self.plan.nodes));
            self.at(at, Step::Close(node));
        }
        for _ in 0..faults.freezes {
            let (at, node) = (self.rng.i64(0..horizon), node(&mut self.rng, self.plan.nodes));
            let long = self.rng.i64(0..10 * SECOND);
            self.at(at, Step::Freeze(node, long));
        }
        for _ in 0..faults.cuts {
            let (at, node) = (self.rng.i64(0..horizon), node(&mut self.rng, self.plan.nodes));
            let long = self.rng.i64(0..8 * SECOND);
            self.at(at, Step::Cut(node, long));
        }
        for _ in 0..faults.outages {
            let (at, long) = (self.rng.i64(0..horizon), self.rng.i64(0..3 * LEASE));
            self.at(at, Step::Outage(long));
        }
        for _ in 0..faults.jumps {
            let at = self.rng.i64(0..horizon);
            let by = *self
                .rng
                .choice(&[-3600 * SECOND, -2 * SECOND, -100_000, 100_000, 5 * SECOND, 60 * SECOND])
                .expect("not empty");
            self.at(at, Step::Jump(by));
        }
        for _ in 0..faults.restores {
            let restored = self.rng.i64(1..horizon);
            let backed_up = self.rng.i64(0..restored);
            self.at(backed_up, Step::BackUp);
            self.at(restored, Step::Restore);
        }
        self.at(horizon, Step::Heal);
    }

    /// The whole history.
    pub(super) fn run(mut self) -> Result<Vec<Event>, String> {
        while let Some(Reverse((at, _, place))) = self.steps.pop() {
            self.free.push(place);
            let step = self.waiting[place].take().expect("each step happens once");
            self.now = self.now.max(at);
            self.clock.store(self.store_now(), Ordering::Relaxed);
            self.step(step)?;
            if let Some(wrong) = self.stage.wrong.take() {
                return Err(format!("{wrong}: {:?}\n{}", self.plan, self.lines()));
            }
            if self.sequence > BUSY {
                return Err(format!("a node spins: {:?}", self.plan));
            }
            if self.healed && self.is_over() {
                break;
            }
            if self.now > PATIENCE {
                let left = self.left();
                return Err(format!(
                    "it never ends: {:?}\nleft: {:?}\n{}\n{:#?}\nstore {}",
                    self.plan,
                    left,
                    self.lines(),
                    self.members.iter().map(|member| &member.node).collect::<Vec<_>>(),
                    self.store_now(),
                ));
            }
        }
        self.list_what_is_left();
        Ok(self.events)
    }

    fn lines(&self) -> String {
        let lines: Vec<String> = self.events.iter().map(|event| format!("{event:?}")).collect();
        lines.join("\n")
    }

    fn store_now(&self) -> i64 {
        self.now + self.ahead
    }

    fn at(&mut self, at: i64, step: Step) {
        self.sequence += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.waiting[place] = Some(step);
                place
            }
            None => {
                self.waiting.push(Some(step));
                self.waiting.len() - 1
            }
        };
        self.steps.push(Reverse((at, self.sequence, place)));
    }

    fn chance(&mut self, in_a_thousand: u32) -> bool {
        !self.healed && in_a_thousand > 0 && self.rng.u32(..1_000) < in_a_thousand
    }

    fn mono(&self, node: usize) -> Mono {
        let Member { origin, rate, .. } = self.members[node];
        Mono(origin + self.now * rate / TRUE_RATE)
    }

    /// When the clock of a node shows `at`; now, if it has done so.
    fn when(&self, node: usize, at: Mono) -> i64 {
        let Member { origin, rate, .. } = self.members[node];
        let left = i128::from(at.0.saturating_sub(origin)) * i128::from(TRUE_RATE);
        // Rounded up, so that it is not before.
        let when = -(-left).div_euclid(i128::from(rate));
        i64::try_from(when).unwrap_or(i64::MAX).max(self.now)
    }

    /// Steps inside a process wait while it is frozen. `None` if they are of another life.
    fn alive(&self, node: usize, life: u32) -> Option<i64> {
        let member = &self.members[node];
        (member.life == life && member.node.is_some()).then_some(member.frozen_until)
    }

    /// The step, if it happens now: inside a process it waits while that is frozen, and ends with
    /// it.
    fn happens_now(&mut self, step: Step) -> Option<Step> {
        let Some((node, life)) = step.process() else { return Some(step) };
        let frozen = self.alive(node, life)?;
        if frozen > self.now {
            self.at(frozen, step);
            return None;
        }
        Some(step)
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        let Some(step) = self.happens_now(step) else { return Ok(()) };
        match step {
            Step::Turn(node) => self.comes_to_turn(node),
            Step::Apply { node, life, lane, requests, restores } => {
                if restores == self.restores {
                    self.apply(node, life, lane, &requests)?;
                }
            }
            Step::Reply { node, lane, result, .. } => {
                let now = self.mono(node);
                self.member(node).replied(lane, now, result);
                self.turn(node);
            }
            Step::Begin { node, life, launch, lease, looked, idle_since } => {
                self.begin(node, life, launch, (lease, looked, idle_since))?;
            }
            Step::End { node, tag, id, fence, end, .. } => self.end(node, tag, id, fence, end),
            Step::Notified { node, timers } => {
                if self.members[node].node.is_some() {
                    self.member(node).notified(timers);
                    self.turn_at(node, self.now);
                }
            }
            Step::Call => self.call(),
            Step::Kill(node) => self.kill(node),
            Step::Restart(node) => self.restart(node),
            Step::Freeze(node, long) => self.freeze(node, self.now + long),
            Step::Close(node) => self.close(node),
            Step::Jump(by) => {
                self.ahead += by;
                self.jumped = true;
            }
            Step::Cut(node, long) => {
                let until = self.now + long;
                let member = &mut self.members[node];
                member.cut_until = member.cut_until.max(until);
            }
            Step::Outage(long) => self.away_until = self.away_until.max(self.now + long),
            Step::BackUp => {
                self.backup = Some(self.store.copy());
                self.events.push(Event::BackedUp);
            }
            Step::Restore => self.restore(),
            Step::Heal => self.heal(),
            Step::Host { node, life, step } => self.host(node, life, step)?,
            Step::Resume => {
                let resume = Write::Pause { handler: "tag".into(), paused: false };
                self.store.transact(&[Request::Write(resume)]).expect("it does not fail");
            }
        }
        Ok(())
    }

    /// The alarm of a node, or one that it has set again since.
    fn comes_to_turn(&mut self, node: usize) {
        let frozen = self.members[node].frozen_until;
        if self.members[node].turn_at <= self.now {
            self.members[node].turn_at = i64::MAX;
        }
        if frozen > self.now {
            self.turn_at(node, frozen);
        } else {
            self.turn(node);
        }
    }

    fn freeze(&mut self, node: usize, until: i64) {
        let member = &mut self.members[node];
        member.frozen_until = member.frozen_until.max(until);
    }

    fn close(&mut self, node: usize) {
        if let Some(node) = &mut self.members[node].node {
            node.close();
        }
        self.members[node].closing = true;
        self.is_busy(node);
        self.turn_at(node, self.now);
    }

    fn member(&mut self, node: usize) -> &mut Node {
        self.members[node].node.as_mut().expect("it is alive")
    }

    fn restart(&mut self, node: usize) {
        if self.members[node].node.is_some() {
            return;
        }
        let settings = self.settings(node);
        let (now, rng) = (self.mono(node), self.rng.fork());
        let member = &mut self.members[node];
        member.life += 1;
        member.node = Some(Node::new(settings, rng, now));
        (member.closing, member.frozen_until, member.turn_at) = (false, 0, i64::MAX);
        member.valid_until = Mono::MIN;
        member.hosts = hosts::Hosts::default();
        self.turn(node);
    }

    fn settings(&self, node: usize) -> NodeSettings {
        let short = if self.plan.fails { 5 } else { 100 };
        let backoff = BackoffPolicy::builder()
            .initial(Duration::from_millis(short))
            .cap(Duration::from_millis(10 * short))
            .build()
            .expect("in range");
        let handler = |name: &str, at_most_once| HandlerSettings {
            backoff,
            at_most_once,
            max_attempts: self.plan.attempts,
            ..HandlerSettings::new(name, self.plan.concurrency)
        };
        let handlers = vec![
            handler("tag", false),
            handler("once", true),
            HandlerSettings {
                concurrency: usize::MAX,
                recipient: Some(hosts::recipient),
                ..handler(hosts::KIND, false)
            },
            handler(STUCK, false),
        ];
        NodeSettings {
            window: Micros::SECOND * 3,
            lease: Micros(self.plan.leases.get(node).copied().unwrap_or(LEASE)),
            max_resident: self.plan.max_resident,
            max_in_flight: 64,
            ramp: 4,
            batch: self.plan.batch,
            explains_late: true,
            ..NodeSettings::new(handlers)
        }
    }

    fn kill(&mut self, node: usize) {
        let member = &mut self.members[node];
        if member.node.take().is_none() {
            return;
        }
        self.deaths += 1;
        let member = &mut self.members[node];
        member.hosts = hosts::Hosts::default();
        member.runs.clear();
        // Nobody is there to be answered.
        let open = std::mem::take(&mut member.open_calls);
        for asked in open.into_values() {
            self.unknown(asked);
        }
        let at = self.now + self.rng.i64(0..5 * SECOND);
        self.at(at, Step::Restart(node));
    }

    fn restore(&mut self) {
        (0..self.plan.nodes).for_each(|node| self.kill(node));
        let backup = self.backup.as_ref().expect("it was made before");
        self.restores += 1;
        self.store = backup.restored(self.restores);
        self.events.push(Event::Restored);
    }

    fn heal(&mut self) {
        self.healed = true;
        // A handler that was paused goes on, also if the request to pause it is still on its way.
        for second in 0..30 {
            self.at(self.now + second * SECOND, Step::Resume);
        }
        // Back to where it would be, so that everything comes due.
        self.ahead = self.ahead.max(START);
        for node in 0..self.plan.nodes {
            self.members[node].frozen_until = self.members[node].frozen_until.min(self.now);
            self.members[node].cut_until = self.members[node].cut_until.min(self.now);
            self.at(self.now, Step::Restart(node));
        }
        // Again and again, because a run that is under way makes a cancel too late.
        for round in 1..=40 {
            for _ in 0..self.series_keys.len() {
                self.at(self.now + round * SECOND, Step::Call);
            }
        }
    }

    fn turn_at(&mut self, node: usize, at: i64) {
        let member = &mut self.members[node];
        if at < member.turn_at {
            member.turn_at = at;
            self.at(at, Step::Turn(node));
        }
    }

    fn turn(&mut self, node: usize) {
        if self.members[node].node.is_none() {
            return;
        }
        let (now, life) = (self.mono(node), self.members[node].life);
        let member = self.member(node);
        member.turn(now);
        let outputs = member.take_outputs();
        let next = member.next_turn();
        for output in outputs {
            if let Output::Closed { .. } = output {
                self.closed(node);
                self.members[node].node = None;
                let at = self.now + self.rng.i64(0..2 * SECOND);
                self.at(at, Step::Restart(node));
                return;
            }
            self.carry_out((node, life), now, output);
        }
        if next != Mono::NEVER {
            self.turn_at(node, self.when(node, next).max(self.now + 1));
        }
    }

    /// What a node wants done, while it lives.
    fn carry_out(&mut self, (node, life): (usize, u32), now: Mono, output: Output) {
        match output {
            Output::Send { lane, requests } => {
                let (delay, restores) = (self.on_the_way(), self.restores);
                self.at(self.now + delay, Step::Apply { node, life, lane, requests, restores });
            }
            Output::Vacate { bucket, epoch, lost } => self.vacate(node, bucket, epoch, lost),
            Output::Admit { bucket, epoch } => {
                self.members[node].hosts.vacated.admit(bucket, epoch);
            }
            // Each is kept, as in the wheel: a node sets an alarm once.
            Output::Alarm { at } => self.at(self.when(node, at), Step::Turn(node)),
            Output::Launch(launch) => {
                let explained: i64 = launch.delays.iter().map(|delay| delay.time.0).sum();
                let late = launch.at - launch.counts_from;
                assert!((0..=late.0.max(0)).contains(&explained), "{late:?}: {launch:?}");
                let mut at = self.when(node, launch.at) + self.rng.i64(0..500);
                if self.chance(self.plan.faults.crowded) {
                    at += self.rng.i64(0..20 * SECOND);
                }
                let member = &mut self.members[node];
                let lease = member.lease;
                let idle_since = member.launched(&launch);
                let looked = None;
                self.at(at, Step::Begin { node, life, launch, lease, looked, idle_since });
            }
            Output::Answer { call, result } => self.answered(node, call, result),
            Output::Notify(timers) => {
                for other in 0..self.plan.nodes {
                    if !self.chance(self.plan.faults.unheard) {
                        let at = self.now + self.rng.i64(0..50_000);
                        self.at(at, Step::Notified { node: other, timers: timers.clone() });
                    }
                }
            }
            Output::ValidUntil(until) => {
                self.members[node].valid_until = until;
                self.members[node].hosts.entitle(now, until);
            }
            Output::BegunAnew => {
                let member = &mut self.members[node];
                (member.lease, member.valid_until) = (member.lease + 1, Mono::MIN);
                self.members[node].hosts.entitle(now, Mono::MIN);
            }
            Output::Parked(_) | Output::Cancel { .. } => {}
            Output::Closed { .. } => unreachable!("it lives"),
        }
    }

    /// How long a batch takes to the store, or its answer back: the answer to another lane's may
    /// come before it.
    fn on_the_way(&mut self) -> i64 {
        let most = if self.chance(self.plan.faults.slow) { 20 * SECOND } else { 3_000 };
        self.rng.i64(200..most)
    }

    fn apply(
        &mut self,
        node: usize,
        life: u32,
        lane: Lane,
        requests: &[Request],
    ) -> Result<(), String> {
        for request in requests {
            if let Request::Keep(Keep::Join { node: identity, .. }) = request
                && self.members[node].life == life
            {
                self.members[node].identity = *identity;
            }
        }
        let claims = |request: &Request| matches!(request, Request::Keep(Keep::Claim { .. }));
        let before = requests.iter().any(claims).then(|| self.owners());
        let error = |unknown| Err(StoreError { unknown, ..StoreError::nothing_done("simulated") });
        let cut = lane == Lane::Keeper && self.members[node].cut_until > self.now;
        let away = self.away_until > self.now && !self.healed;
        let (back, result) = if cut || away || self.chance(self.plan.faults.lost) {
            // It is not known on this side that it did not arrive.
            let unknown = self.rng.bool();
            (self.rng.i64(1_000..500_000), error(unknown))
        } else {
            let committed = self.store.transact(requests);
            if let (Some(before), Ok(committed)) = (before, &committed) {
                self.taken(node, &before, &committed.replies)?;
                let after = self.owners().into_iter();
                let changed = after.filter(|(bucket, owner)| before.get(bucket) != Some(owner));
                let now = self.store_now();
                self.owned_since.extend(changed.map(|(bucket, _)| (bucket, now)));
            }
            let renews = |request: &Request| matches!(request, Request::Keep(Keep::Renew { .. }));
            if self.members[node].life == life && requests.iter().any(renews) {
                self.members[node].renewed_at = self.now;
            }
            if self.chance(self.plan.faults.unanswered) {
                (self.rng.i64(1_000..500_000), error(true))
            } else {
                (self.on_the_way(), committed)
            }
        };
        self.at(self.now + back, Step::Reply { node, life, lane, result });
        Ok(())
    }

    fn begin(
        &mut self,
        node: usize,
        life: u32,
        launch: Launch,
        (lease, looked, idle_since): (u32, Option<i64>, Option<i64>),
    ) -> Result<(), String> {
        let (id, fence) = (launch.row.id, launch.fence);
        let now = self.mono(node);
        // The same look as the gate's.
        let opens = launch.deleted || self.holds(node, lease) && !self.members[node].closing;
        let due = self.store_now() >= launch.row.deadline.0 || !self.embedded();
        if looked.is_none() && !(opens && due) {
            self.ended(node, now, id, fence, RunEnd::NotBegun);
            self.turn(node);
            return Ok(());
        }
        if looked.is_none() && self.chance(self.plan.faults.freeze_at_start) {
            let until = self.now + self.rng.i64(0..10 * SECOND);
            self.freeze(node, until);
            let looked = Some(self.store_now());
            self.at(until, Step::Begin { node, life, launch, lease, looked, idle_since });
            return Ok(());
        }
        if &*launch.row.handler == hosts::KIND {
            self.deliver(node, launch, lease, looked);
            return Ok(());
        }
        let tag: Tag = launch.row.payload.parse().expect("payloads are tags");
        // A start is not recorded before the lead, whatever the local clock shows.
        let allowed = if self.plan.has_bad_clocks() { LEAD.0 } else { 0 };
        let clock = looked.unwrap_or_else(|| self.store_now()) + allowed;
        self.began(tag, &launch, clock, looked.is_some())?;
        self.is_punctual(tag, &launch, clock, idle_since)?;
        if self.chance(self.plan.faults.poison) {
            self.kill(node);
            return Ok(());
        }
        let long = match self.rng.u8(..100) {
            0 if !self.plan.is_stuck_and_killed() => self.rng.i64(0..6 * SECOND),
            ..=30 => self.rng.i64(0..SHORT),
            _ => self.rng.i64(0..1_000),
        };
        if &*launch.row.handler == STUCK && !self.healed {
            let (end, at) = (RunEnd::Done, self.plan.horizon + SECOND);
            self.at(at, Step::End { node, life, tag, id, fence, end });
            return Ok(());
        }
        let bad = self.plan.fails && launch.row.planned.0 % 3 == 0;
        let end = match self.rng.u8(..100) {
            _ if bad && !self.healed => RunEnd::Retry { error: "simulated".into() },
            0..=9 if !self.healed => RunEnd::Retry { error: "simulated".into() },
            10 if !self.plan.fails => RunEnd::Park { reason: "simulated".into() },
            _ => RunEnd::Done,
        };
        self.at(self.now + long, Step::End { node, life, tag, id, fence, end });
        Ok(())
    }

    /// A handler, or an actor, begins.
    fn began(&mut self, tag: Tag, launch: &Launch, clock: i64, frozen: bool) -> Result<(), String> {
        let (fence, planned) = (launch.fence.0, launch.row.planned.0);
        self.events.push(Event::Began { tag, fence, planned, clock, frozen });
        let (key, now) = (launch.row.idempotency_key(), (tag, self.restores));
        let has = *self.keys.entry(key).or_insert(now);
        match has == now {
            true => Ok(()),
            false => Err(format!("timer {tag} has the key of {has:?}: {:?}", self.plan)),
        }
    }

    /// If nothing goes wrong and nothing is in the way, a run is not late. Beside a stuck handler,
    /// while a node ramps up, another one has a single place for certain: the run is not late from
    /// when that was free.
    fn is_punctual(
        &self,
        tag: Tag,
        launch: &Launch,
        clock: i64,
        idle_since: Option<i64>,
    ) -> Result<(), String> {
        let stuck = &*launch.row.handler == STUCK;
        if self.plan.is_stuck_and_killed() && !stuck {
            return self.is_soon(tag, launch, clock);
        }
        let roomy = if self.plan.stuck { !stuck } else { self.is_roomy() };
        if self.plan.faults.any() || !roomy || !self.is_settled(launch) {
            return Ok(());
        }
        // A bucket on its way to another node waits for its longest run.
        let drained = if self.plan.nodes == 1 { 0 } else { 8 * SECOND };
        let ramps = self.plan.stuck && self.now < RAMPED_UP;
        let has_place = if ramps { idle_since.unwrap_or(self.now) + self.ahead } else { 0 };
        let from = has_place.max(launch.row.deadline.0);
        self.is_in_time(tag, clock - from, PUNCTUAL + drained)
    }

    /// The handler that is stuck makes no run of another one late, from when somebody has its
    /// bucket. Only what had been started in an earlier life waits for one that has to be alone:
    /// there is none before the second death. And a sweep finds what nobody was told of. (How long
    /// it waits that has to be alone itself is not looked at here.)
    fn is_soon(&self, tag: Tag, launch: &Launch, clock: i64) -> Result<(), String> {
        let row = &launch.row;
        if row.deaths > 1 || row.series.is_some() {
            return Ok(());
        }
        let owned = self.owned_since.get(&launch.bucket).copied().unwrap_or(START);
        let waits = row.deaths > 0 && self.deaths > 1;
        let swept = if self.unknown.contains(&tag) { SWEPT } else { 0 };
        let most = SOON + swept + if waits { IN_QUARANTINE } else { 0 };
        self.is_in_time(tag, clock - owned.max(row.deadline.0), most)
    }

    fn is_in_time(&self, tag: Tag, late: i64, most: i64) -> Result<(), String> {
        if late <= most {
            return Ok(());
        }
        let (plan, lines) = (&self.plan, self.lines());
        Err(format!("timer {tag} is late by {late} us, and {most} are allowed: {plan:?}\n{lines}"))
    }

    /// Whether a run that was launched under this lease has it still.
    fn holds(&self, node: usize, lease: u32) -> bool {
        let member = &self.members[node];
        lease == member.lease && self.mono(node) < member.valid_until
    }

    /// What the store says of its owners.
    fn owners(&mut self) -> BTreeMap<BucketNo, Option<NodeId>> {
        // A renewal of a node that does not exist changes nothing.
        let look = Request::Keep(Keep::Renew { node: 0, report: None });
        let committed = self.store.transact(&[look]).expect("the reference does not fail");
        let [Reply::Renewed(renewed)] = &committed.replies[..] else {
            unreachable!("a renewal is answered by a renewal");
        };
        renewed.buckets.iter().map(|(bucket, owner, _)| (*bucket, *owner)).collect()
    }

    /// Nothing is taken from a node that may still begin runs; and what is taken from one that
    /// lives, but cannot renew its lease, is not taken late.
    fn taken(
        &self,
        taker: usize,
        before: &BTreeMap<BucketNo, Option<NodeId>>,
        replies: &[Reply],
    ) -> Result<(), String> {
        let claimed = replies.iter().filter_map(|reply| match reply {
            Reply::Claimed(claimed) => Some(claimed),
            _ => None,
        });
        for (bucket, _) in claimed.flatten() {
            let Some(Some(owner)) = before.get(bucket) else { continue };
            let lives = |member: &Member| member.node.is_some() && member.identity == *owner;
            let Some(robbed) = self.members.iter().position(lives) else { continue };
            let member = &self.members[robbed];
            let wrong = if self.mono(robbed) < member.valid_until {
                "whose lease holds"
            } else if self.plan.faults.is_outages_only() {
                "which lives, and could not renew its lease any more than others"
            } else if self.plan.faults.is_cuts_only()
                && self.members[taker].cut_until + PAUSE < member.renewed_at
                && self.now - member.renewed_at > LEASE * 4 / 3 * 102 / 100 + 100_000
            {
                "which has been silent for too long"
            } else {
                continue;
            };
            let lines = self.lines();
            return Err(format!(
                "bucket {bucket} is taken from node {robbed}, {wrong}: {:?}\n{lines}",
                self.plan
            ));
        }
        Ok(())
    }

    /// Whether the gate sees the store's clock itself.
    fn embedded(&self) -> bool {
        self.plan.nodes == 1 || self.jumped
    }

    /// No node was just started, so that no bucket is on its way from one to another.
    fn is_settled(&self, launch: &Launch) -> bool {
        let first = launch.row.attempt == 1 && launch.row.series.is_none();
        let settled = START + 8 * SECOND;
        first && (self.plan.nodes == 1 && self.now > SECOND || launch.row.deadline.0 > settled)
    }

    /// Nothing waits for a place.
    fn is_roomy(&self) -> bool {
        self.plan.concurrency > 100 && self.plan.max_resident > 100 && self.plan.batch > 1
    }

    fn end(&mut self, node: usize, tag: Tag, id: TimerId, fence: Fence, end: RunEnd) {
        self.is_busy(node);
        let clock = self.store_now();
        let noted = noted(&end);
        self.events.push(Event::Ended { tag, fence: fence.0, end: noted, clock });
        let now = self.mono(node);
        self.ended(node, now, id, fence, end);
        self.turn(node);
    }

    /// The node is told of the end of a run.
    fn ended(&mut self, node: usize, now: Mono, id: TimerId, fence: Fence, end: RunEnd) {
        for runs in self.members[node].runs.values_mut() {
            if runs.open.remove(&id) && runs.open.is_empty() {
                runs.idle_since = self.now;
            }
        }
        self.member(node).ended(now, id, fence, end);
    }

    /// Nothing is in the store but what was parked, and nothing is on its way.
    fn is_over(&mut self) -> bool {
        let resting = self.members.iter().all(|member| {
            member.node.as_ref().is_some_and(|node| node.counts().in_flight == 0)
                && member.open_calls.is_empty()
        });
        if !resting {
            return false;
        }
        self.left().is_empty()
    }

    /// All timers in the store.
    fn left(&mut self) -> Vec<Loaded> {
        let load = |bucket| Request::Load {
            bucket,
            after: (Timestamp::MIN, TimerId::MIN),
            until: Timestamp::NEVER,
            limit: usize::MAX,
            letters: Letters::default(),
        };
        let requests: Vec<Request> = (0..self.plan.buckets).map(load).collect();
        let committed = self.store.transact(&requests).expect("the reference does not fail");
        let rows = |reply| if let Reply::Loaded(rows) = reply { rows } else { Vec::new() };
        committed.replies.into_iter().flat_map(rows).collect()
    }

    fn list_what_is_left(&mut self) {
        for (payload, planned) in self.store.parked_runs() {
            let (tag, planned) = (payload.parse().expect("payloads are tags"), Some(planned.0));
            self.events.push(Event::Left { tag, parked: true, planned });
        }
    }
}

fn noted(end: &RunEnd) -> End {
    match end {
        RunEnd::Done => End::Done,
        RunEnd::Park { .. } => End::Park,
        _ => End::Retry,
    }
}
