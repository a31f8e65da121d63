//! The model: a sorted map, and the rules.
//!
//! A task runs at its deadline rounded up to the tick, or at once if it has no delay; among those
//! of one instant the earlier deadline goes first, then the earlier call. Where a deadline was
//! moved, nothing is promised of its place among equal ones.
//!
//! So the order is not always known beforehand, and what tasks do may depend on it. Therefore the
//! model does not run by itself: it follows the log of the real thing, and says of each event
//! whether it is allowed.

use std::collections::BTreeMap;
use std::time::Duration;

use lars_scheduler::{CloseReport, Metrics, MissedTickBehavior};

use super::ops::{Action, LAST, Op, Rule, Script, Settings};
use super::real::{Answer, Event, Outcome};

type Check<T = ()> = Result<T, String>;

/// Where a timer stands among those that wait: by the instant of its run, its deadline, the call.
type Key = (u128, u64, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// It was never accepted.
    Refused,
    Waiting(Key),
    Running,
    /// Handed back, and neither run nor dropped.
    HandedBack,
    Gone,
}

enum Task {
    Once { script: Script, hook: Option<Script> },
    Series { rule: Rule, period: u64, runs: u32, ran: u32, nominal: u64, script: Script },
}

struct Timer {
    task: Task,
    stand: Stand,
    deadline: u64,
    moved: bool,
    /// When it was moved while it was due. Should it be moved to the same instant again, it may
    /// still have its old place there.
    moved_when_due: Option<u64>,
    cancelled: bool,
}

/// A script has come to its end, or to a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Panicked,
}

pub(crate) struct Model {
    tick: u64,
    now: u64,
    limit: Option<usize>,
    used: usize,
    stopped: bool,
    /// Time is being moved.
    moving: bool,
    /// The stop has collected what was pending.
    finished: bool,
    timers: Vec<Timer>,
    waiting: BTreeMap<Key, usize>,
    log: std::vec::IntoIter<Event>,
    /// What was handed back and not looked at yet, by deadline and then as before.
    handed_back: BTreeMap<(u64, Key), usize>,
    operations: u64,
    calls: u64,
    scheduled: u64,
    fired: u64,
    cancelled: u64,
    handed: u64,
    panicked: u64,
}

fn nanos(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Check {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?} and not {expected:?}"))
}

