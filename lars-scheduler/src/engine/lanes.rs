//! All lanes of a scheduler: one for each thread that uses it, made when it first does.
//!
//! A lane with its first entries takes some 1.3 KB. Its wheel takes some 20 KB, and is made once
//! the thread has scheduled often enough. Until then its timers go through one of a few *channels*
//! into the driver's own wheel. So ten thousand threads with a timer each cost no wheel, and the
//! driver looks at none of their lanes.
//!
//! A lane, its wheel and what is in it stay when their thread ends. The next thread that gets its
//! number has the lane then. When there are as many wheels as there may be, a thread that deserves
//! one *trades*: it takes the lane of a number that nobody has, and leaves its own lane to the next
//! thread with that number. Entries are not touched, because they name their lane and not a thread.

use std::iter;
use std::ptr;

use crate::base::tick::Tick;
use crate::engine::entry::state::LAST_LANE;
use crate::engine::in_hand::InHand;
use crate::engine::intake::Intake;
use crate::engine::lane::{Lane, LaneWheel, OwnLane};
use crate::engine::stack::{CancelLink, Stack};
use crate::engine::wheel::Wheel;
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicUsize, CHECKED, Mutex, NO_SLOT, Ordering, heavy_fence,
    model_fence, number_scheduler, prepare_fences, relax, remember, remembered, thread_slot,
    with_unused,
};
use crossbeam_utils::CachePadded;

/// How many lanes there are in a segment of the table.
const SEGMENT: usize = if CHECKED { 4 } else { 64 };
/// How many segments. Each one takes Miri time when a scheduler begins, and when it ends.
const SEGMENTS: usize = if CHECKED {
    1
} else if cfg!(miri) {
    4
} else {
    (LAST_LANE + 1) / SEGMENT
};

/// How many lanes get wheels, at most, unless a test says otherwise. The driver looks at each of
/// them in each turn, which takes 0.1 µs; the threads of all others share its own wheel. (In a
/// shuttle so few that threads trade lanes.)
pub(crate) const MOST_WHEELS: usize = if cfg!(miri) {
    3
} else if cfg!(lars_shuttle) {
    2
} else {
    256
};

/// How many wheels a thread looks at when it seeks one. Meanwhile no thread of the process can get
/// a number, or give its own back.
pub(crate) const SOUGHT: usize = 32;

type Segment = [AtomicPtr<Lane>; SEGMENT];

/// How lanes get wheels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneSettings {
    /// How many channels there are, a power of two.
    pub(crate) channels: usize,
    /// After how many timers a thread gets a wheel of its own. `None` is never: then one channel
    /// orders all calls.
    pub(crate) wheel_after: Option<u64>,
    /// How many lanes get wheels.
    pub(crate) most_wheels: usize,
    pub(crate) tick: Tick,
    pub(crate) wheel_size: usize,
}

/// A way to the driver's own wheel, shared by threads without a wheel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) intake: Intake,
    /// Entries that threads without a wheel cancelled while they were armed.
    pub(crate) cancelled: CachePadded<Stack<CancelLink>>,
    /// How many threads are pushing a batch, piece by piece.
    batches: AtomicUsize,
}

impl Channel {
    fn new() -> Self {
        Self {
            intake: Intake::new(),
            cancelled: CachePadded::new(Stack::new()),
            batches: AtomicUsize::new(0),
        }
    }

    /// A thread begins to push a batch, if it finds after this that the driver has not stopped. A
    /// driver that stops later waits until the end.
    pub(crate) fn begin_batch(&self) -> ChannelBatch<'_> {
        // SeqCst: before the look at the sleep word, as the driver's store of that word is before
        // its look at this. One of them sees the other.
        self.batches.fetch_add(1, Ordering::SeqCst);
        ChannelBatch { channel: self }
    }

    /// Whether a batch is under way. Asked by a driver that has stopped; if not, what batches have
    /// pushed is there to be found.
    pub(crate) fn has_batch(&self) -> bool {
        model_fence();
        // SeqCst: see `begin_batch`. Acquire in it: pairs with the end of the batch.
        self.batches.load(Ordering::SeqCst) > 0
    }
}

/// Until this is dropped, a batch is under way.
#[must_use]
pub(crate) struct ChannelBatch<'a> {
    channel: &'a Channel,
}

impl Drop for ChannelBatch<'_> {
    fn drop(&mut self) {
        // SeqCst: every write is, so that the driver's look cannot see an older one. Release in it:
        // pairs with `Channel::has_batch`.
        self.channel.batches.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug)]
