//! Which messages take too long, from few readings of the clock.

use std::cell::{Cell, OnceCell};
use std::time::Duration;

use crate::base::lineage::Lineage;
use crate::sync::{Weak, real_now};
use lars_base::time::Instant;

/// One reading stands for at most this many calls of actors. At 25 ns a reading, a call pays
/// 0.8 ns.
const STRIDE: u32 = 32;
/// How many turns are noted between two readings.
const NOTED: usize = STRIDE as usize;
/// If the last reading is longer ago than this, the next one comes after a single call: compared
/// with such calls a reading costs nothing.
const LONG: Duration = Duration::from_micros(10);
/// For this many readings after a report, each stands for a single call.
const CAREFUL: u32 = 1_000;

/// A turn of an actor, or the part of one that lies between two readings.
#[derive(Clone, Copy)]
pub(crate) struct Note {
    /// The number of the actor. (Its path would cost two atomic operations on a line of memory that
    /// a turn does not touch otherwise.)
    pub(crate) actor: u64,
    pub(crate) message_type: fn() -> &'static str,
    /// How many messages it received; other calls of the actor count as well.
    pub(crate) calls: u32,
}

/// Gets the reports of what took too long.
pub(crate) trait Reports: Send + Sync {
    /// These turns, at least one, took this long together. `last` is where the last one's actor
    /// stands, if that is at hand.
    fn slow(&self, took: Duration, turns: &[Note], last: Option<&Lineage>);
}

