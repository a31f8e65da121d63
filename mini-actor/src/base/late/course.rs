//! What an actor does while a timer's message waits for it.

use std::collections::VecDeque;

use std::time::Duration;

use lars_scheduler::extend::Explained;

use super::{Parts, Piece, Why, between};
use crate::sync::Arc;
use lars_base::time::Instant;

/// How many stretches there are at most. Then the older ones are joined in pairs: of an actor that
/// falls behind, less is told apart, and what it has done is still known.
const MOST: usize = 256;

/// How many latenesses are explained one by one. Then one explanation stands for all of a quarter
/// of the bound, until no message of a timer waits: to find out why takes longer than to receive
/// one, and an actor that is late would never catch up.
const ONE_BY_ONE: u32 = 8;

/// What an actor did up to an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Did {
    Message,
    Hook,
    /// It had something to do, and no thread ran it.
    Waited,
    /// It is not known: it was between two incarnations.
    Unknown,
}

#[derive(Debug)]
enum What {
    /// One of these, from beginning to end.
    One(Did),
    /// No thread ran it; what the thread ran that took it in the end.
    Waited(Vec<Piece>),
    /// Several, one after another.
    Several(Parts),
}

#[derive(Debug)]
struct Stretch {
    from: Instant,
    until: Instant,
    what: What,
    /// Nothing of a timer came in it, so it is never to be divided.
    whole: bool,
}

/// What an actor has done since the first of the messages came that wait. Only its activation
/// writes and reads it, and only while there are any.
///
/// It has two stretches for each time at which some came, and one for each turn: what lies between
/// them is added up. And it has no more than [`MOST`], or so: an explanation looks at all of them.
#[derive(Debug, Default)]
pub(crate) struct Course {
    stretches: VecDeque<Stretch>,
    /// What was before this is forgotten.
    since: Option<Instant>,
    /// How many messages of timers had come when it was last written.
    came: u64,
    /// How many latenesses were explained.
    explained: u32,
    /// The last explanation, and when it was given, once there were enough.
    last: Option<(Instant, Arc<Explained>)>,
}

/// Looks up what the calling thread ran between two instants.
pub(crate) type Here<'a> = &'a dyn Fn(Instant, Instant, &mut Parts);

impl Course {
    pub(crate) fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// Nothing waits.
    pub(crate) fn clear(&mut self, came: u64) {
        if !self.is_empty() || self.explained > 0 {
            *self = Self::default();
        }
        self.came = came;
    }

    /// The explanation that stands for what is late now, if one does.
    pub(crate) fn stands(&self, now: Instant, bound: Duration) -> Option<Arc<Explained>> {
        let (then, last) = self.last.as_ref()?;
        (now.saturating_duration_since(*then) <= bound / 4).then(|| Arc::clone(last))
    }

    /// This was explained now.
    pub(crate) fn was_explained(&mut self, now: Instant, explained: Explained) {
        self.explained += 1;
        if self.explained >= ONE_BY_ONE {
            self.explained = ONE_BY_ONE;
            self.last = Some((now, Arc::new(explained)));
        }
    }

    /// The actor did this until now. `came` messages of timers have come up to now; more is
    /// `signalled` that may be a timer's.
    pub(crate) fn push(&mut self, did: Did, now: Instant, (came, signalled): (u64, bool)) {
        let whole = !signalled && came == self.came && !self.is_empty();
        self.came = came;
        let from = self.stretches.back().map_or(now, |last| last.until);
        self.stretches.push_back(Stretch { from, until: now, what: What::One(did), whole });
        self.add_up_from(self.stretches.len().saturating_sub(2));
        if self.stretches.len() > MOST {
            self.join_older();
        }
    }

    /// Joins the older half in pairs, but for what has not been looked up yet.
    fn join_older(&mut self) {
        for place in 0..MOST / 4 {
            let waits = |it: &Stretch| matches!(it.what, What::One(Did::Waited));
            if !waits(&self.stretches[place]) && !waits(&self.stretches[place + 1]) {
                self.join(place);
            }
        }
    }

    /// The turn ends: what its thread ran before it is about to be out of reach.
    pub(crate) fn end_turn(&mut self, pieces: &dyn Fn() -> Vec<Piece>) {
        let waited = |it: &Stretch| matches!(it.what, What::One(Did::Waited));
        let Some(place) = self.stretches.iter().rposition(waited) else { return };
        let stretch = &mut self.stretches[place];
        let mut pieces = pieces();
        // Of the first one it is not known when it began.
        pieces.retain(|piece| piece.to > stretch.from || stretch.from == stretch.until);
        stretch.what = What::Waited(pieces);
        self.add_up_from(place.saturating_sub(1));
    }

