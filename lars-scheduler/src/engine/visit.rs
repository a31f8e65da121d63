//! The driver's visits to lanes: which of them it wants to enter, and which it has.
//!
//! In a turn the driver first knocks at all gates that it wants, and one heavy fence serves them
//! all. If an owner is inside, the visitor's flag stays set, and the driver looks again in the next
//! turn. Meanwhile the owner goes through the intake, so the gate is free as soon as the owner gets
//! to run.

use std::ptr;

use crate::base::tick::{NEVER, Tick};
use crate::engine::due::DueList;
use crate::engine::entry::Entry;
use crate::engine::lane::{Lane, LaneWheel};
use crate::engine::lanes::Lanes;
use crate::engine::place::{Drained, unlink_cancelled};
use crate::engine::wheel::{Detaching, Wheel};
use crate::sync::{CHECKED, heavy_fence, relax};

/// How often a gate is checked before its lane is left for the next turn. A running owner is inside
/// for some twenty nanoseconds.
const PATIENCE: u32 = if CHECKED { 1 } else { 32 };

/// How many entries the driver takes out of a lane's intake in one visit. The owner, which comes a
/// hundred times as often, places the rest: if the driver stayed until the intake is empty, it
/// would keep the owner outside, and the owner would go on filling the intake.
pub(crate) const TAKE_OVER: usize = if CHECKED { 2 } else { 256 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not wanted.
    Outside,
    Wanted,
    /// The flag is set, and the fence done or to be done.
    Knocked,
    Inside,
}

#[derive(Debug)]
struct Visit {
    wheel: *const LaneWheel,
    stage: Stage,
    /// Whether the last visit drained the intake.
    drained: bool,
    /// Up to which tick the wheel may be moved on, because all that is due by then is in it:
    /// [`NEVER`] if the intake was drained.
    ready_to: u64,
    /// Inside: whether there are cancelled entries that the driver has to collect.
    uncollected: bool,
    /// Inside: the next tick for which there is something to do.
    next: u64,
    /// What the owner had to collect when the driver looked last; see `LaneWheel::uncollected`.
    uncollected_then: Option<u64>,
    /// Since which instant the lane has been waiting to be entered or drained; [`NEVER`] if it is
    /// not.
    waits_since: u64,
    /// Since which instant its gate has been found shut; [`NEVER`] if it has not.
    shut_since: u64,
}

impl Visit {
    fn wheel(&self) -> &LaneWheel {
        // SAFETY: the pointer came from a list of wheels, which live as long as the core. The
        // driver, which has the visits, has a share of the core.
        unsafe { &*self.wheel }
    }

    fn lane(&self) -> &Lane {
        self.wheel().lane()
    }

    fn end_detach(&mut self, detaching: &mut Detaching, due: &mut DueList) {
        debug_assert!(self.is_ready());
        // SAFETY: inside the gate.
        self.next = unsafe {
            self.wheel().with(|wheel| {
                wheel.end_detach(detaching, due);
                next_tick(wheel)
            })
        };
    }

    /// Whether the wheel may be used. What it has to do by `ready_to`, that is.
    fn is_ready(&self) -> bool {
        self.stage == Stage::Inside && self.next <= self.ready_to
    }
}

/// All lanes that have a wheel, from the oldest on.
#[derive(Debug)]
pub(crate) struct Visits {
    visits: Vec<Visit>,
    newest: *const LaneWheel,
    /// Whether the last heavy fence failed, so that one is still needed.
    fence_owed: bool,
    /// Whether an intake was not drained to its end.
    has_rest: bool,
    /// Whether that was because a visit takes only so much.
    has_more: bool,
    /// How many entries were taken in since this was taken.
    pub(crate) taken_in: u64,
    /// The lists from which entries are being detached, with the numbers of their visits. Empty
    /// between calls.
    detaching: Vec<(usize, Detaching)>,
    /// Lanes that were entered after their gates had been found shut: since when, and the numbers
    /// of their visits. Until this is taken.
    pub(crate) opened: Vec<(u64, usize)>,
}