pub(crate) struct Lanes {
    /// The number of the scheduler, by which threads remember their lanes.
    scheduler: u64,
    segments: Box<[AtomicPtr<Segment>]>,
    guests: Lane,
    channels: Box<[Channel]>,
    pub(crate) in_hand: InHand,
    settings: LaneSettings,
    /// What a lane begins with.
    credit: u64,
    /// The newest wheel; each knows the one before.
    wheels: AtomicPtr<LaneWheel>,
    /// Whether there are as many wheels as there may be.
    all_wheels: AtomicBool,
    /// At which wheel the next thread that seeks one goes on to look; null for the newest.
    sought: AtomicPtr<LaneWheel>,
    /// Whether an owner may have left cancelled entries in its lane, so that the driver has to look
    /// at it again.
    owners_watched: AtomicBool,
    /// Whether it is too late to make a wheel. Locked while one is made.
    closed: Mutex<bool>,
}

// SAFETY: lanes and their wheels may be shared and sent. The pointers to them are set once, and
// freed when `Lanes` is dropped.
unsafe impl Send for Lanes {}
// SAFETY: the pointers are atomic, and the lanes and wheels behind them may be shared.
unsafe impl Sync for Lanes {}

impl Lanes {
    /// Each lane begins with this credit.
    pub(crate) fn new(settings: LaneSettings, credit: u64) -> Self {
        debug_assert!(settings.channels.is_power_of_two(), "{settings:?}");
        prepare_fences();
        Self {
            scheduler: number_scheduler(),
            segments: (0..SEGMENTS).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            guests: Lane::new(LAST_LANE, true, credit),
            channels: (0..settings.channels).map(|_| Channel::new()).collect(),
            in_hand: InHand::new(),
            settings,
            credit,
            wheels: AtomicPtr::new(ptr::null_mut()),
            all_wheels: AtomicBool::new(false),
            sought: AtomicPtr::new(ptr::null_mut()),
            owners_watched: AtomicBool::new(false),
            closed: Mutex::new(false),
        }
    }

