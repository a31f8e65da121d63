//! The wheel: pending entries by tick. Plain single-threaded code, no clock, no atomics that
//! matter.
//!
//! # Levels
//!
//! Level 0 is the revolving array of `ticks_per_wheel` slots, one tick each. Above it are levels of
//! 64 slots. A slot of level 1 spans half the ticks of the wheel, a slot of every higher level 32
//! times as many as one of the level below it, until the top level spans all of time. This is the
//! hierarchical wheel of G. Varghese and T. Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP
//! 1987, scheme 7), with two differences:
//!
//! - A slot spans *half* of what the level below can hold, not all of it. So there is time, half a
//!   revolution of the level below, in which a slot can be cascaded down: a little per turn,
//!   beginning early if it holds very many, and finished when its first tick comes.
//! - Each level accepts ticks only up to a border, `opened`, which moves up when the slot above it
//!   has been emptied. All entries of one tick are therefore in one list at any time (or in the
//!   emptying slot and the list that it is emptied into, in that order), and leave in the order in
//!   which they came: equal deadlines are first in, first out, whatever levels they went through.
//!
//! ```text
//!            reached          opened(0)         opened(1)                opened(2)
//!  past ────────┤── level 0 ──────┼───── level 1 ───┼──────── level 2 ───────┼── level 3 …
//! ```
//!
//! Each level has a bitmap of its occupied slots, so nothing is ever scanned and no empty tick
//! visited. An entry that is cancelled leaves its slot's bit as it is: that costs the canceller
//! nothing, and a search for the next occupied slot clears the bits of those that it finds empty.

mod bitmap;
mod level_set;
mod list;

use std::ptr;

use self::bitmap::Bitmap;
use self::level_set::LevelSet;
use self::list::Lists;
use crate::base::deadline::Deadline;
use crate::base::tick::{NEVER, Tick};
use crate::engine::due::{Detached, DueList};
use crate::engine::entry::{Entry, Whereabouts, prefetch, prefetch_to_write};
use crate::sync::CHECKED;
use lars_base::debug_fields;

/// The list of entries that are due.
const DUE: usize = 0;
/// The list of entries that do not wait for a tick.
const AT_ONCE: usize = 1;
/// The first list that is a slot.
const SLOTS: usize = 2;

/// Slots of the levels above the first.
#[cfg(not(lars_loom))]
const UPPER_SLOTS: usize = 64;
/// How many bits of a tick the levels together span: all.
#[cfg(not(lars_loom))]
const TICK_BITS: u32 = u64::BITS;

// The model checker looks at every step, so its wheel has few slots; its ticks are small numbers.
#[cfg(lars_loom)]
const UPPER_SLOTS: usize = 8;
#[cfg(lars_loom)]
const TICK_BITS: u32 = 5;

/// Slots with fewer entries are cascaded when their first tick comes: that takes at most 0.1 ms.
const CASCADE_EARLY: u32 = if cfg!(test) { 3 } else { 2048 };
/// Each time this many entries have come to a slot, the thread that puts them there plans the early
/// cascade again.
const PLAN_EARLY: u32 = 1 << 14;
/// How long moving one entry down may take, for the start of an early cascade. Measured at 10 to 60
/// ns; the rest is for the tasks that become due meanwhile, which take turns with it. (A million
/// timers spread over a second delayed others by 17 to 32 ms when this was 100, and by 5 to 9 with
/// this, where the machine itself accounts for 3 to 5.)
const NANOS_PER_MOVE: u64 = 400;

/// What [`Wheel::advance`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Advance {
    /// The entries of one tick were moved to the due list.
    Due,
    /// The budget is used up; there is more to do before the target is reached.
    Working,
    /// All ticks up to the target have been visited.
    Reached,
}

struct Level {
    /// A slot spans `1 << shift` ticks.
    shift: u32,
    /// The list of the first slot.
    first_list: usize,
    slots: usize,
    occupied: Bitmap,
    /// How many entries came into each slot since it was last empty. Those that were cancelled are
    /// not subtracted: it is an upper bound, for the start of an early cascade.
    entered: Box<[u32]>,
    /// The border of this level, counted in slots of the level above: it accepts smaller ticks.
    opened: u64,
}

