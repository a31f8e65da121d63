//! Two nodes, their store, and what is on its way between them.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{HandlerSettings, LEAD, Lane, Launch, Node, NodeSettings, Output, RunEnd};
use crate::model::{Fence, Finished, NewTimer, NodeId, OnConflict, TimerId, When, stable_hash};
use crate::store::{Committed, Keep, MemoryStore, Reply, Request, Store, StoreError, Write};
use crate::sync::{Arc, AtomicI64, Ordering};
use crate::time::{Micros, Mono, Timestamp};

const SECOND: i64 = 1_000_000;
const HOUR: Micros = Micros::SECOND.times(3_600);
const LEASE: Micros = Micros::SECOND.times(3);
const LANES: [Lane; 3] = [Lane::Keeper, Lane::Writer, Lane::Runner];

/// When the timers are due.
const DUE: i64 = 20 * SECOND;

/// How long what is held up stays so: longer than a lease.
const HELD: Micros = LEASE.times(2);

/// One thing that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A batch is carried out; its answer is on its way.
    Commit(usize, usize),
    /// That answer comes.
    Answer(usize, usize),
    /// A batch does not arrive, and its node does not know that.
    Lose(usize, usize),
    /// The answer is lost.
    LoseAnswer(usize, usize),
    /// A batch, or its answer, takes long.
    Hold(usize, usize),
    Begin(usize, TimerId),
    /// A run waits long for a thread.
    Delay(usize, TimerId),
    End(usize, TimerId),
    /// Its handler says that it has failed.
    Fail(usize, TimerId),
    /// Nothing happens in a process for long.
    Freeze(usize),
    Crash(usize),
    Restart(usize),
    /// What a dead process had sent arrives.
    Arrive(usize),
    /// Time passes, up to when a node has something to do.
    Pass,
}

/// What a lane of a node waits for.
#[derive(Debug, Clone)]
enum Wire {
    Idle,
    Asked(Vec<Request>),
    Answered(Committed),
}

/// A run that was launched.
#[derive(Debug, Clone)]
struct Launched {
    launch: Launch,
    /// The lease under which it was launched.
    lease: u32,
    begun: bool,
    held_until: Mono,
}

#[derive(Debug, Clone)]
struct Process {
    node: Option<Node>,
    lives: u64,
    valid_until: Mono,
    /// How often it was declared dead.
    lease: u32,
    alarms: BTreeSet<Mono>,
    frozen_until: Mono,
    wires: [Wire; 3],
    /// Of each wire.
    held_until: [Mono; 3],
    runs: BTreeMap<TimerId, Launched>,
}

impl Launched {
    /// Whether it begins, or ends.
    fn is_next(&self, now: Mono) -> bool {
        self.launch.at <= now && self.held_until <= now
    }
}

impl Process {
    /// Under which the store knows the node that lives.
    fn identity(&self) -> Option<NodeId> {
        self.node.as_ref().map(Node::identity)
    }
}

/// What became of a timer.
#[derive(Debug, Clone, Default)]
struct Seen {
    last: Option<Fence>,
    /// That run has failed.
    failed: bool,
    /// Its end is recorded.
    over: bool,
}

pub(super) struct World {
    now: Mono,
    clock: Arc<AtomicI64>,
    store: MemoryStore,
    processes: [Process; 2],
    /// What dead processes had sent.
    orphans: Vec<Vec<Request>>,
    timers: BTreeMap<TimerId, Seen>,
}

impl World {
    /// Each node has a bucket with a timer in memory, which is about to be due.
    pub(super) fn new() -> Self {
        let clock = Arc::new(AtomicI64::new(0));
        let here = Arc::clone(&clock);
        let store = MemoryStore::new(2, Arc::new(move || Timestamp(here.load(Ordering::Relaxed))));
        let process = || Process {
            node: None,
            lives: 0,
            valid_until: Mono::MIN,
            lease: 0,
            alarms: BTreeSet::new(),
            frozen_until: Mono::MIN,
            wires: [Wire::Idle, Wire::Idle, Wire::Idle],
            held_until: [Mono::MIN; 3],
            runs: BTreeMap::new(),
        };
        let (processes, timers) = ([process(), process()], BTreeMap::new());
        let (now, orphans) = (Mono(0), Vec::new());
        let mut world = Self { now, clock, store, processes, orphans, timers };
        for process in 0..2 {
            world.restart(process).unwrap();
        }
        world.goes_right_until(DUE / 2);
        let timers = Arc::new((0..2).map(timer).collect());
        let now = world.now;
        world.processes[0].node.as_mut().unwrap().call(now, 1, Write::Schedule(timers));
        world.turn(0).unwrap();
        world.goes_right_until(DUE - LEAD.0);
        let resident = |it: &Process| it.node.as_ref().unwrap().counts().resident;
        assert!(world.processes.iter().all(|it| resident(it) == 1), "each has a timer");
        world
    }