/// What a worker knows of the time. It is the worker's own, and never borrowed while foreign code
/// runs.
///
/// Between two readings turns are only noted, and a turn counts its calls in a register. The clock
/// is read after enough of them, and before the worker does anything else, such as sleep. So
/// whatever takes long is seen before the worker sleeps.
pub(crate) struct Watch {
    /// What is too long, and where to report it. Known from the first turn on.
    reports: OnceCell<(Duration, Weak<dyn Reports>)>,
    /// The last reading.
    now: Cell<Instant>,
    /// How many more calls it stands for.
    left: Cell<u32>,
    /// How many calls it stands for in all: twice as many as the reading before it while calls are
    /// fast, one after a slow call.
    stride: Cell<u32>,
    /// How many of the next readings stand for a single call, however fast that is.
    careful: Cell<u32>,
    /// What has begun since the last reading: the first `noted` of them.
    turns: [Cell<Note>; NOTED],
    noted: Cell<usize>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        const NONE: Note = Note { actor: 0, message_type: || "", calls: 0 };
        Self {
            reports: OnceCell::new(),
            now: Cell::new(real_now()),
            left: Cell::new(0),
            stride: Cell::new(1),
            careful: Cell::new(0),
            turns: [const { Cell::new(NONE) }; NOTED],
            noted: Cell::new(0),
        }
    }

    /// A turn begins, and counts as one of a single call, as most are. Such a turn needs no
    /// [end](Self::end). Returns after how many calls the clock has to be [read](Self::look).
    #[inline]
    pub(crate) fn begin(
        &self,
        turn: Note,
        reports: impl FnOnce() -> (Duration, Weak<dyn Reports>),
    ) -> u32 {
        self.reports.get_or_init(reports);
        // A turn in which nothing is called uses up no call.
        if self.left.get() == 0 || self.noted.get() == NOTED {
            self.read(real_now(), None);
        }
        self.note(Note { calls: 1, ..turn });
        let left = self.left.get();
        self.left.set(left - 1);
        left
    }

    #[inline]
    fn note(&self, turn: Note) {
        let noted = self.noted.get();
        self.turns[noted % NOTED].set(turn);
        self.noted.set(noted + 1);
    }

    /// The current turn, of an actor that stands there, has made `calls` calls more than it counts,
    /// and goes on. Returns what [`begin`](Self::begin) does; from here on the turn counts no call.
    pub(crate) fn look(&self, now: Instant, calls: u32, lineage: &Lineage) -> u32 {
        let turn = self.count(calls);
        self.read(now, Some(lineage));
        self.note(Note { calls: 0, ..turn });
        self.left.get()
    }

    /// The turn ends, `calls` calls after the last that it counts, and `left` calls before the
    /// clock was to be read. (One call less wraps around.)
    #[inline]
    pub(crate) fn end(&self, calls: u32, left: u32) {
        self.count(calls);
        self.left.set(left);
    }

    #[inline]
    fn count(&self, calls: u32) -> Note {
        let current = &self.turns[self.noted.get().wrapping_sub(1) % NOTED];
        let mut turn = current.get();
        turn.calls = turn.calls.wrapping_add(calls);
        current.set(turn);
        turn
    }

    /// From now on this thread does something else.
    #[inline]
    pub(crate) fn pause(&self) {
        if self.noted.get() > 0 {
            self.read(real_now(), None);
        }
        self.left.set(0);
    }

    /// This time does not count for the current call.
    pub(crate) fn forgive(&self, time: Duration) {
        self.now.set(self.now.get() + time);
    }

    /// What has begun since the last reading was over by `now`.
    fn read(&self, now: Instant, last: Option<&Lineage>) {
        let took = now.saturating_duration_since(self.now.replace(now));
        let noted = self.noted.replace(0).min(NOTED);
        let careful = self.careful.get();
        self.careful.set(careful.saturating_sub(1));
        let stride =
            if took > LONG || careful > 0 { 1 } else { (2 * self.stride.get()).min(STRIDE) };
        self.stride.set(stride);
        self.left.set(stride);
        if let Some((limit, reports)) = self.reports.get()
            && noted > 0
            && took > *limit
        {
            self.careful.set(CAREFUL);
            self.report(took, noted, reports, last);
        }
    }

    #[cold]
    fn report(
        &self,
        took: Duration,
        noted: usize,
        reports: &Weak<dyn Reports>,
        last: Option<&Lineage>,
    ) {
        let turns: Vec<Note> = self.turns[..noted].iter().map(Cell::get).collect();
        if let Some(reports) = reports.upgrade() {
            reports.slow(took, &turns, last);
        }
        // The time of the report itself counts for no actor.
        self.now.set(real_now());
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;
    use crate::base::name::Name;
    use crate::sync::{Arc, Mutex};

    /// Keeps the actors in question, with the calls of each.
    #[derive(Default)]
    struct Kept(Mutex<Vec<Vec<(u64, u32)>>>);

    impl Reports for Kept {
        fn slow(&self, _: Duration, turns: &[Note], _: Option<&Lineage>) {
            self.0.lock().push(turns.iter().map(|turn| (turn.actor, turn.calls)).collect());
        }
    }

    struct Set {
        watch: Watch,
        kept: Arc<Kept>,
        limit: Duration,
    }

    impl Set {
        fn new() -> Self {
            Self { watch: Watch::new(), kept: Arc::default(), limit: LIMIT }
        }

        /// One whose readings stand for as many calls as they may.
        fn fast() -> Self {
            let set = Self::new();
            for _ in 0..8 {
                set.later(Duration::ZERO);
            }
            assert_eq!(set.watch.left.get(), STRIDE);
            set
        }

        /// A turn of so many calls, each of which takes no time, according to a clock that stands.
        fn turn(&self, actor: u64, calls: u32) {
            let now = self.watch.now.get();
            let kept: Arc<dyn Reports> = Arc::clone(&self.kept) as _;
            let reports = || (self.limit, Arc::downgrade(&kept));
            let note = Note { actor, message_type: || "u32", calls: 0 };
            let mut left = self.watch.begin(note, reports);
            // Whatever the real clock said.
            self.watch.now.set(now);
            let mut more = 0_u32.wrapping_sub(1);
            for _ in 0..calls {
                if left == 0 {
                    left = self.watch.look(now, more, &Lineage::new(Name::Given("actor"), None));
                    more = 0;
                }
                left -= 1;
                more = more.wrapping_add(1);
            }
            if more != 0 {
                self.watch.end(more, left);
            }
        }

        /// Reads the clock so much later.
        fn later(&self, time: Duration) {
            self.watch.read(self.watch.now.get() + time, None);
        }

        fn reports(&self) -> Vec<Vec<(u64, u32)>> {
            std::mem::take(&mut self.kept.0.lock())
        }
    }

    const LIMIT: Duration = Duration::from_secs(1);

    #[test]
    fn what_ran_alone_is_named_alone_and_what_ran_together_with_its_calls() {
        let set = Set::new();
        set.turn(7, 1);
        set.later(LIMIT);
        assert!(set.reports().is_empty(), "no longer than the limit");
        set.turn(7, 1);
        set.later(2 * LIMIT);
        assert_eq!(set.reports(), [[(7, 1)]]);
        set.later(2 * LIMIT);
        assert!(set.reports().is_empty(), "nothing ran");
        let set = Set::fast();
        set.turn(7, 3);
        set.turn(8, 2);
        set.later(2 * LIMIT);
        assert_eq!(set.reports(), [[(7, 3), (8, 2)]]);
        assert_eq!(set.watch.left.get(), 1, "the next one is alone");
        set.turn(9, 1);
        assert_eq!(set.watch.left.get(), 0, "the next one is as well");
    }

    #[test]
    fn a_turn_that_goes_on_after_a_reading_is_named_with_its_calls_since_then() {
        let set = Set::fast();
        set.turn(7, STRIDE + 8);
        set.later(2 * LIMIT);
        assert_eq!(set.reports(), [[(7, 8)]]);
    }

    #[test]
    fn readings_stand_for_more_calls_while_those_are_fast_and_not_soon_after_a_slow_one() {
        let (set, left) = (Set::new(), |set: &Set| set.watch.left.get());
        set.later(LONG);
        assert_eq!(left(&set), 2);
        set.later(LONG);
        assert_eq!(left(&set), 4);
        set.later(LONG + Duration::from_nanos(1));
        assert_eq!(left(&set), 1);
        set.turn(7, 1);
        set.later(2 * LIMIT);
        for _ in 0..CAREFUL {
            set.later(Duration::ZERO);
            assert_eq!(left(&set), 1);
        }
        set.later(Duration::ZERO);
        assert_eq!(left(&set), 2);
    }

    #[test]
    fn what_took_long_is_named_before_the_thread_does_something_else_which_counts_for_nobody() {
        let set = Set { limit: Duration::ZERO, ..Set::new() };
        let pass = || {
            let begun = real_now();
            while real_now() <= begun {}
        };
        set.turn(7, 1);
        pass();
        set.watch.pause();
        assert_eq!(set.reports(), [[(7, 1)]]);
        pass();
        set.watch.pause();
        set.turn(8, 1);
        assert!(set.reports().is_empty());
    }

    #[test]
    fn calls_that_are_fast_share_their_readings() {
        let set = Set::new();
        set.turn(7, 10_000);
        let turns = set.watch.noted.get();
        assert_eq!((turns, set.watch.stride.get()), (1, STRIDE));
    }

    #[test]
    fn turns_without_a_call_are_not_noted_without_end() {
        let set = Set::new();
        for actor in 0..if cfg!(miri) { 300 } else { 10_000 } {
            set.turn(actor, 0);
            assert!(set.watch.noted.get() <= NOTED);
        }
    }

    #[test]
    fn time_that_is_forgiven_makes_nothing_slow() {
        let set = Set::new();
        set.turn(7, 1);
        let end = set.watch.now.get() + 6 * LIMIT;
        set.watch.forgive(5 * LIMIT);
        set.watch.read(end, None);
        assert!(set.reports().is_empty());
        set.turn(7, 1);
        let end = set.watch.now.get() + 7 * LIMIT;
        set.watch.forgive(5 * LIMIT);
        set.watch.read(end, None);
        assert_eq!(set.reports(), [[(7, 1)]], "only so much");
    }
}