impl Level {
    #[inline]
    fn slot_of(&self, tick: u64) -> usize {
        (tick >> self.shift) as usize & (self.slots - 1)
    }
}

pub(crate) struct Wheel {
    tick: Tick,
    /// The last tick that each level accepts: the border, in one cache line for all levels.
    accepts: Vec<u64>,
    levels: Vec<Level>,
    /// The levels that have an occupied slot. Most have none, and each turn asks several times.
    occupied: LevelSet,
    /// The levels of which the slot at the border of the level below has been moved down in part:
    /// then there are entries below that must not be reached before the rest of it has gone, one
    /// way or another.
    cascading: LevelSet,
    lists: Lists,
    /// All ticks up to this one have been visited.
    reached: u64,
    /// The instant at which [`catch_up`](Self::catch_up) looks next.
    catch_up_at: u64,
}

impl Wheel {
    /// The smallest and the largest number of slots of level 0.
    pub(crate) const SIZES: (usize, usize) = (2, 1 << 16);

    /// A wheel of `size` slots, a power of two within [`SIZES`](Self::SIZES), that begins at `now`.
    pub(crate) fn new(tick: Tick, size: usize, now: u64) -> Self {
        debug_assert!(
            size.is_power_of_two() && size >= Self::SIZES.0 && size <= Self::SIZES.1,
            "a wheel has {size} slots"
        );
        let mut levels = Vec::new();
        let (mut shift, mut slots, mut first_list) = (0, size, SLOTS);
        loop {
            levels.push(Level {
                shift,
                first_list,
                slots,
                occupied: Bitmap::new(slots),
                entered: vec![0; slots].into(),
                opened: 0,
            });
            let span = shift + slots.trailing_zeros();
            if span >= TICK_BITS {
                break;
            }
            // Half the span of this level is one slot of the next.
            shift = span - 1;
            first_list += slots;
            slots = UPPER_SLOTS;
        }
        let lists = Lists::new(first_list + slots);
        // The top level accepts them all.
        let accepts = vec![u64::MAX; levels.len()];
        let reached = tick.reached_by(now);
        let (occupied, cascading) = (LevelSet::default(), LevelSet::default());
        let mut wheel =
            Self { tick, accepts, levels, occupied, cascading, lists, reached, catch_up_at: 0 };
        wheel.raise_borders();
        wheel.open_empty_slots();
        wheel
    }