impl Model {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            tick: settings.tick,
            now: settings.begin.min(LAST),
            limit: settings.max_pending,
            used: 0,
            stopped: false,
            moving: false,
            finished: false,
            timers: Vec::new(),
            waiting: BTreeMap::new(),
            log: Vec::new().into_iter(),
            handed_back: BTreeMap::new(),
            operations: 0,
            calls: 0,
            scheduled: 0,
            fired: 0,
            cancelled: 0,
            handed: 0,
            panicked: 0,
        }
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }

    /// The operation was carried out, with this outcome and this log.
    pub(crate) fn carry_out(&mut self, op: &Op, outcome: Outcome, log: Vec<Event>) -> Check {
        self.log = log.into_iter();
        self.operations += 1;
        match op {
            Op::Do(Action::Panic) => expect("the outcome", outcome, Outcome::Nothing)?,
            Op::Do(action) => {
                self.perform(action)?;
            }
            Op::Advance(duration) => {
                let target = self.now.saturating_add(nanos(*duration)).min(LAST);
                let fired = self.follow(target)?;
                self.nothing_due(target)?;
                self.now = target;
                expect("the outcome", outcome, Outcome::Fired(fired))?;
            }
            Op::AdvanceToNext => {
                let before = self.now;
                let next = self.first_instant().filter(|_| !self.finished);
                if let Some(instant) = next {
                    self.follow(instant)?;
                    self.nothing_due(instant)?;
                    self.now = self.now.max(instant);
                }
                let moved = next.map(|_| Duration::from_nanos(self.now - before));
                expect("the outcome", outcome, Outcome::Moved(moved))?;
            }
            Op::RunUntilIdle(limit) => {
                let ran = self.follow(LAST)?;
                if ran < *limit {
                    self.nothing_due(LAST)?;
                }
                let idle = self.waiting.is_empty() || self.stopped;
                expect("the outcome", outcome, Outcome::Idle(ran, idle))?;
            }
        }
        if self.stopped {
            self.finish();
        }
        self.log_is_read()
    }

    fn log_is_read(&mut self) -> Check {
        match self.log.next() {
            None => Ok(()),
            Some(event) => Err(format!("{event:?} should not have happened")),
        }
    }

    /// The next instant at which something is due, if that ever comes.
    fn first_instant(&self) -> Option<u64> {
        let (&(instant, ..), _) = self.waiting.first_key_value()?;
        u64::try_from(instant).ok().filter(|instant| *instant <= LAST).map(|i| i.max(self.now))
    }

    fn nothing_due(&self, target: u64) -> Check {
        match self.waiting.first_key_value() {
            Some((key, id)) if key.0 <= u128::from(target) && !self.stopped => {
                Err(format!("timer {id}, due at {}, did not run by {target}", key.0))
            }
            _ => Ok(()),
        }
    }

    /// What ran on the way to `target`; says how much it was.
    fn follow(&mut self, target: u64) -> Check<usize> {
        let mut ran = 0;
        self.moving = true;
        while let Some(event) = self.log.next() {
            let Event::Ran(id) = event else {
                return Err(format!("{event:?} should not have happened"));
            };
            self.may_run(id, target)?;
            ran += 1;
            self.fired += 1;
            self.run(id)?;
        }
        self.moving = false;
        Ok(ran)
    }

    /// Whether it is this timer's turn. It waits no more.
    fn may_run(&mut self, id: usize, target: u64) -> Check {
        let timer = self.timers.get(id).ok_or("a timer that nobody scheduled ran")?;
        let Stand::Waiting(key) = timer.stand else {
            return Err(format!("timer {id} ran, but it is {:?}", timer.stand));
        };
        if key.0 > u128::from(if self.stopped { self.now } else { target }) {
            return Err(format!(
                "timer {id}, due at {}, ran although time goes to {target}",
                key.0
            ));
        }
        let (&first, _) = self.waiting.first_key_value().expect("this one waits");
        let mut before = self.waiting.range((first.0, first.1, 0)..key).map(|(_, &id)| id);
        let is_first = match (first.0, first.1) == (key.0, key.1) {
            true => timer.moved || before.all(|id| self.timers[id].moved),
            false => first.0 == key.0 && timer.moved_when_due.map(u128::from) == Some(key.0),
        };
        if !is_first {
            return Err(format!("timer {id} with {key:?} ran before the one with {first:?}"));
        }
        self.waiting.remove(&key);
        self.now = self.now.max(key.0 as u64);
        if matches!(self.timers[id].task, Task::Once { .. }) {
            self.used -= 1;
        }
        Ok(())
    }

    /// The task has begun; its script follows.
    fn run(&mut self, id: usize) -> Check<Flow> {
        self.timers[id].stand = Stand::Running;
        let script = match &mut self.timers[id].task {
            Task::Once { script, .. } => script.clone(),
            Task::Series { script, ran, .. } => {
                *ran += 1;
                script.clone()
            }
        };
        let flow = self.perform_all(&script)?;
        self.panicked += u64::from(flow == Flow::Panicked);
        let timer = &self.timers[id];
        if let Task::Series { rule, period, runs, ran, nominal, .. } = timer.task
            && flow == Flow::On
            && ran < runs
            && !timer.cancelled
            && !self.stopped
        {
            let next = self.next_of(rule, period, nominal);
            if let Task::Series { nominal, .. } = &mut self.timers[id].task {
                *nominal = next;
            }
            self.wait(id, next, next <= self.now);
            self.scheduled += 1;
            return Ok(flow);
        }
        self.gone(id)?;
        Ok(flow)
    }

    /// When the next run of a series is due.
    fn next_of(&self, rule: Rule, period: u64, nominal: u64) -> u64 {
        let due = nominal.saturating_add(period);
        match rule {
            Rule::Delay => self.now.saturating_add(period),
            Rule::Rate(MissedTickBehavior::Skip) if due < self.now => {
                let missed = (self.now - due).div_ceil(period);
                due.saturating_add(missed.saturating_mul(period))
            }
            Rule::Rate(MissedTickBehavior::Delay) => due.max(self.now),
            Rule::Rate(_) => due,
        }
    }

    /// The timer's task is dropped, here.
    fn gone(&mut self, id: usize) -> Check {
        let event = self.log.next();
        expect("the end of a task", event, Some(Event::Dropped(id)))?;
        let timer = &mut self.timers[id];
        if matches!(timer.task, Task::Series { .. }) && timer.stand != Stand::Refused {
            self.used -= 1;
        }
        timer.stand = Stand::Gone;
        Ok(())
    }

    fn wait(&mut self, id: usize, deadline: u64, immediate: bool) {
        let key = match immediate {
            true => (u128::from(self.now), self.now),
            false => (u128::from(deadline).next_multiple_of(u128::from(self.tick)), deadline),
        };
        let key = (key.0, key.1, self.next_call());
        self.timers[id].stand = Stand::Waiting(key);
        self.timers[id].deadline = deadline;
        self.waiting.insert(key, id);
    }

    /// Grows with each timer that begins to wait.
    fn next_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    fn perform_all(&mut self, script: &[Action]) -> Check<Flow> {
        for action in script {
            if self.perform(action)? == Flow::Panicked {
                return Ok(Flow::Panicked);
            }
        }
        Ok(Flow::On)
    }

    fn perform(&mut self, action: &Action) -> Check<Flow> {
        self.operations += 1;
        match action {
            Action::Once { delay, script, hook, .. } => {
                self.once(vec![(*delay, script.clone(), hook.clone())])?;
            }
            Action::Past { script, .. } => {
                self.once(vec![(Duration::ZERO, script.clone(), None)])?;
            }
            Action::Batch(tasks) => {
                self.once(tasks.iter().map(|(delay, s)| (*delay, s.clone(), None)).collect())?;
            }
            Action::Repeat { rule, initial, period, runs, script } => {
                let first = self.now.saturating_add(nanos(*initial));
                let (rule, period) = (*rule, nanos(*period));
                let script = script.clone();
                let task =
                    Task::Series { rule, period, runs: *runs, ran: 0, nominal: first, script };
                self.repeat(task, period, first, initial.is_zero())?;
            }
            Action::Cancel(nth) if !self.timers.is_empty() => {
                self.cancel(nth % self.timers.len())?;
            }
            Action::Reset { nth, delay, .. } if !self.timers.is_empty() => {
                self.reset(nth % self.timers.len(), *delay)?;
            }
            Action::Cancel(_) | Action::Reset { .. } => {}
            Action::Panic => return Ok(Flow::Panicked),
            Action::Stop => {
                self.stopped = true;
                // Otherwise it resolves when the movement of time ends.
                if !self.moving {
                    self.finish();
                }
            }
        }
        Ok(Flow::On)
    }

    fn said(&mut self, answer: Answer) -> Check {
        let event = self.log.next();
        expect("what a call returned", event, Some(Event::Said(answer)))
    }

    fn is_full(&self, more: usize) -> bool {
        self.limit.is_some_and(|limit| self.used + more > limit)
    }

    fn once(&mut self, tasks: Vec<(Duration, Script, Option<Script>)>) -> Check {
        let first = self.timers.len();
        let refusal = match () {
            () if self.stopped => Some(Answer::Stopped),
            () if self.is_full(tasks.len()) => Some(Answer::Full),
            () => None,
        };
        let count = tasks.len();
        for (number, (delay, script, hook)) in tasks.into_iter().enumerate() {
            let task = Task::Once { script, hook };
            self.timers.push(Timer::refused(task));
            if refusal.is_none() {
                let deadline = self.now.saturating_add(nanos(delay));
                self.wait(first + number, deadline, delay.is_zero());
            }
        }
        let Some(refusal) = refusal else {
            self.used += count;
            self.scheduled += count as u64;
            return self.said(Answer::Scheduled);
        };
        for id in first..first + count {
            expect("a refused task", self.log.next(), Some(Event::Dropped(id)))?;
        }
        self.said(refusal)
    }

    fn repeat(&mut self, task: Task, period: u64, first: u64, immediate: bool) -> Check {
        let id = self.timers.len();
        self.timers.push(Timer::refused(task));
        let refusal = match () {
            () if period == 0 => Some(Answer::ZeroPeriod),
            () if self.stopped => Some(Answer::Stopped),
            () if self.is_full(1) => Some(Answer::Full),
            () => None,
        };
        if let Some(refusal) = refusal {
            expect("a refused task", self.log.next(), Some(Event::Dropped(id)))?;
            return self.said(refusal);
        }
        self.used += 1;
        self.scheduled += 1;
        self.wait(id, first, immediate);
        self.said(Answer::Scheduled)
    }

    fn cancel(&mut self, id: usize) -> Check {
        let stand = self.timers[id].stand;
        let is_series = matches!(self.timers[id].task, Task::Series { .. });
        let done = match stand {
            Stand::Refused => return self.said(Answer::NoTimer),
            Stand::Waiting(key) => {
                self.waiting.remove(&key);
                self.cancelled += 1;
                if !is_series {
                    self.used -= 1;
                }
                self.gone(id)?;
                self.timers[id].cancelled = true;
                if let Task::Once { hook: Some(hook), .. } = &self.timers[id].task {
                    let hook = hook.clone();
                    expect("the hook of a cancelled task", self.log.next(), Some(Event::Hook(id)))?;
                    let flow = self.perform_all(&hook)?;
                    self.panicked += u64::from(flow == Flow::Panicked);
                }
                true
            }
            // The run that is under way finishes; one that was handed back does nothing.
            Stand::Running | Stand::HandedBack => {
                is_series && !std::mem::replace(&mut self.timers[id].cancelled, is_series)
            }
            Stand::Gone => false,
        };
        let is_cancelled = self.timers[id].cancelled;
        self.said(Answer::Cancel { done, is_pending: false, is_cancelled })
    }

    fn reset(&mut self, id: usize, delay: Duration) -> Check {
        let timer = &mut self.timers[id];
        let answer = match (timer.stand, &timer.task) {
            (Stand::Refused, _) => Answer::NoTimer,
            (Stand::Waiting(key), Task::Once { .. }) => {
                timer.moved = true;
                if key.0 <= u128::from(self.now) {
                    timer.moved_when_due = Some(self.now);
                }
                self.waiting.remove(&key);
                self.wait(id, self.now.saturating_add(nanos(delay)), delay.is_zero());
                Answer::Reset(true)
            }
            _ => Answer::Reset(false),
        };
        self.said(answer)
    }

    /// A stop has collected what is pending.
    fn finish(&mut self) {
        if self.finished {
            return;
        }
        (self.stopped, self.finished) = (true, true);
        for (key, id) in std::mem::take(&mut self.waiting) {
            let timer = &mut self.timers[id];
            timer.stand = Stand::HandedBack;
            if matches!(timer.task, Task::Once { .. }) {
                self.used -= 1;
            }
            self.handed += 1;
            self.handed_back.insert((timer.deadline, key), id);
        }
    }

    /// A stop has handed back so many tasks.
    pub(crate) fn handed_back(&mut self, count: usize) -> Check {
        expect("how many were handed back", count, self.handed_back.len())
    }

    /// The next of them was run or dropped.
    pub(crate) fn next_handed_back(
        &mut self,
        is_repeat: bool,
        run: bool,
        went_well: bool,
        log: Vec<Event>,
    ) -> Check {
        let (Some(Event::Ran(id) | Event::Dropped(id)), ran) =
            (log.first().copied(), matches!(log.first(), Some(Event::Ran(_))))
        else {
            return Err(format!("a task that was handed back has left the log {log:?}"));
        };
        self.log = log.into_iter();
        self.take_handed_back(id)?;
        let timer = &self.timers[id];
        expect("is_repeat", is_repeat, matches!(timer.task, Task::Series { .. }))?;
        expect("whether it was run", ran, run && !timer.cancelled)?;
        let flow = if ran {
            self.log.next();
            self.run(id)?
        } else {
            self.gone(id)?;
            Flow::On
        };
        expect("whether it went well", went_well, flow == Flow::On)?;
        self.log_is_read()
    }

    /// Whether it is this one's turn: the earliest deadline, and the earliest call among equal
    /// ones.
    fn take_handed_back(&mut self, id: usize) -> Check {
        let mut before = Vec::new();
        let (first, _) = *self.handed_back.first_key_value().ok_or("nothing was handed back")?.0;
        for (&key, &other) in &self.handed_back {
            if other == id {
                let timers = &self.timers;
                let known = !timers[id].moved;
                if key.0 != first
                    || known && before.iter().any(|&other: &usize| !timers[other].moved)
                {
                    return Err(format!("timer {id} was handed back before {before:?}"));
                }
                self.handed_back.remove(&key);
                return Ok(());
            }
            before.push(other);
        }
        Err(format!("timer {id} was handed back, and was not pending"))
    }

    pub(crate) fn all_handed_back(&self) -> Check {
        expect("what was not handed back", self.handed_back.len(), 0)
    }

    /// The scheduler was stopped or closed at the end.
    pub(crate) fn end(
        &mut self,
        close: bool,
        report: Option<CloseReport>,
        log: Vec<Event>,
    ) -> Check {
        self.finish();
        self.log = log.into_iter();
        if !close {
            return self.log_is_read();
        }
        let report = report.ok_or("a close without a report")?;
        let (mut ran, mut ended, panicked) = (0, 0, self.panicked);
        while !self.handed_back.is_empty() {
            match self.log.next() {
                Some(Event::Ran(id)) if matches!(self.timers[id].task, Task::Once { .. }) => {
                    self.take_handed_back(id)?;
                    self.run(id)?;
                    ran += 1;
                }
                Some(Event::Dropped(id)) if matches!(self.timers[id].task, Task::Series { .. }) => {
                    self.take_handed_back(id)?;
                    self.timers[id].stand = Stand::Gone;
                    self.used -= 1;
                    ended += 1;
                }
                other => return Err(format!("{other:?} happened in a close")),
            }
        }
        expect("what close ran", report.ran, ran)?;
        expect("repeats that close ended", report.repeats_ended, ended)?;
        expect("panics in a close", report.panicked as u64, self.panicked - panicked)?;
        expect("what close dropped", (report.dropped, report.unfinished), (0, 0))?;
        self.log_is_read()
    }

    pub(crate) fn compare(&self, elapsed: Duration, pending: u64) -> Check {
        expect("the time", elapsed, Duration::from_nanos(self.now))?;
        expect("how many are pending", pending, self.waiting.len() as u64)
    }

    pub(crate) fn compare_metrics(&self, metrics: &Metrics) -> Check {
        let counts = (metrics.scheduled, metrics.fired, metrics.cancelled, metrics.handed_back);
        let expected = (self.scheduled, self.fired, self.cancelled, self.handed);
        expect("scheduled, fired, cancelled, handed back", counts, expected)?;
        expect("pending, panicked", (metrics.pending, metrics.panicked), (0, self.panicked))?;
        expect("restarts", metrics.restarts, 0)?;
        expect("places still taken", self.used, 0)
    }
}

impl Timer {
    /// As long as it is not accepted.
    fn refused(task: Task) -> Self {
        Self {
            task,
            stand: Stand::Refused,
            deadline: 0,
            moved: false,
            moved_when_due: None,
            cancelled: false,
        }
    }
}
