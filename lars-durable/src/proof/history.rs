//! What happened, and whether it was allowed to.
//!
//! A history is a list of events in the order in which they happened, of all callers and handlers.
//! The checker knows nothing of engine and store.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// A run that its process has died in so often is parked.
const DEATHS: u32 = 3;

/// A timer, as the test that made it calls it.
pub(super) type Tag = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Event {
    /// A call is made. The timer may not run before `not_before`, by the store's clock.
    Asked {
        tag: Tag,
        key: Option<u64>,
        not_before: i64,
        kind: Kind,
        replaces: bool,
    },
    /// The call made this timer.
    Accepted {
        tag: Tag,
    },
    /// The call certainly made nothing.
    Refused {
        tag: Tag,
    },
    /// The call may have made it.
    Unknown {
        tag: Tag,
    },
    CancelAsked {
        key: u64,
    },
    CancelAnswered {
        key: u64,
        answer: Answer,
    },
    ResetAsked {
        key: u64,
        not_before: i64,
    },
    ResetAnswered {
        key: u64,
        moved: Option<bool>,
    },
    /// A handler began. `planned` tells the runs of a series apart.
    Began {
        tag: Tag,
        fence: i64,
        planned: i64,
        clock: i64,
        /// The process stood still between its last look at its lease and this start.
        frozen: bool,
    },
    /// A handler ended.
    Ended {
        tag: Tag,
        fence: i64,
        end: End,
        clock: i64,
    },
    /// Something was made to go wrong.
    Fault,
    /// From now on processes stand still, and nobody notes between which look and which start.
    Standstills,
    /// The store's clock is being set, or every node has noticed by now. In between nobody can say
    /// what is early, nor what a delay counts from.
    Unsteady(bool),
    /// An actor has shown this fence to others.
    Shown {
        name: u64,
        fence: u64,
    },
    /// A backup is made: of what was answered before, and perhaps of calls that have no answer.
    BackedUp,
    /// All processes are dead, and the last backup is in the place of the store. That is declared.
    Restored,
    /// What is in the store when everything is over; and which run it is, if that is noted.
    Left {
        tag: Tag,
        parked: bool,
        planned: Option<i64>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    Once,
    Delay(i64),
    Rate(i64),
    /// A rate of which no run is left out, however late it is.
    Burst(i64),
    /// Deleted before it runs.
    AtMostOnce,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    Prevented,
    Running,
    NotFound,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum End {
    Done,
    Retry,
    Park,
}

/// What was found in a history that is as it should be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) accepted: usize,
    pub(super) runs: usize,
    /// Runs that came after another of the same timer, without a retry.
    pub(super) repeated: usize,
    pub(super) prevented: usize,
    pub(super) parked: usize,
}

/// A fence, what the run was planned for, and how and when it ended.
type LastRun = (i64, i64, Option<(End, i64)>);

#[derive(Debug, Clone)]
struct Timer {
    key: Option<u64>,
    kind: Kind,
    replaces: bool,
    /// The bound that holds, and those that may.
    not_before: i64,
    perhaps: Vec<i64>,
    accepted: bool,
    refused: bool,
    /// Somebody may have taken its place, or cancelled it.
    ended_by_call: bool,
    prevented: bool,
    fences: BTreeSet<i64>,
    /// The last run that began, and how it ended.
    last: Option<LastRun>,
    /// How often that run has begun.
    begun: u32,
    done: bool,
    parked: bool,
    left: bool,
    /// Runs that a series has left behind without a good end: each has to be parked.
    given_up: BTreeSet<i64>,
    /// Those that are.
    parked_runs: BTreeSet<i64>,
    /// It was made after the backup, and a restore has undone that.
    undone: bool,
}

/// How a run began.
#[derive(Clone, Copy)]
struct Beginning {
    fence: i64,
    planned: i64,
    clock: i64,
    frozen: bool,
}

impl Timer {
    fn new(key: Option<u64>, not_before: i64, kind: Kind, replaces: bool) -> Self {
        Self {
            key,
            kind,
            replaces,
            not_before,
            perhaps: Vec::new(),
            accepted: false,
            refused: false,
            ended_by_call: false,
            prevented: false,
            fences: BTreeSet::new(),
            last: None,
            begun: 0,
            done: false,
            parked: false,
            left: false,
            given_up: BTreeSet::new(),
            parked_runs: BTreeSet::new(),
            undone: false,
        }
    }

    /// The run with this fence has ended, if it is the last one that began.
    fn ended(&mut self, fence: i64, end: End, clock: i64) {
        if let Some((last, _, ended)) = &mut self.last
            && *last == fence
        {
            *ended = Some((end, clock));
        }
        self.done |= end == End::Done;
        self.parked |= end == End::Park;
    }

    fn is_not_early(&self, clock: i64, unsteady: bool) -> Result<(), String> {
        let bound = self.perhaps.iter().copied().fold(self.not_before, i64::min);
        // Later runs, and later attempts, count from a clock that may have been set back meanwhile.
        let first = self.last.is_none_or(|(_, _, ended)| ended.is_none());
        let counts = first && (self.last.is_none() || self.kind == Kind::Once);
        match clock < bound && !unsteady && counts {
            true => Err(format!("it is early by {} us", bound - clock)),
            false => Ok(()),
        }
    }

    /// Whether this run is the last one once more, without a retry. An error if that must not be,
    /// or if it is the next one and does not follow from the last.
    fn repeats(&self, run: Beginning, faults: bool) -> Result<bool, String> {
        let Some((last, last_planned, ended)) = self.last else { return Ok(false) };
        let Beginning { fence, planned, clock, .. } = run;
        let same_epoch = last >> 32 == fence >> 32;
        match (self.kind, ended) {
            (_, Some((End::Retry, at))) if clock < at && !faults => {
                return Err("a retry begins before the end of the run".into());
            }
            (_, Some((End::Retry, _))) => {}
            (Kind::Delay(delay), Some((End::Done, at))) if planned != last_planned => {
                if clock < at.saturating_add(delay) && !faults && self.perhaps.is_empty() {
                    return Err("the delay does not count from the end of the run".into());
                }
            }
            (Kind::Rate(every) | Kind::Burst(every), _) if planned != last_planned => {
                if (planned - last_planned) % every != 0 && self.perhaps.is_empty() {
                    return Err("the rate drifts".into());
                }
                if planned < last_planned && self.perhaps.is_empty() {
                    return Err("the rate goes back".into());
                }
            }
            (Kind::Delay(_), None) if planned != last_planned && self.perhaps.is_empty() => {
                // A run whose process died that often is parked, and the series goes on.
                if self.begun < DEATHS {
                    return Err("the next run begins before the end of the last".into());
                }
            }
            (Kind::AtMostOnce, _) => return Err("at most once, but twice".into()),
            (_, Some((End::Park, _))) if same_epoch => {
                return Err("what was parked runs again".into());
            }
            _ if same_epoch => return Err(format!("runs twice under one owner, after {last}")),
            _ => return Ok(true),
        }
        Ok(false)
    }

    /// The run that is planned for this time begins. If a series goes on with it, the one before
    /// ended well or was given up, and so was what is missing in between. (Where a reset may have
    /// moved it, nobody knows what is missing.)
    fn goes_on(&mut self, planned: i64) {
        let Some((_, last, ended)) = self.last else { return };
        if planned == last || !self.perhaps.is_empty() {
            return;
        }
        if !matches!(ended, Some((End::Done, _))) {
            self.given_up.insert(last);
        }
        if let Kind::Burst(every) = self.kind {
            let missing = (1..).map(|nth| last + nth * every).take_while(|it| *it < planned);
            self.given_up.extend(missing);
        }
    }
}

/// Checks a history; the first thing that is wrong with it is the error.
pub(super) fn check(events: &[Event]) -> Result<Summary, String> {
    let mut checker = Checker::default();
    for (number, event) in events.iter().enumerate() {
        checker.see(*event).map_err(|wrong| format!("event {number}, {event:?}: {wrong}"))?;
    }
    checker.end()
}

#[derive(Debug, Default, Clone)]
struct Checker {
    timers: BTreeMap<Tag, Timer>,
    /// Cancels of a key that have no answer.
    open_cancels: BTreeMap<u64, usize>,
    /// Resets of a key that have no answer, and what they ask for.
    open_resets: BTreeMap<u64, (usize, Vec<i64>)>,
    faults: bool,
    standstills: bool,
    unsteady: bool,
    summary: Summary,
    /// The last fence that each actor has shown.
    shown: BTreeMap<u64, u64>,
    /// What was known when the last backup was made.
    backup: Option<Box<Self>>,
    /// Not all that is parked says which run it is.
    unplanned: bool,
}

impl Checker {
    fn see(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Asked { tag, key, not_before, kind, replaces } => {
                self.asked(tag, key, not_before, (kind, replaces));
            }
            Event::Accepted { tag } => {
                self.summary.accepted += 1;
                self.timer(tag)?.accepted = true;
            }
            Event::Refused { tag } => {
                let timer = self.timer(tag)?;
                timer.refused = true;
                if timer.last.is_some() {
                    return Err("a timer that was refused has run".into());
                }
            }
            Event::Unknown { tag } => drop(self.timer(tag)?),
            Event::CancelAsked { key } => {
                *self.open_cancels.entry(key).or_default() += 1;
                for timer in self.of_key(key) {
                    timer.ended_by_call = true;
                }
            }
            Event::CancelAnswered { key, answer } => self.cancelled(key, answer)?,
            Event::ResetAsked { key, not_before } => self.reset(key, not_before),
            Event::ResetAnswered { key, moved } => self.reset_answered(key, moved.is_some()),
            Event::Began { tag, fence, planned, clock, frozen } => {
                self.began(tag, Beginning { fence, planned, clock, frozen })?;
            }
            Event::Ended { tag, fence, end, clock } => {
                self.timer(tag)?.ended(fence, end, clock);
            }
            Event::Fault => self.faults = true,
            Event::Standstills => self.standstills = true,
            Event::Unsteady(unsteady) => self.unsteady(unsteady),
            Event::Shown { name, fence } => {
                let last = self.shown.insert(name, fence);
                if let Some(last) = last.filter(|last| *last >= fence) {
                    return Err(format!("the fence of the delivery before was {last}"));
                }
            }
            Event::BackedUp => {
                let backup = Self { backup: None, ..self.clone() };
                self.backup = Some(Box::new(backup));
            }
            Event::Restored => self.restored()?,
            Event::Left { tag, parked, planned } => {
                self.left(tag, parked, planned)?;
            }
        }
        Ok(())
    }

    /// All is as it was when the backup was made, but for what is kept elsewhere: which calls were
    /// refused, and which fences were shown. Calls that were open then will have no other effect.
    fn restored(&mut self) -> Result<(), String> {
        let backup = self.backup.clone().ok_or("there is no backup")?;
        let now = std::mem::replace(self, *backup);
        (self.standstills, self.unsteady) = (now.standstills, now.unsteady);
        (self.summary, self.backup, self.faults) = (now.summary, now.backup, true);
        self.shown = now.shown;
        self.open_cancels.clear();
        self.open_resets.clear();
        for (tag, later) in now.timers {
            match self.timers.get_mut(&tag) {
                Some(timer) => {
                    timer.refused |= later.refused;
                    timer.fences = later.fences;
                }
                None => drop(self.timers.insert(tag, Timer { undone: true, ..later })),
            }
        }
        Ok(())
    }

    fn asked(
        &mut self,
        tag: Tag,
        key: Option<u64>,
        not_before: i64,
        (kind, replaces): (Kind, bool),
    ) {
        let not_before = if self.unsteady { i64::MIN } else { not_before };
        let mut timer = Timer::new(key, not_before, kind, replaces);
        if let Some(key) = key {
            // A call that is under way, or whose outcome is not known, may still come.
            let open_cancels = self.open_cancels.get(&key).is_some_and(|open| *open > 0);
            let open_calls =
                self.of_key(key).any(|other| other.replaces && !other.accepted && !other.refused);
            timer.ended_by_call = open_cancels || open_calls;
            if let Some((_, bounds)) = self.open_resets.get(&key) {
                timer.perhaps.clone_from(bounds);
            }
            if replaces {
                // From now on each of the others may go.
                for other in self.of_key(key) {
                    other.ended_by_call = true;
                }
            }
        }
        self.timers.insert(tag, timer);
    }

    fn reset(&mut self, key: u64, not_before: i64) {
        let not_before = if self.unsteady { i64::MIN } else { not_before };
        let (open, bounds) = self.open_resets.entry(key).or_default();
        *open += 1;
        bounds.push(not_before);
        for timer in self.of_key(key) {
            timer.perhaps.push(not_before);
        }
    }

    fn reset_answered(&mut self, key: u64, moved: bool) {
        if let Some((open, bounds)) = self.open_resets.get_mut(&key)
            && moved
        {
            *open -= 1;
            if *open == 0 {
                bounds.clear();
            }
        }
    }

    /// This is what the store has in the end.
    fn left(&mut self, tag: Tag, parked: bool, planned: Option<i64>) -> Result<(), String> {
        self.unplanned |= planned.is_none();
        let timer = self.timer(tag)?;
        (timer.left, timer.parked) = (true, parked);
        if planned.is_some_and(|planned| !timer.parked_runs.insert(planned)) {
            return Err("one run is parked twice".into());
        }
        self.summary.parked += usize::from(parked);
        Ok(())
    }

    fn unsteady(&mut self, unsteady: bool) {
        self.unsteady = unsteady;
        // What has no answer may count from the other time.
        for timer in self.timers.values_mut().filter(|timer| !timer.accepted) {
            timer.not_before = i64::MIN;
        }
        let open = self.open_resets.iter_mut().filter(|(_, (open, _))| *open > 0);
        for (key, (_, bounds)) in open {
            bounds.push(i64::MIN);
            let of_key = self.timers.values_mut().filter(|it| it.key == Some(*key));
            of_key.for_each(|timer| timer.perhaps.push(i64::MIN));
        }
    }

    fn timer(&mut self, tag: Tag) -> Result<&mut Timer, String> {
        self.timers.get_mut(&tag).ok_or_else(|| "nobody asked for this timer".into())
    }

    fn of_key(&mut self, key: u64) -> impl Iterator<Item = &mut Timer> {
        self.timers.values_mut().filter(move |timer| timer.key == Some(key))
    }

    fn cancelled(&mut self, key: u64, answer: Answer) -> Result<(), String> {
        if answer != Answer::Unknown
            && let Some(open) = self.open_cancels.get_mut(&key)
        {
            *open -= 1;
        }
        if answer != Answer::Prevented {
            return Ok(());
        }
        self.summary.prevented += 1;
        let faults = self.faults;
        // Which of them it was is known if there was only one.
        let mut others = self.of_key(key).filter(|timer| !timer.refused && !timer.undone);
        if let (Some(timer), None) = (others.next(), others.next()) {
            if timer.kind == Kind::Once && timer.done && !faults {
                return Err("it was prevented, but had ended well".into());
            }
            timer.prevented = true;
        }
        Ok(())
    }

    fn began(&mut self, tag: Tag, run: Beginning) -> Result<(), String> {
        let Beginning { fence, planned, clock, frozen } = run;
        let (faults, unsteady, frozen_unseen) = (self.faults, self.unsteady, self.standstills);
        self.summary.runs += 1;
        let timer = self.timer(tag)?;
        if timer.refused {
            return Err("a timer that was refused runs".into());
        }
        if timer.undone {
            return Err("it was made after the backup, and runs after the restore".into());
        }
        timer.is_not_early(clock, unsteady)?;
        let newest = timer.fences.last().copied();
        if !timer.fences.insert(fence) {
            return Err("a second run with the same fence".into());
        }
        let stale = newest.is_some_and(|newest| newest > fence);
        if stale && !(frozen || frozen_unseen) {
            return Err("an older fence begins after a newer one".into());
        }
        if stale {
            // A process that was frozen between its look and the start: the fence tells.
            return Ok(());
        }
        if timer.prevented && frozen {
            // Another owner had it meanwhile, and had not begun it when it was cancelled.
            return Ok(());
        }
        if timer.prevented {
            return Err("it was prevented, and begins all the same".into());
        }
        let repeated = timer.repeats(run, faults)?;
        let again = timer.last.is_some_and(|(_, last_planned, _)| last_planned == planned);
        timer.begun = if again { timer.begun + 1 } else { 1 };
        timer.goes_on(planned);
        timer.last = Some((fence, planned, None));
        if repeated && !faults {
            return Err("runs twice, although nothing went wrong".into());
        }
        self.summary.repeated += usize::from(repeated);
        Ok(())
    }

    fn end(self) -> Result<Summary, String> {
        for (tag, timer) in self.timers.iter().filter(|(_, timer)| !timer.undone) {
            let wrong = |what: &str| Err(format!("timer {tag}: {what}: {timer:?}"));
            let over = timer.done || timer.parked || timer.left || timer.ended_by_call;
            let series = matches!(timer.kind, Kind::Delay(_) | Kind::Rate(_) | Kind::Burst(_));
            if timer.accepted && !over && timer.kind != Kind::AtMostOnce {
                return wrong("it was accepted, and is lost");
            }
            if timer.accepted && series && !(timer.left || timer.parked || timer.ended_by_call) {
                return wrong("a series is lost");
            }
            let mut lost = timer.given_up.difference(&timer.parked_runs);
            if let Some(run) = lost.next().filter(|_| !self.unplanned) {
                return wrong(&format!("the run planned for {run} was given up and is not parked"));
            }
            let began = !timer.fences.is_empty();
            if timer.accepted && timer.kind == Kind::AtMostOnce && !began && !self.faults {
                return wrong("nothing went wrong, and it did not run");
            }
        }
        Ok(self.summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_goes_on_without_the_end_of_a_run_only_if_its_process_died_in_it_three_times() {
        for deaths in 1..=DEATHS {
            let mut events = vec![
                Event::Asked {
                    tag: 1,
                    key: None,
                    not_before: 10,
                    kind: Kind::Delay(5),
                    replaces: false,
                },
                Event::Accepted { tag: 1 },
            ];
            let began = |epoch: u32, planned| Event::Began {
                tag: 1,
                fence: i64::from(epoch) << 32,
                planned,
                clock: planned + 1,
                frozen: false,
            };
            for death in 1..=deaths {
                events.extend([began(death, 10), Event::Fault]);
            }
            events.push(began(deaths + 1, 15));
            let left = |parked, planned| Event::Left { tag: 1, parked, planned: Some(planned) };
            let all = [&events[..], &[left(true, 10), left(false, 15)]].concat();
            assert_eq!(check(&all).is_ok(), deaths == DEATHS, "{deaths} deaths");
            let lost = [&events[..], &[left(false, 15)]].concat();
            assert!(check(&lost).is_err(), "that run is not parked");
        }
    }

    /// A timer without a key, and one run of it.
    fn run_of(tag: Tag, kind: Kind, fence: i64, planned: i64) -> [Event; 4] {
        let began = Event::Began { tag, fence, planned, clock: planned, frozen: false };
        let end = Event::Ended { tag, fence, end: End::Done, clock: planned };
        let asked = Event::Asked { tag, key: None, not_before: 0, kind, replaces: false };
        [asked, Event::Accepted { tag }, began, end]
    }

    #[test]
    fn after_a_restore_what_ran_since_the_backup_runs_again_and_what_was_made_since_never() {
        let [asked, accepted, began, ended] = run_of(1, Kind::Once, 1, 10);
        let [later_asked, later_accepted, later_began, _] = run_of(2, Kind::Once, 2, 10);
        let history = |again: &[Event]| {
            let before = [asked, accepted, Event::BackedUp, began, ended, later_asked];
            check(&[&before[..], &[later_accepted, Event::Restored], again].concat())
        };
        let [_, _, again, ended] = run_of(1, Kind::Once, 1 << 40, 10);
        assert!(history(&[again, ended]).is_ok());
        assert!(history(&[]).unwrap_err().contains("lost"));
        assert!(history(&[began, ended]).unwrap_err().contains("same fence"));
        assert!(history(&[again, ended, later_began]).unwrap_err().contains("after the backup"));
    }

    #[test]
    fn no_run_of_a_burst_is_missing_and_none_is_parked_twice() {
        let [asked, accepted, first, done] = run_of(1, Kind::Burst(10), 1, 10);
        let [_, _, third, end] = run_of(1, Kind::Burst(10), 2, 30);
        let left = |planned| Event::Left { tag: 1, parked: true, planned: Some(planned) };
        let history = |left: &[Event]| {
            check(&[&[asked, accepted, first, done, third, end][..], left].concat())
        };
        assert!(history(&[left(20), left(40)]).is_ok());
        assert!(history(&[left(40)]).unwrap_err().contains("planned for 20"));
        assert!(history(&[left(20), left(20), left(40)]).unwrap_err().contains("twice"));
    }
}