    /// Of each level, from the lowest: how many ticks a slot spans, as a power of two, and how many
    /// slots there are.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (u32, usize)> {
        self.levels.iter().map(|level| (level.shift, level.slots))
    }

    /// Puts an entry where its deadline belongs; into the list of due ones if that has come.
    /// Returns the tick by which the wheel has to be advanced because of it.
    ///
    /// # Safety
    ///
    /// The entry is alive and in no list, and nobody but the caller touches its links. It stays
    /// alive while it is in the wheel.
    #[inline]
    pub(crate) unsafe fn insert(&mut self, entry: *mut Entry) -> u64 {
        Entry::assert_address(entry);
        // SAFETY: the entry is alive and in no list, and nobody but the caller touches its links.
        unsafe { self.insert_at(entry, (*entry).deadline()) }
    }

    /// # Safety
    ///
    /// Same as [`insert`](Self::insert). The entry has this deadline, or had it a moment ago.
    #[inline]
    unsafe fn insert_at(&mut self, entry: *mut Entry, deadline: u64) -> u64 {
        Entry::assert_address(entry);
        let tick = self.tick.at_or_after(deadline);
        if tick <= self.reached {
            // SAFETY: the entry is alive and in no list, and nobody but the caller touches its
            // links.
            unsafe { self.lists.push_back(DUE, entry) };
            return 0;
        }
        // SAFETY: the entry is alive and in no list, and nobody but the caller touches its links.
        let number = unsafe { self.insert_below(self.levels.len() - 1, entry, tick) };
        if number == 0 { tick } else { self.visit_for(number, tick) }
    }

    /// By which tick the slot above level 0 that holds `tick` has to be cascaded. Every
    /// [`PLAN_EARLY`] entries, the answer is earlier: when the cascade of so full a slot should
    /// begin.
    #[inline]
    fn visit_for(&self, number: usize, tick: u64) -> u64 {
        let level = &self.levels[number];
        let start = tick >> level.shift << level.shift;
        let planned = match level.entered[level.slot_of(start)] % PLAN_EARLY {
            0 => start.saturating_sub(self.lead(number, start)),
            _ => start,
        };
        planned.max(self.reached + 1)
    }

    /// Puts an entry into the lowest level that accepts it, and into `top` if none below does.
    /// Returns which.
    ///
    /// # Safety
    ///
    /// The entry is alive and in no list, and nobody but the caller touches its links. It stays
    /// alive while it is in the wheel.
    #[inline]
    unsafe fn insert_below(&mut self, top: usize, entry: *mut Entry, tick: u64) -> usize {
        debug_assert!(top < self.levels.len(), "there is no level {top}");
        let below = self.accepts[..top].iter().position(|&last| tick <= last);
        let number = below.unwrap_or(top);
        let level = &mut self.levels[number];
        let slot = level.slot_of(tick);
        if level.occupied.insert(slot) {
            self.occupied.insert(number);
        }
        // (Nothing is cascaded from the lowest level.)
        if number > 0 {
            level.entered[slot] = level.entered[slot].saturating_add(1);
        }
        let list = level.first_list + slot;
        // SAFETY: the entry is alive and in no list, and nobody but the caller touches its links.
        unsafe { self.lists.push_back(list, entry) };
        number
    }

    /// Puts an entry where it belongs that waits for its tick, or for none. Returns by which tick
    /// the wheel has to be visited because of it.
    ///
    /// # Safety
    ///
    /// The entry is alive and in no list, and nobody but the caller touches its links. It stays
    /// alive while it is in the wheel.
    #[inline]
    pub(crate) unsafe fn place(&mut self, entry: *mut Entry, immediate: bool) -> u64 {
        if !immediate {
            // SAFETY: the entry is alive, the caller's, and in no list.
            return unsafe { self.insert(entry) };
        }
        // SAFETY: the entry is alive, the caller's, and in no list.
        unsafe { self.lists.push_back(AT_ONCE, entry) };
        0
    }

    /// [`place`](Self::place) for a caller that has the deadline at hand. (Loading what was stored
    /// a moment ago takes 1 ns.)
    ///
    /// # Safety
    ///
    /// Same as [`place`](Self::place). The entry has this deadline.
    #[inline]
    pub(crate) unsafe fn place_at(&mut self, entry: *mut Entry, due: Deadline) -> u64 {
        Entry::assert_address(entry);
        if due.immediate {
            // SAFETY: the entry is alive, the caller's, and in no list.
            return unsafe { self.place(entry, true) };
        }
        // SAFETY: the entry is alive, the caller's, and in no list.
        unsafe {
            debug_assert!(
                CHECKED || (*entry).deadline() == due.at,
                "the entry has another deadline"
            );
            self.insert_at(entry, due.at)
        }
    }

    /// Moves up to `most` entries that do not wait for a tick to the driver's list.
    pub(crate) fn detach_at_once(&mut self, due: &mut DueList, most: usize) {
        self.detach(AT_ONCE, due, most);
    }

    /// Moves due entries to the driver's list, until that list has `full` of them.
    pub(crate) fn detach_due(&mut self, due: &mut DueList, full: usize) {
        self.detach(DUE, due, full.saturating_sub(due.len()));
    }

    fn detach(&mut self, list: usize, due: &mut DueList, most: usize) {
        let mut detaching = self.begin_detach(list);
        while detaching.chain.len < most && self.detach_next(&mut detaching) {}
        self.end_detach(&mut detaching, due);
    }

    /// Begins to detach what is due, entry by entry. The wheel is used for nothing else until
    /// [`end_detach`](Self::end_detach).
    pub(crate) fn begin_detach_due(&self) -> Detaching {
        self.begin_detach(DUE)
    }

    fn begin_detach(&self, list: usize) -> Detaching {
        Detaching { list, next: self.lists.front(list), chain: Detached::default() }
    }

    /// Detaches the next entry, and fetches the one behind it. If the deadline of the next entry
    /// was moved further out meanwhile, places that entry again instead. False if there is none.
    #[inline]
    pub(crate) fn detach_next(&mut self, detaching: &mut Detaching) -> bool {
        let Some(entry) = detaching.next else { return false };
        detaching.next = self.lists.behind(detaching.list, entry);
        // The line of the next entry is mostly in another core's cache. It arrives while entries of
        // other lists are detached.
        prefetch_to_write(detaching.next.unwrap_or(ptr::null_mut()));
        prefetch(entry.wrapping_add(AHEAD));
        // SAFETY: it is in the list, so it is alive, and the holder of the wheel has its links.
        // Unlinked, it can be placed again.
        unsafe {
            // Read once. If it is moved nearer now, it must not come back into this list, the rest
            // of which is known already. What moves it places it anew.
            let deadline = (*entry).deadline();
            if deadline > self.tick.start_of(self.reached) && !(*entry).state.flags().is_immediate()
            {
                self.lists.unlink(entry);
                self.insert_at(entry, deadline);
            } else {
                // From here on nobody unlinks the entry; its link to the next one stays as it is.
                (*entry).set_whereabouts(Whereabouts::Queued);
                detaching.chain.add(entry);
            }
        }
        true
    }

    /// Moves what was detached to the driver's list.
    pub(crate) fn end_detach(&mut self, detaching: &mut Detaching, due: &mut DueList) {
        let chain = std::mem::take(&mut detaching.chain);
        if chain.len > 0 {
            self.lists.cut_front(detaching.list, detaching.next);
            // SAFETY: the chain was cut out of the list, and its entries say that they are queued.
            unsafe { due.append(chain) };
        }
    }

    /// Moves on to `now` if nothing has to be done before it. Looks only now and then.
    ///
    /// A wheel with few expiries is visited rarely. This way it still takes near deadlines at its
    /// lowest level.
    #[inline]
    pub(crate) fn catch_up(&mut self, now: u64) {
        if now >= self.catch_up_at {
            self.catch_up_to(self.tick.reached_by(now));
        }
    }

    #[cold]
    fn catch_up_to(&mut self, tick: u64) {
        if self.reached < tick && self.next_visit() > tick {
            self.reached = tick;
            self.raise_borders();
            self.open_empty_slots();
        }
        let pause = (self.levels[0].slots as u64 / 8).max(1);
        self.catch_up_at = self.tick.start_of(tick.saturating_add(pause));
    }

    /// By which tick the wheel has to be visited: at once if something is due, never if it is
    /// empty.
    pub(crate) fn next_visit(&mut self) -> u64 {
        if self.has_any_due() { 0 } else { self.next_tick().unwrap_or(NEVER) }
    }

    /// Removes and returns the first due entry.
    pub(crate) fn pop_due(&mut self) -> Option<*mut Entry> {
        self.pop(DUE)
    }

    /// Sorts the due list by deadline; equal deadlines keep their order.
    pub(crate) fn sort_due(&mut self) {
        self.lists.sort(DUE);
    }

    #[inline]
    pub(crate) fn has_due(&self) -> bool {
        !self.lists.is_empty(DUE)
    }

    /// Whether anything may be fired, entries that do not wait for a tick included.
    pub(crate) fn has_any_due(&self) -> bool {
        self.has_due() || !self.lists.is_empty(AT_ONCE)
    }

    fn pop(&mut self, list: usize) -> Option<*mut Entry> {
        let entry = self.lists.front(list)?;
        // SAFETY: it is the first of this list.
        unsafe { self.lists.unlink(entry) };
        Some(entry)
    }

    /// Takes an entry out of its list. If that empties a slot, its bit stays set until a search
    /// comes to it.
    ///
    /// # Safety
    ///
    /// The entry is in a list of this wheel.
    #[inline]
    pub(crate) unsafe fn unlink(&mut self, entry: *mut Entry) {
        // SAFETY: the entry is in a list of this wheel.
        unsafe { self.lists.unlink(entry) };
    }

    /// A slot has been found empty.
    fn slot_is_empty(&mut self, list: usize) {
        let number = match (list - SLOTS).checked_sub(self.levels[0].slots) {
            None => 0,
            Some(upper) => 1 + upper / UPPER_SLOTS,
        };
        let level = &mut self.levels[number];
        let slot = list - level.first_list;
        level.occupied.remove(slot);
        if level.occupied.is_empty() {
            self.occupied.remove(number);
        }
        level.entered[slot] = 0;
        let mask = level.slots - 1;
        // Nothing is left of the slot at the border: the rest was moved down too, or was cancelled.
        if self.cascading.contains(number) && self.levels[number - 1].opened as usize & mask == slot
        {
            self.cascading.remove(number);
            self.open_to(number - 1, self.levels[number - 1].opened + 1);
        }
    }

    /// Moves the border of a level, counted in slots of the level above.
    fn open_to(&mut self, number: usize, opened: u64) {
        debug_assert!(opened > 0, "level {number} is opened to nothing");
        self.levels[number].opened = opened;
        let end = u128::from(opened) << self.levels[number + 1].shift;
        self.accepts[number] = u64::try_from(end - 1).unwrap_or(u64::MAX);
    }

    /// Ends cascades of slots whose rest was cancelled: the entries moved down from them may be
    /// reached now.
    fn end_cascades(&mut self) {
        for number in self.cascading.upper() {
            if self.next_slot_is_empty(number - 1) {
                let level = &self.levels[number];
                let slot = self.levels[number - 1].opened as usize & (level.slots - 1);
                self.slot_is_empty(level.first_list + slot);
            }
        }
    }

    /// Goes on towards `target`, a tick, and stops at the first that has entries. Each entry moved
    /// down a level costs one of `budget`.
    pub(crate) fn advance(&mut self, target: u64, budget: &mut usize) -> Advance {
        loop {
            self.end_cascades();
            if let Some(tick) = self.first_tick_below_border()
                && tick <= target
            {
                let slot = self.levels[0].slot_of(tick);
                let list = self.levels[0].first_list + slot;
                self.lists.append(DUE, list);
                self.slot_is_empty(list);
                self.reached = tick;
                self.raise_borders();
                return Advance::Due;
            }
            // Nothing in level 0. The first slot of the lowest level that has one comes next.
            match self.first_upper_slot() {
                Some((number, start)) if start <= target => {
                    if start > self.reached + 1 {
                        self.reached = start - 1;
                        self.raise_borders();
                    }
                    if !self.cascade(number, start, budget) {
                        return Advance::Working;
                    }
                }
                _ => {
                    self.reached = self.reached.max(target);
                    self.raise_borders();
                    self.open_empty_slots();
                    return if self.cascade_early(budget) {
                        Advance::Reached
                    } else {
                        Advance::Working
                    };
                }
            }
        }
    }

    /// The first tick that may need a turn: the next one that has entries, or the moment to begin
    /// cascading a slot.
    pub(crate) fn next_tick(&mut self) -> Option<u64> {
        self.end_cascades();
        let mut next = self.first_tick_below_border();
        for number in self.occupied.upper() {
            if let Some(start) = self.first_slot_start(number) {
                let early = start.saturating_sub(self.lead(number, start));
                let tick = if early > self.reached { early } else { start };
                next = Some(next.map_or(tick, |next| next.min(tick)));
            }
        }
        next
    }

    /// The first tick that has entries, after placing again those whose deadlines were moved away
    /// from it. Looks at all entries of a slot, so it is only for virtual time, where the clock
    /// moves to the returned tick.
    pub(crate) fn next_entry_tick(&mut self) -> Option<u64> {
        loop {
            self.end_cascades();
            let (number, start) = match self.first_tick_below_border() {
                Some(tick) => (0, tick),
                None => self.first_upper_slot()?,
            };
            let level = &self.levels[number];
            let list = level.first_list + level.slot_of(start);
            let last = start | ((1 << level.shift) - 1);
            let mut first = None;
            let mut here = self.lists.front(list);
            while let Some(entry) = here {
                here = self.lists.behind(list, entry);
                // SAFETY: it is in the list, so it is alive, and the holder of the wheel has its
                // links. Unlinked, it can be placed again.
                unsafe {
                    let tick = self.tick.at_or_after((*entry).deadline());
                    if (start..=last).contains(&tick) {
                        first = Some(first.map_or(tick, |first: u64| first.min(tick)));
                    } else {
                        self.unlink(entry);
                        self.insert(entry);
                    }
                }
            }
            if first.is_some() {
                return first;
            }
        }
    }

    /// The next occupied tick of level 0. Beyond the border there may be entries of a slot that is
    /// being cascaded; those have to wait for the rest of it.
    fn first_tick_below_border(&mut self) -> Option<u64> {
        let tick = self.next_occupied(0, self.reached + 1)?;
        (tick >> self.levels[1].shift < self.levels[0].opened).then_some(tick)
    }

    /// The slot above level 0 that is next to be cascaded: its level and its first tick.
    ///
    /// That is the first slot of the lowest level that has one below its border. (Beyond the border
    /// there may be entries of a higher slot that is being cascaded; that slot has to go first.)
    fn first_upper_slot(&mut self) -> Option<(usize, u64)> {
        self.occupied.upper().find_map(|number| {
            let start = self.first_slot_start(number)?;
            let below_border = match self.levels.get(number + 1) {
                None => true,
                Some(above) => start >> above.shift < self.levels[number].opened,
            };
            below_border.then_some((number, start))
        })
    }

    fn first_slot_start(&mut self, number: usize) -> Option<u64> {
        let shift = self.levels[number].shift;
        let border = shift_left(self.levels[number - 1].opened, shift);
        self.next_occupied(number, border).map(|tick| tick >> shift << shift)
    }

    /// The first slot of a level at or after the one of `tick` that has entries, as a tick in it.
    fn next_occupied(&mut self, number: usize, tick: u64) -> Option<u64> {
        loop {
            let level = &self.levels[number];
            let from = level.slot_of(tick);
            let slot = level.occupied.next_round(from)?;
            let list = level.first_list + slot;
            if !self.lists.is_empty(list) {
                let distance = (slot.wrapping_sub(from) & (level.slots - 1)) as u64;
                let slots = (tick >> level.shift).saturating_add(distance);
                return Some(shift_left(slots, level.shift));
            }
            self.slot_is_empty(list);
        }
    }

    /// Moves the entries of the slot of level `number` that starts at `start` down, as far as the
    /// budget goes; opens it for the level below if it is empty then, and says so.
    fn cascade(&mut self, number: usize, start: u64, budget: &mut usize) -> bool {
        let level = &self.levels[number];
        debug_assert_eq!(self.levels[number - 1].opened, start >> level.shift);
        let list = level.first_list + level.slot_of(start);
        let last = start | ((1 << level.shift) - 1);
        while let Some(entry) = self.lists.front(list) {
            if *budget == 0 {
                self.cascading.insert(number);
                return false;
            }
            *budget -= 1;
            prefetch_to_write(self.lists.behind(list, entry).unwrap_or(ptr::null_mut()));
            // SAFETY: it is in the list, so it is alive, and the holder of the wheel has its links.
            // Unlinked, it can be placed again.
            unsafe {
                self.lists.unlink(entry);
                let tick = self.tick.at_or_after((*entry).deadline());
                if (start..=last).contains(&tick) {
                    self.insert_below(number - 1, entry, tick);
                } else {
                    // Its deadline was moved meanwhile.
                    self.insert(entry);
                }
            }
        }
        self.cascading.insert(number);
        self.slot_is_empty(list);
        true
    }

    /// Begins with slots whose first tick is near and that hold very many entries. Says whether
    /// there is nothing left to do now.
    fn cascade_early(&mut self, budget: &mut usize) -> bool {
        let mut limit = self.levels.len();
        while let Some(number) = self.occupied.highest_upper_below(limit) {
            limit = number;
            let Some(start) = self.first_slot_start(number) else {
                continue;
            };
            let lead = self.lead(number, start);
            let is_next = self.levels[number - 1].opened == start >> self.levels[number].shift;
            if lead > 0
                && start.saturating_sub(lead) <= self.reached
                && is_next
                && self.can_open(number - 1)
                && !self.cascade(number, start, budget)
            {
                return false;
            }
        }
        true
    }

    /// How many ticks before its start a slot should begin to be cascaded.
    #[inline]
    fn lead(&self, number: usize, start: u64) -> u64 {
        let level = &self.levels[number];
        let entered = level.entered[level.slot_of(start)];
        if entered < CASCADE_EARLY {
            return 0;
        }
        (u64::from(entered) * NANOS_PER_MOVE).div_ceil(self.tick.nanos())
    }

    /// Whether the next slot of the level above `number` fits into the level.
    fn can_open(&self, number: usize) -> bool {
        let level = &self.levels[number];
        let above = &self.levels[number + 1];
        // Two of those slots fit: the next does when the one before the last has been passed.
        let passed = match number {
            0 => self.reached.saturating_add(1) >> above.shift,
            _ => self.levels[number - 1].opened >> (above.shift - level.shift),
        };
        let fits = level.opened.saturating_sub(1) <= passed;
        // The slot must be one of the level above, not of one still higher.
        let accepted = self
            .levels
            .get(number + 2)
            .is_none_or(|higher| level.opened >> (higher.shift - above.shift) < above.opened);
        // The last tick of all, where only `NEVER` is, stays closed.
        fits && accepted && level.opened < u64::MAX
    }

    /// Moves the borders over what has been reached: the slots there are empty.
    fn raise_borders(&mut self) {
        let next = self.reached + 1;
        for number in 0..self.levels.len() - 1 {
            let shift = self.levels[number + 1].shift;
            let slots = (next >> shift) + u64::from(next & ((1 << shift) - 1) != 0);
            // No border lies beyond that of a higher level.
            if slots <= self.levels[number].opened {
                break;
            }
            self.open_to(number, slots);
        }
    }

    /// Moves the borders over empty slots as far as the levels reach, so that what is scheduled
    /// next lands as low as it can.
    fn open_empty_slots(&mut self) {
        for number in (0..self.levels.len() - 1).rev() {
            while self.can_open(number) && self.next_slot_is_empty(number) {
                self.open_to(number, self.levels[number].opened + 1);
            }
        }
    }

    fn next_slot_is_empty(&self, number: usize) -> bool {
        let above = &self.levels[number + 1];
        let slot = self.levels[number].opened as usize & (above.slots - 1);
        self.lists.is_empty(above.first_list + slot)
    }

    /// Removes and returns any entry that waits, due or not: first the due ones, then the slots
    /// from below. For the end of the scheduler.
    pub(crate) fn pop_any(&mut self) -> Option<*mut Entry> {
        if let Some(entry) = self.pop(AT_ONCE).or_else(|| self.pop_due()) {
            return Some(entry);
        }
        (0..self.levels.len()).find_map(|number| {
            self.next_occupied(number, 0)?;
            let level = &self.levels[number];
            let list = level.first_list + level.occupied.next_round(0)?;
            self.pop(list)
        })
    }
}

/// How many entries ahead of the one that is looked at the next ones are guessed to lie: entries
/// that a thread scheduled in a row mostly lie in a row in memory, and a list of a million can only
/// be followed as fast as its links arrive.
const AHEAD: usize = 32;

/// `value << shift`, saturating.
fn shift_left(value: u64, shift: u32) -> u64 {
    if value.leading_zeros() < shift { u64::MAX } else { value << shift }
}

/// What is being detached from one of a wheel's lists.
#[derive(Debug)]
pub(crate) struct Detaching {
    list: usize,
    /// The first entry that is not detached yet.
    next: Option<*mut Entry>,
    /// Entries that are detached, but linked to the list until the end.
    chain: Detached,
}

debug_fields!(|it: Wheel| reached: it.reached, levels: it.levels.len());

#[cfg(all(test, not(lars_loom)))]
mod tests;