    fn goes_right_until(&mut self, end: i64) {
        loop {
            let step = self.steps()[0];
            if step == Step::Pass && self.next().0 >= end {
                return;
            }
            self.take(step).unwrap();
        }
    }

    pub(super) fn copy(&self) -> Self {
        Self {
            now: self.now,
            clock: Arc::clone(&self.clock),
            store: self.store.copy(),
            processes: self.processes.clone(),
            orphans: self.orphans.clone(),
            timers: self.timers.clone(),
        }
    }

    /// All there is.
    pub(super) fn words(&self) -> String {
        let Self { now, processes, orphans, timers, .. } = self;
        format!("{now:?} {processes:?} {orphans:?} {timers:?} {}", self.store.words())
    }

    /// What can happen now. The first is what happens if nothing goes wrong.
    pub(super) fn steps(&self) -> Vec<Step> {
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        right.extend((0..self.orphans.len()).map(Step::Arrive));
        for (number, process) in self.processes.iter().enumerate() {
            if process.node.is_none() {
                right.push(Step::Restart(number));
                continue;
            }
            wrong.push(Step::Crash(number));
            if process.frozen_until > self.now {
                continue;
            }
            wrong.push(Step::Freeze(number));
            for (lane, wire) in process.wires.iter().enumerate() {
                let (next, lost) = match wire {
                    _ if process.held_until[lane] > self.now => continue,
                    Wire::Idle => continue,
                    Wire::Asked(_) => (Step::Commit(number, lane), Step::Lose(number, lane)),
                    Wire::Answered(_) => {
                        (Step::Answer(number, lane), Step::LoseAnswer(number, lane))
                    }
                };
                right.push(next);
                wrong.extend([lost, Step::Hold(number, lane)]);
            }
            for (id, run) in process.runs.iter().filter(|(_, run)| run.is_next(self.now)) {
                if run.begun {
                    right.push(Step::End(number, *id));
                    wrong.push(Step::Fail(number, *id));
                } else {
                    right.push(Step::Begin(number, *id));
                    wrong.push(Step::Delay(number, *id));
                }
            }
        }
        right.extend((self.next() < Mono::NEVER).then_some(Step::Pass));
        right.extend(wrong);
        right
    }

    pub(super) fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Commit(process, lane) => self.commit(process, lane),
            Step::Answer(process, lane) => {
                let wire = std::mem::replace(&mut self.processes[process].wires[lane], Wire::Idle);
                let Wire::Answered(committed) = wire else { unreachable!("it is on its way") };
                self.hears(process, lane, Ok(committed))
            }
            Step::Lose(process, lane) | Step::LoseAnswer(process, lane) => {
                self.processes[process].wires[lane] = Wire::Idle;
                self.hears(process, lane, Err(StoreError::unknown("lost")))
            }
            Step::Begin(process, id) => self.begin(process, id),
            Step::Hold(process, lane) => {
                self.processes[process].held_until[lane] = self.now + HELD;
                Ok(())
            }
            Step::Delay(process, id) => {
                self.run(process, id).held_until = self.now + HELD;
                Ok(())
            }
            Step::End(process, id) => {
                let Launched { launch, .. } = self.processes[process].runs.remove(&id).unwrap();
                self.ended(process, &launch, RunEnd::Done)
            }
            Step::Fail(process, id) => {
                let Launched { launch, .. } = self.processes[process].runs.remove(&id).unwrap();
                self.timers.entry(id).or_default().failed = true;
                self.ended(process, &launch, RunEnd::Retry { error: "failed".into() })
            }
            Step::Freeze(process) => {
                self.processes[process].frozen_until = self.now + HELD;
                Ok(())
            }
            Step::Crash(process) => {
                self.crash(process);
                Ok(())
            }
            Step::Restart(process) => self.restart(process),
            Step::Arrive(orphan) => {
                let requests = self.orphans.remove(orphan);
                self.carry_out(&requests).map(drop)
            }
            Step::Pass => self.pass(),
        }
    }
}