    /// The calling thread's lane.
    #[inline]
    pub(crate) fn of_this_thread(&self) -> OwnLane<'_> {
        // SAFETY: the thread remembers nothing of this scheduler but its own lane, which lives as
        // long as `self`.
        let lane = match unsafe { remembered(self.scheduler).cast::<Lane>().as_ref() } {
            Some(lane) => lane,
            None => self.look_up(),
        };
        debug_assert!(
            CHECKED
                || lane.is_for_guests()
                || self.used_by(thread_slot()).is_some_and(|own| ptr::eq(own, lane)),
            "lane {} is another thread's",
            lane.number()
        );
        // SAFETY: it is the lane of the calling thread's number, or the one for guests.
        unsafe { OwnLane::new(lane) }
    }

    #[inline(never)]
    fn look_up(&self) -> &Lane {
        let slot = thread_slot();
        let lane = self.used_by(slot).unwrap_or_else(|| self.first_use(slot));
        if !lane.is_for_guests() {
            remember(self.scheduler, ptr::from_ref(lane).cast());
        }
        lane
    }

    /// The lane of the thread that has this number, or would have it: the one of the same number,
    /// unless it was [traded](Self::seek_wheel).
    #[inline]
    fn used_by(&self, slot: usize) -> Option<&Lane> {
        let lane = self.get(slot)?;
        // SAFETY: lanes live as long as `self`.
        Some(unsafe { lane.traded_for().as_ref() }.unwrap_or(lane))
    }

    /// The lane of this number, if it is the calling thread's own.
    #[inline]
    pub(crate) fn own(&self, number: usize) -> Option<OwnLane<'_>> {
        // SAFETY: the thread remembers nothing of this scheduler but its own lane, which lives as
        // long as `self`.
        let lane = unsafe { remembered(self.scheduler).cast::<Lane>().as_ref() };
        let lane = match lane {
            Some(lane) => lane,
            None => self.used_by(thread_slot())?,
        };
        // SAFETY: the thread remembered the lane as its own, or it is that of its number.
        (lane.number() == number).then(|| unsafe { OwnLane::new(lane) })
    }

    /// The lane that an entry names by its number.
    #[inline]
    pub(crate) fn lane(&self, number: usize) -> &Lane {
        self.get(number).unwrap_or(&self.guests)
    }

    #[inline]
    fn get(&self, number: usize) -> Option<&Lane> {
        // Acquire: pairs with the stores in `first_use`.
        let segment = self.segments.get(number / SEGMENT)?.load(Ordering::Acquire);
        // SAFETY: a segment, and a lane, live as long as `self`.
        unsafe { segment.as_ref()?[number % SEGMENT].load(Ordering::Acquire).as_ref() }
    }

    #[cold]
    fn first_use(&self, slot: usize) -> &Lane {
        // (The last number is the guests'.)
        let Some(place) = self.segments.get(slot / SEGMENT).filter(|_| slot < LAST_LANE) else {
            return &self.guests;
        };
        let mut segment = place.load(Ordering::Acquire);
        if segment.is_null() {
            let new: Box<Segment> =
                Box::new(std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())));
            let new = Box::into_raw(new);
            // Release: publishes the segment. Acquire: if another thread was faster, we see its
            // segment as it was made.
            let set =
                place.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
            segment = match set {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: `Box::into_raw` made it above, and no other thread has seen it.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
        let lane = Box::into_raw(Box::new(Lane::new(slot, false, self.credit)));
        // SAFETY: the segment lives as long as `self`, and so will the lane. Only the one thread
        // that has this number gets here.
        unsafe {
            // Release: publishes it to threads that look at all lanes.
            (*segment)[slot % SEGMENT].store(lane, Ordering::Release);
            &*lane
        }
    }

    /// The wheel of the calling thread's lane, if it has one or gets one now.
    #[inline]
    pub(crate) fn wheel_of<'a>(&'a self, own: OwnLane<'a>, now: u64) -> Option<&'a LaneWheel> {
        match own.wheel() {
            Some(wheel) => Some(wheel),
            None if self.deserves_wheel(own) => self.make_wheel(own, now),
            None => None,
        }
    }

    fn deserves_wheel(&self, own: OwnLane<'_>) -> bool {
        // Relaxed: a hint, which saves the lock.
        own.is_owner() && !self.all_wheels.load(Ordering::Relaxed) && self.is_busy(own)
    }

    /// Whether the thread has scheduled so much that a wheel of its own pays.
    fn is_busy(&self, own: OwnLane<'_>) -> bool {
        self.settings.wheel_after.is_some_and(|after| after <= own.lane.accepted())
    }

    #[cold]
    fn make_wheel<'a>(&'a self, own: OwnLane<'a>, now: u64) -> Option<&'a LaneWheel> {
        let wheel = Wheel::new(self.settings.tick, self.settings.wheel_size, now);
        let closed = self.closed.lock();
        if *closed {
            return None;
        }
        // Relaxed: all writers hold the lock.
        let older = self.wheels.load(Ordering::Relaxed);
        // SAFETY: the pointer is null or a wheel, which lives as long as `self`.
        if unsafe { older.as_ref() }
            .is_some_and(|older| older.number + 1 == self.settings.most_wheels)
        {
            self.all_wheels.store(true, Ordering::Relaxed);
            return None;
        }
        let wheel = LaneWheel::boxed(own.lane, wheel, older);
        own.lane.set_wheel(wheel);
        // SeqCst: comes before the first request for a visit, in the order of `sleep_word`. The
        // driver looks after it has announced its sleep: it sees the wheel, or the wheel's owner
        // sees the announcement. As a release it publishes the wheel.
        self.wheels.store(wheel, Ordering::SeqCst);
        drop(closed);
        own.wheel().inspect(|wheel| wheel.is_used_here())
    }

    /// The end of a call of a thread without a wheel. If it deserves one and there are no more, it
    /// gets the lane of a thread that has ended, with its wheel, when it comes across one. The
    /// caller does not use its lane after this.
    #[inline]
    pub(crate) fn seek_wheel(&self, own: OwnLane<'_>) {
        // Relaxed: a hint, which saves the look.
        let none_left = self.all_wheels.load(Ordering::Relaxed);
        if none_left && own.is_owner() && self.is_busy(own) && own.may_seek() {
            self.trade(own);
        }
    }

    #[cold]
    fn trade(&self, own: OwnLane<'_>) {
        own.seek_later();
        let slot = thread_slot();
        let Some(of_this) = self.get(slot) else { return };
        // A wake hook may have scheduled in the middle of the call, and traded already.
        if !self.used_by(slot).is_some_and(|lane| ptr::eq(lane, own.lane)) {
            return;
        }
        // While nobody can get a number or give one back. So whoever had the number of the lane
        // that we take is done with it, and whoever gets that number next comes after us.
        let taken = with_unused(|is_unused| {
            let most = SOUGHT.min(self.settings.most_wheels);
            let mut wheels = iter::from_fn(|| self.next_sought()).take(most);
            let lane = wheels.find(|wheel| is_unused(wheel.lane().user()))?.lane();
            let of_other = self.get(lane.user())?;
            of_this.trade_for(lane);
            of_other.trade_for(own.lane);
            Some(lane)
        });
        if let Some(lane) = taken {
            lane.wheel().into_iter().for_each(LaneWheel::is_used_here);
            remember(self.scheduler, ptr::from_ref(lane).cast());
        }
    }

    /// The next wheel to look at, in turn. Called under the lock of the numbers.
    fn next_sought(&self) -> Option<&LaneWheel> {
        // Relaxed, both: ordered by that lock, and so is the wheel that the pointer leads to.
        let next: *const LaneWheel = self.sought.load(Ordering::Relaxed);
        let next = if next.is_null() { self.newest_wheel() } else { next };
        // SAFETY: the pointer is null or a wheel, which lives as long as `self`.
        let wheel = unsafe { next.as_ref() }?;
        self.sought.store(wheel.older.cast_mut(), Ordering::Relaxed);
        Some(wheel)
    }

    /// Makes the driver check whether owners keep up with what is cancelled in their lanes.
    pub(crate) fn watch_owners(&self) {
        // Release: the driver that takes the request sees what has been cancelled. A swap, so that
        // it sees what was cancelled before earlier requests as well.
        self.owners_watched.swap(true, Ordering::Release);
    }

    /// Whether the driver was asked to look since the last call.
    pub(crate) fn take_watch_request(&self) -> bool {
        // Relaxed: mostly there is none. If one is missed, its maker wakes the driver.
        // Acquire: pairs with the swap above. A request that the swap does not see stays.
        self.owners_watched.load(Ordering::Relaxed)
            && self.owners_watched.swap(false, Ordering::Acquire)
    }

    /// No wheel is made after this.
    pub(crate) fn close_wheels(&self) {
        *self.closed.lock() = true;
    }

    /// The channel of the calling thread.
    #[inline]
    pub(crate) fn channel_of(&self, own: OwnLane<'_>) -> &Channel {
        &self.channels[own.lane.number() & (self.channels.len() - 1)]
    }

    pub(crate) fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// The newest wheel, from which the older ones are reached.
    pub(crate) fn newest_wheel(&self) -> *const LaneWheel {
        // SeqCst: see `make_wheel`.
        self.wheels.load(Ordering::SeqCst)
    }

    /// All lanes that exist now, and the one for guests.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane> {
        let segments = self.segments.iter().filter_map(|segment| {
            // SAFETY: segments live as long as `self`.
            unsafe { segment.load(Ordering::Acquire).as_ref() }
        });
        // SAFETY: lanes live as long as `self`.
        let lanes =
            segments.flatten().filter_map(|lane| unsafe { lane.load(Ordering::Acquire).as_ref() });
        iter::once(&self.guests).chain(lanes)
    }

    /// The end: shuts all gates for good, and closes what handles give entries back to.
    ///
    /// # Safety
    ///
    /// There is no driver any more, and nobody schedules.
    pub(crate) unsafe fn close(&self) {
        for lane in self.iter() {
            lane.gate().knock();
        }
        let mut spins = 0;
        // A thread that drops a handle may be behind a gate, for some nanoseconds or until it gets
        // a processor.
        while !heavy_fence() || !self.iter().all(|lane| lane.gate().is_free()) {
            relax(spins);
            spins = spins.saturating_add(1);
        }
        for lane in self.iter() {
            // SAFETY: the driver is gone, and nobody schedules.
            unsafe { lane.close() };
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        for segment in &self.segments {
            // Relaxed: nobody else is left.
            let segment = segment.load(Ordering::Relaxed);
            if segment.is_null() {
                continue;
            }
            // SAFETY: `first_use` made the segment and its lanes with `Box::into_raw`, and nobody
            // refers to them any more.
            unsafe {
                for lane in &*Box::from_raw(segment) {
                    let lane = lane.load(Ordering::Relaxed);
                    if !lane.is_null() {
                        drop(Box::from_raw(lane));
                    }
                }
            }
        }
    }
}

const _: () = assert!(NO_SLOT > LAST_LANE);