impl Visits {
    pub(crate) fn new() -> Self {
        Self {
            visits: Vec::new(),
            newest: ptr::null(),
            fence_owed: false,
            has_rest: false,
            has_more: false,
            taken_in: 0,
            detaching: Vec::new(),
            opened: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.visits.len()
    }

    pub(crate) fn wheel(&self, number: usize) -> &LaneWheel {
        self.visits[number].wheel()
    }

    /// Adds wheels that were made since the last call.
    pub(crate) fn update(&mut self, lanes: &Lanes) {
        let newest = lanes.newest_wheel();
        if newest == self.newest {
            return;
        }
        let known = self.visits.len();
        let mut wheel = newest;
        while wheel != self.newest {
            self.visits.push(Visit {
                wheel,
                stage: Stage::Outside,
                drained: true,
                ready_to: 0,
                uncollected: false,
                next: NEVER,
                uncollected_then: None,
                waits_since: NEVER,
                shut_since: NEVER,
            });
            // SAFETY: `wheel` is one of the list of wheels, which live as long as the core.
            wheel = unsafe { (*wheel).older };
        }
        self.visits[known..].reverse();
        self.newest = newest;
    }

    /// The earliest tick by which a lane wants to be visited.
    pub(crate) fn earliest(&self) -> u64 {
        self.visits.iter().map(|visit| visit.lane().earliest()).min().unwrap_or(NEVER)
    }

    /// The visit to a lane. Its wheel may be newer than the last [`update`](Self::update).
    fn to(&mut self, lane: &Lane) -> Option<&mut Visit> {
        self.visits.get_mut(lane.wheel()?.number)
    }

    pub(crate) fn want(&mut self, lane: &Lane) {
        if let Some(visit) = self.to(lane) {
            visit.want();
        }
    }

    pub(crate) fn want_those_due_by(&mut self, tick: u64) {
        for visit in &mut self.visits {
            if visit.stage == Stage::Outside && visit.lane().earliest() <= tick {
                visit.want();
            }
        }
    }

    /// Takes over what is cancelled in lanes whose owners are still at the same chain as at the
    /// last call: they schedule too little to collect it in time.
    pub(crate) fn relieve_owners(&mut self) {
        for visit in &mut self.visits {
            let uncollected = visit.wheel().uncollected();
            if uncollected.is_some() && uncollected == visit.uncollected_then {
                visit.wheel().ask_to_collect();
            }
            visit.uncollected_then = uncollected;
        }
    }

    /// Whether there is a lane whose owner has something to collect.
    pub(crate) fn have_uncollected(&self) -> bool {
        self.visits.iter().any(|visit| visit.wheel().uncollected().is_some())
    }

    /// Whether an owner is placing a batch.
    pub(crate) fn have_batch(&self) -> bool {
        self.visits.iter().any(|visit| visit.wheel().has_batch())
    }

    pub(crate) fn want_all(&mut self) {
        self.visits.iter_mut().for_each(Visit::want);
    }

    /// Enters the wanted lanes whose owners are not inside.
    pub(crate) fn enter(&mut self) {
        let mut knocked = self.fence_owed;
        for visit in &mut self.visits {
            if visit.stage == Stage::Wanted {
                visit.lane().gate().knock();
                visit.stage = Stage::Knocked;
                knocked = true;
            }
        }
        if knocked {
            self.fence_owed = !heavy_fence();
        }
        if self.fence_owed {
            return;
        }
        for visit in &mut self.visits {
            if visit.stage == Stage::Knocked {
                let gate = visit.lane().gate();
                let mut spins = 0;
                while !gate.is_free() && spins < PATIENCE {
                    relax(spins);
                    spins += 1;
                }
                if gate.is_free() {
                    visit.stage = Stage::Inside;
                }
            }
        }
    }

    /// Whether there is a lane that is wanted and could not be entered, or whose intake was not
    /// drained to its end.
    pub(crate) fn is_waiting(&self) -> bool {
        self.has_rest || self.visits.iter().any(|visit| visit.stage == Stage::Knocked)
    }

    /// Whether there is a lane whose intake has more than a visit takes.
    pub(crate) fn have_more(&self) -> bool {
        self.has_more
    }

    /// Since which instant the lane that has waited longest has been waiting to be entered or
    /// drained; [`NEVER`] if no lane is waiting at `now`.
    pub(crate) fn waiting_since(&mut self, now: u64) -> u64 {
        let since = self.visits.iter_mut().map(|visit| {
            if visit.stage == Stage::Knocked {
                visit.shut_since = visit.shut_since.min(now);
            }
            let waits = visit.stage == Stage::Knocked || !visit.drained;
            visit.waits_since = if waits { visit.waits_since.min(now) } else { NEVER };
            visit.waits_since
        });
        since.min().unwrap_or(NEVER)
    }

    /// Drains the intakes of the lanes that were entered, to the end or to a mark: then they are
    /// ready up to the tick of the instant when the mark was taken. (What was pushed after that is
    /// due later, does not wait for a tick, or has come due during the call.) Where the owner does
    /// not come, collects cancelled entries. Takes in and collects up to so many in each lane. The
    /// clock showed `now` before this.
    pub(crate) fn begin(
        &mut self,
        (now, tick): (u64, Tick),
        (take_in, collect_at_most): (usize, usize),
        mut free: impl FnMut(*mut Entry),
    ) {
        (self.has_rest, self.has_more) = (false, false);
        for (number, visit) in self.visits.iter_mut().enumerate() {
            if visit.stage != Stage::Inside {
                continue;
            }
            visit.lane().begin_visit();
            if visit.shut_since != NEVER {
                self.opened.push((visit.shut_since, number));
                visit.shut_since = NEVER;
            }
            // SAFETY: the visit is `Inside`: the driver has the gate until `leave`, and `free` does
            // not ask for the wheel.
            let (came, next) = unsafe {
                visit.wheel().with(|wheel| {
                    let lane = visit.wheel();
                    let came = lane.take_in(wheel, now, take_in, &mut free);
                    if lane.is_abandoned() {
                        collect(lane, wheel, collect_at_most, &mut free);
                    }
                    (came, next_tick(wheel))
                })
            };
            self.taken_in += came.entries;
            visit.drained = came.drained == Drained::All;
            let ready_to = if visit.drained { NEVER } else { tick.reached_by(came.ready) };
            if visit.ready_to < ready_to {
                // It gets on, so it does not wait.
                visit.waits_since = NEVER;
            }
            visit.ready_to = ready_to;
            self.has_more |= came.drained == Drained::More;
            visit.uncollected = visit.wheel().is_abandoned();
            visit.next = next;
            self.has_rest |= !visit.drained;
        }
    }

    /// The first tick for which there is something to do in the lanes that were entered.
    pub(crate) fn first(&self) -> u64 {
        self.visits
            .iter()
            .filter(|visit| visit.is_ready())
            .map(|visit| visit.next)
            .min()
            .unwrap_or(NEVER)
    }

    /// Calls `f`, which advances a wheel, with each wheel that has something to do up to `tick`.
    /// Ends, and returns false, as soon as `f` returns false.
    pub(crate) fn advance(&mut self, tick: u64, mut f: impl FnMut(&mut Wheel) -> bool) -> bool {
        for visit in self.visits.iter_mut().filter(|visit| visit.is_ready() && visit.next <= tick) {
            // SAFETY: the visit is `Inside`: the driver has the gate until `leave`, and `f` has no
            // way to ask for the wheel.
            let (go_on, next) = unsafe { visit.wheel().with(|wheel| (f(wheel), next_tick(wheel))) };
            visit.next = next;
            if !go_on {
                return false;
            }
        }
        true
    }

    /// Moves due entries to the driver's list, until that list has `full` of them.
    ///
    /// Round robin, one entry from each wheel: one list can be followed only as fast as its entries
    /// come from memory, but the fetches of several lists overlap.
    pub(crate) fn detach_due(&mut self, due: &mut DueList, full: usize) {
        let Self { visits, detaching, .. } = self;
        for (number, visit) in visits.iter().enumerate() {
            if visit.is_ready() && visit.next == 0 {
                // SAFETY: inside the gate.
                let begun = unsafe { visit.wheel().with(|wheel| wheel.begin_detach_due()) };
                detaching.push((number, begun));
            }
        }
        let mut left = full.saturating_sub(due.len());
        while left > 0 && !detaching.is_empty() {
            detaching.retain_mut(|(number, detaching)| {
                if left == 0 {
                    return true;
                }
                left -= 1;
                let visit = &mut visits[*number];
                // SAFETY: inside the gate.
                let more = unsafe { visit.wheel().with(|wheel| wheel.detach_next(detaching)) };
                if !more {
                    visit.end_detach(detaching, due);
                }
                more
            });
        }
        for (number, mut detaching) in detaching.drain(..) {
            visits[number].end_detach(&mut detaching, due);
        }
    }

    /// Calls `f` with each wheel that was entered, and with the tick up to which it may be moved
    /// on.
    pub(crate) fn each(&mut self, mut f: impl FnMut(&mut Wheel, u64)) {
        for visit in self.visits.iter_mut().filter(|visit| visit.stage == Stage::Inside) {
            let ready_to = visit.ready_to;
            // SAFETY: the visit is `Inside`: the driver has the gate until `leave`, and `f` has no
            // way to ask for the wheel.
            visit.next = unsafe {
                visit.wheel().with(|wheel| {
                    f(wheel, ready_to);
                    next_tick(wheel)
                })
            };
        }
    }

    /// Calls `f` with the wheel of a lane, if it was entered, to take something out. Says whether
    /// it was. (The lane may then name too early a tick for its next visit. That costs one needless
    /// look.)
    pub(crate) fn inside(&mut self, lane: &Lane, f: impl FnOnce(&mut Wheel)) -> bool {
        let visit = self.to(lane).filter(|visit| visit.stage == Stage::Inside);
        let Some(visit) = visit else { return false };
        // SAFETY: the visit is `Inside`: the driver has the gate until `leave`, and `f` has no way
        // to ask for the wheel.
        unsafe { visit.wheel().with(f) };
        true
    }

    /// Leaves all lanes that were entered.
    pub(crate) fn leave(&mut self) {
        for visit in self.visits.iter_mut().filter(|visit| visit.stage == Stage::Inside) {
            // If something could not be drained or detached, look again at once.
            // SAFETY: the visit is `Inside`: the driver has the gate until `leave`.
            let left = unsafe { visit.wheel().with(|wheel| wheel.has_any_due()) };
            let done = visit.drained && !visit.uncollected && !left;
            let next = if done { visit.next } else { 0 };
            visit.lane().ask_for_visit(next);
            visit.lane().gate().open();
            visit.stage = Stage::Outside;
        }
    }
}

/// Collects up to `most` entries of a lane that were cancelled.
///
/// # Safety
///
/// The caller is the driver, and behind the gate of the lane, whose wheel this is.
unsafe fn collect(
    lane: &LaneWheel,
    wheel: &mut Wheel,
    most: usize,
    free: &mut impl FnMut(*mut Entry),
) {
    debug_assert!(CHECKED || lane.lane().gate().has_visitor(), "the driver is outside");
    for _ in 0..most {
        // SAFETY: the driver, the caller, is behind the gate.
        let Some(entry) = (unsafe { lane.next_cancelled() }) else {
            return lane.set_collected();
        };
        // SAFETY: its canceller has pushed the entry, and is done with it. The entry belongs to
        // this lane, and the driver holds the wheel.
        unsafe { unlink_cancelled(entry, wheel, &mut *free) };
    }
}

/// The next tick for which there is something to do in a wheel; 0 if entries are left of a tick
/// that has been reached.
pub(crate) fn next_tick(wheel: &mut Wheel) -> u64 {
    if wheel.has_due() { 0 } else { wheel.next_tick().unwrap_or(NEVER) }
}

impl Visit {
    fn want(&mut self) {
        if self.stage == Stage::Outside {
            self.stage = Stage::Wanted;
        }
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicPtr;

    use super::*;
    use crate::base::identity::Label;
    use crate::base::raw_task::RawTask;
    use crate::engine::entry::state::Flags;
    use crate::engine::lanes::{LaneSettings, MOST_WHEELS};
    use crate::engine::pace::ENDLESS;
    use crate::engine::wheel::Advance;

    fn lanes() -> Lanes {
        let tick = Tick::new(Tick::MIN).unwrap();
        let settings = LaneSettings {
            channels: 1,
            wheel_after: Some(0),
            most_wheels: MOST_WHEELS,
            tick,
            wheel_size: 2,
        };
        Lanes::new(settings, ENDLESS)
    }

    fn at(now: u64) -> (u64, Tick) {
        (now, Tick::new(Tick::MIN).unwrap())
    }

    #[test]
    fn a_lane_whose_owner_is_inside_waits_from_the_first_attempt_to_enter_it() {
        let lanes = lanes();
        let own = lanes.of_this_thread();
        let _ = lanes.wheel_of(own, 0);
        let mut visits = Visits::new();
        visits.update(&lanes);
        assert_eq!(visits.waiting_since(5), NEVER);
        assert!(own.lane.gate().enter());
        visits.want_all();
        for now in [6, 7] {
            visits.enter();
            assert_eq!(visits.waiting_since(now), 6);
        }
        own.lane.gate().leave();
        visits.enter();
        visits.begin(at(8), (TAKE_OVER, 0), |_| unreachable!("nothing is freed"));
        visits.leave();
        assert_eq!(visits.waiting_since(8), NEVER);
    }

    /// Pushes so many new entries into the intake of this thread's lane, and adds them to a list.
    fn push(lanes: &Lanes, many: usize, entries: &mut Vec<AtomicPtr<Entry>>) {
        let own = lanes.of_this_thread();
        let wheel = lanes.wheel_of(own, 0).unwrap();
        entries.extend((0..many).map(|_| {
            let entry = Box::into_raw(Box::new(Entry::free(own.lane.number())));
            // SAFETY: the entry is new, and nobody else has seen it before the push.
            unsafe {
                (*entry).fill(1_000, |task| RawTask::write(task, || (), Label::default()));
                (*entry).state.publish(own.lane.number(), Flags::default().local(true));
                wheel.intake.push(entry);
            }
            AtomicPtr::new(entry)
        }));
    }

    /// To be called with all that was pushed.
    fn free(lanes: Lanes, entries: Vec<AtomicPtr<Entry>>) {
        drop(lanes);
        for entry in entries {
            // SAFETY: made by `push`, and nobody has it any more. The task owns nothing.
            drop(unsafe { Box::from_raw(entry.into_inner()) });
        }
    }

    /// Visits all lanes. Returns since when one has been waiting.
    fn visit_all(visits: &mut Visits, now: u64) -> u64 {
        visits.want_all();
        visits.enter();
        visits.begin(at(now), (TAKE_OVER, 0), |_| unreachable!("nothing is freed"));
        visits.leave();
        visits.waiting_since(now)
    }

    #[test]
    fn a_lane_waits_until_its_intake_has_been_drained() {
        let (lanes, mut entries) = (lanes(), Vec::new());
        push(&lanes, TAKE_OVER + 1, &mut entries);
        let mut visits = Visits::new();
        visits.update(&lanes);
        assert_eq!(visit_all(&mut visits, 6), 6);
        assert!(visits.is_waiting() && visits.have_more());
        assert_eq!(visits.taken_in, TAKE_OVER as u64);
        assert_eq!(visit_all(&mut visits, 7), NEVER);
        assert!(!visits.is_waiting() && !visits.have_more());
        assert_eq!(visits.taken_in, TAKE_OVER as u64 + 1);
        free(lanes, entries);
    }

    #[test]
    fn one_lane_that_has_more_is_waited_for_although_the_last_one_has_been_drained() {
        let (lanes, mut entries) = (lanes(), Vec::new());
        push(&lanes, TAKE_OVER + 1, &mut entries);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(lanes.wheel_of(lanes.of_this_thread(), 0).is_some()));
        });
        let mut visits = Visits::new();
        visits.update(&lanes);
        let _ = visit_all(&mut visits, 6);
        assert!(visits.len() == 2 && visits.is_waiting() && visits.have_more());
        free(lanes, entries);
    }

    #[test]
    fn a_lane_that_gets_on_has_not_waited_since_before_it_did() {
        let (lanes, mut entries) = (lanes(), Vec::new());
        push(&lanes, TAKE_OVER + TAKE_OVER / 2, &mut entries);
        let mut visits = Visits::new();
        visits.update(&lanes);
        assert_eq!(visit_all(&mut visits, 6), 6);
        push(&lanes, 3 * TAKE_OVER, &mut entries);
        assert_eq!(visit_all(&mut visits, 7), 7, "all is in that was there at 6");
        assert_eq!(visit_all(&mut visits, 8), 7, "of what was there at 7, not all is in");
        free(lanes, entries);
    }

    #[test]
    fn due_entries_are_detached_once_each_and_as_many_as_there_is_room_for() {
        let (lanes, mut entries) = (lanes(), Vec::new());
        push(&lanes, 2, &mut entries);
        std::thread::scope(|scope| drop(scope.spawn(|| push(&lanes, 2, &mut entries))));
        let mut visits = Visits::new();
        visits.update(&lanes);
        visits.want_all();
        visits.enter();
        visits.begin(at(2_000), (TAKE_OVER, 0), |_| unreachable!("nothing is freed"));
        let reached = |wheel: &mut Wheel| wheel.advance(2_000, &mut 100) == Advance::Due;
        assert!(visits.advance(2_000, reached));
        let mut due = DueList::new();
        for (full, detached) in [(1, 1), (3, 3), (100, 4)] {
            visits.detach_due(&mut due, full);
            assert_eq!(due.len(), detached);
        }
        let mut popped: Vec<_> = std::iter::from_fn(|| due.pop()).collect();
        let mut pushed: Vec<_> = entries.iter_mut().map(|entry| *entry.get_mut()).collect();
        popped.sort_unstable();
        pushed.sort_unstable();
        assert_eq!(popped, pushed);
        visits.leave();
        free(lanes, entries);
    }

    #[test]
    fn wheels_that_are_made_between_two_looks_are_visited_by_their_numbers() {
        let (lanes, all_there) = (lanes(), Barrier::new(3));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    assert!(lanes.wheel_of(lanes.of_this_thread(), 0).is_some());
                    // Alive together, so that each has a lane of its own.
                    all_there.wait();
                });
            }
        });
        let mut visits = Visits::new();
        visits.update(&lanes);
        let numbers: Vec<_> = (0..visits.len()).map(|number| visits.wheel(number).number).collect();
        assert_eq!(numbers, [0, 1, 2]);
    }
}