/// Time, and the processes.
impl World {
    /// When something is to be done.
    fn next(&self) -> Mono {
        let next = |process: &Process| {
            let mut at: Vec<Mono> = process.held_until.to_vec();
            if process.frozen_until > self.now {
                at.push(process.frozen_until);
            } else if let Some(node) = &process.node {
                at.push(node.next_turn());
                at.extend(&process.alarms);
                at.extend(process.runs.values().map(|run| run.launch.at.max(run.held_until)));
            }
            at.into_iter().filter(|at| *at > self.now).min()
        };
        self.processes.iter().filter_map(next).min().unwrap_or(Mono::NEVER)
    }

    fn run(&mut self, process: usize, id: TimerId) -> &mut Launched {
        self.processes[process].runs.get_mut(&id).expect("it was launched")
    }

    fn pass(&mut self) -> Result<(), String> {
        self.now = self.next();
        (0..2).try_for_each(|process| self.turn(process))
    }

    fn restart(&mut self, number: usize) -> Result<(), String> {
        let process = &mut self.processes[number];
        process.lives += 1;
        let rng = fastrand::Rng::with_seed(process.lives * 2 + number as u64);
        process.node = Some(Node::new(settings(), rng, self.now));
        self.turn(number)
    }

    fn crash(&mut self, number: usize) {
        let process = &mut self.processes[number];
        (process.node, process.valid_until) = (None, Mono::MIN);
        (process.frozen_until, process.held_until) = (Mono::MIN, [Mono::MIN; 3]);
        process.alarms.clear();
        process.runs.clear();
        for wire in &mut process.wires {
            if let Wire::Asked(requests) = std::mem::replace(wire, Wire::Idle) {
                self.orphans.push(requests);
            }
        }
    }

    fn turn(&mut self, number: usize) -> Result<(), String> {
        let now = self.now;
        let process = &mut self.processes[number];
        let Some(node) = process.node.as_mut().filter(|_| process.frozen_until <= now) else {
            return Ok(());
        };
        process.alarms.retain(|at| *at > now);
        node.turn(now);
        let mut near = Vec::new();
        for output in node.take_outputs() {
            match output {
                Output::Send { lane, requests } => {
                    process.wires[lane as usize] = Wire::Asked(requests);
                }
                Output::Alarm { at } => drop(process.alarms.insert(at)),
                Output::Launch(launch) => {
                    if launch.at.0 < launch.row.deadline.0 {
                        return Err(format!("{launch:?} is early"));
                    }
                    let (lease, held_until) = (process.lease, Mono::MIN);
                    let run = Launched { launch, lease, begun: false, held_until };
                    process.runs.insert(run.launch.row.id, run);
                }
                Output::ValidUntil(until) => process.valid_until = until,
                Output::BegunAnew => {
                    (process.lease, process.valid_until) = (process.lease + 1, Mono::MIN);
                }
                Output::Parked(parked) => return Err(format!("{parked:?} is given up")),
                Output::Notify(timers) => near.extend(timers),
                Output::Answer { .. } | Output::Cancel { .. } => {}
                Output::Vacate { .. } | Output::Admit { .. } | Output::Closed { .. } => {
                    return Err(format!("nobody asked for {output:?}"));
                }
            }
        }
        match &mut self.processes[1 - number].node {
            Some(other) if !near.is_empty() => {
                other.notified(near);
                self.turn(1 - number)
            }
            _ => Ok(()),
        }
    }

    fn hears(
        &mut self,
        number: usize,
        lane: usize,
        result: Result<Committed, StoreError>,
    ) -> Result<(), String> {
        if let Some(node) = &mut self.processes[number].node {
            node.replied(LANES[lane], self.now, result);
        }
        self.turn(number)
    }

    fn ended(&mut self, number: usize, launch: &Launch, end: RunEnd) -> Result<(), String> {
        if let Some(node) = &mut self.processes[number].node {
            node.ended(self.now, launch.row.id, launch.fence, end);
        }
        self.turn(number)
    }
}