    /// Adds stretches up from here on, where neither of two is to be divided.
    fn add_up_from(&mut self, mut place: usize) {
        while place + 1 < self.stretches.len() {
            if self.can_join(place) {
                self.join(place);
            } else {
                place += 1;
            }
        }
    }

    /// Whether this one and the next can be added up. What the thread ran must have been looked up.
    fn can_join(&self, place: usize) -> bool {
        let ready = |it: &Stretch| it.whole && !matches!(it.what, What::One(Did::Waited));
        ready(&self.stretches[place]) && ready(&self.stretches[place + 1])
    }

    fn join(&mut self, place: usize) {
        let Some(second) = self.stretches.remove(place + 1) else { return };
        let first = &mut self.stretches[place];
        let mut parts = Parts::default();
        for it in [&*first, &second] {
            it.lay((it.from, it.until), false, &|_, _, _| (), &mut parts);
        }
        (first.until, first.what) = (second.until, What::Several(parts));
    }

    /// Says what the actor did from the instant at which a message came until it was received.
    pub(crate) fn explain(&self, from: Instant, to: Instant, here: Here<'_>) -> Parts {
        let mut parts = Parts::default();
        let mut begin = self.since.map_or(from, |since| since.max(from));
        let mut first = begin == from;
        for stretch in &self.stretches {
            if stretch.until <= begin {
                continue;
            }
            if begin >= to {
                break;
            }
            let end = stretch.until.min(to);
            stretch.lay((begin, end), first, here, &mut parts);
            (begin, first) = (end, false);
        }
        parts
    }

    /// A message that came at this instant has been received: those that wait came later.
    pub(crate) fn forget(&mut self, before: Instant) {
        while let Some(oldest) = self.stretches.front().filter(|oldest| oldest.until <= before) {
            self.since = Some(oldest.until);
            self.stretches.pop_front();
        }
    }
}