/// What must hold.
impl World {
    fn commit(&mut self, number: usize, lane: usize) -> Result<(), String> {
        let wire = std::mem::replace(&mut self.processes[number].wires[lane], Wire::Idle);
        let Wire::Asked(requests) = wire else { unreachable!("it is on its way") };
        let committed = self.carry_out(&requests)?;
        self.processes[number].wires[lane] = Wire::Answered(committed);
        Ok(())
    }

    /// Nothing is taken from a node whose lease holds.
    fn carry_out(&mut self, requests: &[Request]) -> Result<Committed, String> {
        self.clock.store(self.now.0, Ordering::Relaxed);
        let before = self.store.owners();
        let committed = self.store.transact(requests).expect("the reference does not fail");
        for (before, after) in before.into_iter().zip(self.store.owners()) {
            let owns = |it: &&Process| before.is_some() && it.identity() == before;
            let Some(owner) = self.processes.iter().find(owns).filter(|_| after != before) else {
                continue;
            };
            let releases = |it: &Request| matches!(it, Request::Keep(Keep::Release { .. }));
            if owner.valid_until > self.now && !requests.iter().any(releases) {
                return Err("a bucket is taken from a node whose lease holds".into());
            }
        }
        for (request, reply) in requests.iter().zip(&committed.replies) {
            if let (Request::Finish(finishes), Reply::Finished(finished)) = (request, reply) {
                for (finish, finished) in finishes.iter().zip(finished) {
                    if *finished == Finished::Gone {
                        self.timers.entry(finish.id).or_default().over = true;
                    }
                }
            }
        }
        Ok(committed)
    }

    /// A run begins under a lease that holds, once in an epoch, after all that have a smaller
    /// fence, not while another node may run the timer, and not after its end is recorded.
    fn begin(&mut self, number: usize, id: TimerId) -> Result<(), String> {
        let holds = |process: &Process, run: &Launched| {
            process.valid_until > self.now && run.lease == process.lease
        };
        let process = &self.processes[number];
        let run = process.runs[&id].clone();
        if !holds(process, &run) {
            self.processes[number].runs.remove(&id);
            return self.ended(number, &run.launch, RunEnd::NotBegun);
        }
        let other = &self.processes[1 - number];
        if other.runs.get(&id).is_some_and(|run| run.begun && holds(other, run)) {
            return Err(format!("timer {id} runs on two nodes"));
        }
        let (seen, fence) = (self.timers.entry(id).or_default(), run.launch.fence);
        if seen.over {
            return Err(format!("timer {id} begins after its end"));
        }
        let failed = std::mem::take(&mut seen.failed);
        let follows = |last: Fence| last < fence && (failed || last.epoch() < fence.epoch());
        if seen.last.is_some_and(|last| !follows(last)) {
            return Err(format!("timer {id} begins with {fence:?} after {:?}", seen.last));
        }
        seen.last = Some(fence);
        self.run(number, id).begun = true;
        Ok(())
    }

    /// All timers have run, and their ends are recorded.
    pub(super) fn is_over(&self) -> bool {
        self.timers.len() == 2 && self.timers.values().all(|timer| timer.over)
    }
}

fn settings() -> NodeSettings {
    let handler = HandlerSettings::new("handler", 10);
    // However many deviations are deaths: what is given up is not over.
    let of = NodeSettings { max_deaths: u32::MAX, ..NodeSettings::new(vec![handler]) };
    NodeSettings { lease: LEASE, window: HOUR, sweep: HOUR, ramp: 10, ..of }
}

/// A timer in this bucket.
fn timer(bucket: u64) -> NewTimer {
    let keys = (0..).map(|number: u32| number.to_string());
    let key = keys.into_iter().find(|key| stable_hash(key) % 2 == bucket).unwrap();
    NewTimer {
        id: 0,
        bucket: 0,
        when: When::At(Timestamp(DUE)),
        offset: Micros::ZERO,
        home: None,
        key: Some(key.into()),
        tag: None,
        conflict: OnConflict::Fail,
        handler: "handler".into(),
        payload_version: 1,
        payload: "".into(),
        series: None,
        remember: Micros::ZERO,
    }
}