impl Stretch {
    /// Adds what lies between two instants. `first`: the message came in the midst of it.
    fn lay(&self, (from, to): (Instant, Instant), first: bool, here: Here<'_>, parts: &mut Parts) {
        let time = between(from, to);
        match &self.what {
            What::One(Did::Message) => {
                parts.add(if first { Why::InMessage } else { Why::Before }, time);
            }
            What::One(Did::Hook) => parts.add(Why::InHook, time),
            What::One(Did::Waited) => here(from, to, parts),
            What::One(Did::Unknown) => {}
            What::Waited(pieces) => {
                pieces.iter().filter(|it| it.to > from).for_each(|it| it.lay(from, to, parts));
            }
            // Of those that were joined because there were many, a part is asked for in proportion.
            What::Several(all) => {
                let whole = u128::from(between(self.from, self.until).max(1));
                let part = |its: u64| (u128::from(its) * u128::from(time) / whole) as u64;
                all.0.iter().for_each(|(why, its)| parts.add(*why, part(*its)));
            }
        }
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;
    use crate::base::late::Whose;
    use crate::sync::real_now;
    use lars_scheduler::extend::LatenessRecorder;
    use lars_scheduler::late::Who;
    use std::time::Duration;

    /// Instants in nanoseconds.
    struct Clock(Instant);

    impl Clock {
        fn at(&self, nanos: u64) -> Instant {
            self.0 + Duration::from_nanos(nanos)
        }

        /// Another actor had the thread in this time.
        fn other(&self, from: u64, to: u64) -> Piece {
            Piece::new(Whose::Turn(7, || "u32"), self.at(from), self.at(to))
        }

        /// The parts of what lies between two instants, by the first letter of each.
        fn explain(&self, course: &Course, from: u64, to: u64) -> Vec<(char, u64)> {
            let here = |from, to, parts: &mut Parts| self.other(0, 1_000).lay(from, to, parts);
            let parts = course.explain(self.at(from), self.at(to), &here);
            let letter = |why: &Why| match why {
                Why::InMessage => 'm',
                Why::InHook => 'h',
                Why::Before => 'b',
                Why::Thread(_) => 't',
            };
            parts.0.iter().map(|(why, time)| (letter(why), *time)).collect()
        }
    }

    #[test]
    fn of_many_that_are_late_one_stands_for_a_quarter_of_the_bound_until_none_waits() {
        let clock = Clock(real_now());
        let bound = Duration::from_nanos(400);
        let recorder = LatenessRecorder::new(bound, |_| ());
        let mut course = Course::default();
        let explain = |course: &mut Course, now| {
            let late = Duration::from_nanos(500);
            let explained = recorder.record(Who::Named("it".into()), late, []);
            course.was_explained(clock.at(now), explained);
        };
        for now in 1..u64::from(ONE_BY_ONE) {
            explain(&mut course, now);
            assert!(course.stands(clock.at(now), bound).is_none(), "{now}: one by one");
        }
        explain(&mut course, 10);
        let stands = |course: &Course, now| course.stands(clock.at(now), bound).is_some();
        assert!(stands(&course, 10) && stands(&course, 110) && !stands(&course, 111));
        explain(&mut course, 120);
        assert!(stands(&course, 220));
        course.clear(0);
        assert!(!stands(&course, 120));
    }

    #[test]
    fn the_message_in_which_the_actor_was_is_told_apart_from_those_that_stood_before() {
        let clock = Clock(real_now());
        let mut course = Course::default();
        for (until, came) in [(100, 1), (150, 1), (190, 1), (300, 2), (310, 2)] {
            course.push(Did::Message, clock.at(until), (came, false));
        }
        assert_eq!(course.stretches.len(), 4, "two for each time at which some came");
        assert_eq!(clock.explain(&course, 20, 310), [('m', 80), ('b', 210)]);
        assert_eq!(clock.explain(&course, 200, 310), [('m', 100), ('b', 10)]);
        assert_eq!(clock.explain(&course, 200, 250), [('m', 50)]);
        // The first has been received, and what it needed is forgotten.
        course.forget(clock.at(200));
        assert_eq!(clock.explain(&course, 200, 310), [('m', 100), ('b', 10)]);
        assert_eq!(clock.explain(&course, 20, 310), [('b', 120)], "no guess");
        course.clear(2);
        assert!(course.is_empty() && clock.explain(&course, 20, 310).is_empty());
    }

    #[test]
    fn turns_in_between_are_looked_up_before_they_are_out_of_reach_and_added_up() {
        let clock = Clock(real_now());
        let mut course = Course::default();
        // It waits for the thread, has a message, and so on; in a hundred turns.
        let mut now = 100;
        for turn in 0..100 {
            course.push(Did::Waited, clock.at(now), (1, false));
            course.push(Did::Message, clock.at(now + 10), (1, false));
            course.push(Did::Hook, clock.at(now + 13), (1, false));
            let pieces = || vec![clock.other(now - 90, now - 80), clock.other(now - 40, now)];
            course.end_turn(&pieces);
            now += 100;
            assert!(course.stretches.len() <= 3, "{turn}: {course:?}");
        }
        let mut parts = clock.explain(&course, 50, now - 87);
        parts.sort_unstable();
        // Of each wait but the first, 40 are not known. The first is seen from its middle on.
        assert_eq!(parts, [('b', 1_000), ('h', 300), ('t', 40 + 99 * 47)]);
    }

    #[test]
    fn an_actor_that_falls_behind_remembers_less_exactly_and_never_more_than_so_much() {
        let clock = Clock(real_now());
        let mut course = Course::default();
        course.push(Did::Message, clock.at(0), (0, false));
        // Each time another message has come, and none is ever received.
        for number in 1..=10_000 {
            course.push(Did::Message, clock.at(10 * number), (number, false));
            assert!(course.stretches.len() <= MOST + 1, "{}", course.stretches.len());
        }
        let parts = clock.explain(&course, 0, 100_000);
        let all: u64 = parts.iter().map(|(_, time)| time).sum();
        assert!(parts.iter().all(|(why, _)| matches!(why, 'm' | 'b')), "{parts:?}");
        assert_eq!(all, 100_000);
        // Part of what was joined, too.
        let half: u64 = clock.explain(&course, 0, 50_005).iter().map(|(_, time)| time).sum();
        assert!((50_000..=50_005).contains(&half), "{half}");
    }

    #[test]
    fn what_was_done_between_two_incarnations_is_not_known() {
        let clock = Clock(real_now());
        let mut course = Course::default();
        course.push(Did::Unknown, clock.at(100), (1, false));
        course.push(Did::Hook, clock.at(150), (1, false));
        assert_eq!(clock.explain(&course, 50, 160), [('h', 50)]);
    }
}
