//! How handlers share what a node has: memory for timers that wait, and places for runs.
//!
//! Neither is divided in advance. One handler may have nearly all of it, as long as no other needs
//! it. But each has a share that it always gets, so that one that is paused, or slow, or stuck,
//! stops nobody else.
//!
//! - *Memory.* While there is room, everything is taken in. When there is none, a handler with less
//!   than its share gets room from the one that has most; another one keeps its first timers. Who
//!   makes room does so with its last timer, which is left in the store
//!   ([`window`](super::window)).
//! - *Places.* A quarter of them is kept free for handlers that have fewer runs than their part of
//!   that quarter.
//! - *Places of recipients.* Where a handler serves many recipients, each of which takes its timers
//!   one at a time, a quarter of what is kept for the handler is reserved for recipients with fewer
//!   than [`FEW`] runs: a long line takes the other places, and stops no short one.

use super::Node;
use super::window::{Key, Resident};

/// Which part of the places is kept for those that have few runs.
const KEPT_FREE: usize = 4;

/// So many runs of a recipient are few: one that it has in hand, and one that is started meanwhile.
const FEW: usize = 2;

impl Node {
    /// How many more timers fit into memory.
    pub(super) fn room(&self) -> usize {
        let held = self.window.len() + self.runs.len();
        self.settings.max_resident.saturating_sub(held)
    }

    /// How many timers each handler may always have in memory. Those that no handler of this node
    /// runs count as one.
    fn share(&self) -> usize {
        (self.settings.max_resident / (self.settings.handlers.len() + 1)).max(1)
    }

    /// How many timers the handler in this place has in memory.
    fn held(&self, place: usize) -> usize {
        self.window.len_of(place) + self.runs.len_of(place)
    }

    /// Whether the handler in this place has room for a good part of a load, and does something
    /// with it.
    pub(super) fn is_hungry(&self, place: usize) -> bool {
        let share = self.share();
        let room = self.room().max(share.saturating_sub(self.held(place)));
        let handler = self.settings.handlers.get(place);
        let paused = handler.is_some_and(|handler| self.lease.is_paused(&handler.name));
        let much = room >= self.settings.batch.min(share).div_ceil(2);
        // If nothing of it waits here, little is enough.
        (much || room > 0 && self.evictable(place) == 0) && !(paused && self.room() == 0)
    }

    /// Makes room for a timer, if it is to have some. If not, it is left in the store.
    pub(super) fn make_room(&mut self, key: Key, resident: Resident) -> bool {
        if self.room() > 0 {
            return true;
        }
        let place = self.window.place(resident);
        let from = if self.held(place) < self.share() {
            // If all that those have are runs, it is a little more than there is room for.
            let over = |place: &usize| self.held(*place) > self.share();
            (0..=self.settings.handlers.len())
                .filter(over)
                .max_by_key(|place| self.evictable(*place))
        } else {
            let last = self.window.last_of(place).or_else(|| self.runs.last_ready(place));
            if last.is_none_or(|last| last < key) {
                self.window.leave(key, resident);
                return false;
            }
            Some(place)
        };
        if let Some(from) = from
            && let Some((key, resident)) =
                self.window.pop_last(from).or_else(|| self.runs.pop_last_ready(from))
        {
            self.window.leave(key, resident);
        }
        true
    }

    /// How many timers of the handler in this place could be left in the store.
    fn evictable(&self, place: usize) -> usize {
        self.window.len_of(place) + self.runs.ready_of(place)
    }

    /// Whether the handler in this place may have one more run, of `limit` for all. While the node
    /// ramps up, that is less than its own limit. A ramp says how fast places are filled, not whose
    /// they are: what is kept is kept of the node's limit, and given beyond the ramp.
    pub(super) fn has_place(&self, place: usize, limit: usize) -> bool {
        self.has_place_beside(place, limit, 0)
    }

    /// Whether this timer's recipient may have one more run, if its handler may: it has few, or
    /// enough places stay free for recipients with few.
    pub(super) fn has_place_in_line(&self, resident: Resident, limit: usize) -> bool {
        if self.runs.busy_with(resident) < FEW {
            return true;
        }
        let place = self.window.place(resident);
        let kept = (self.kept_for(place, limit) / KEPT_FREE).max(1);
        self.has_place_beside(place, limit, kept)
    }

    /// Whether the handler in this place may have one more run, and so many beside.
    fn has_place_beside(&self, place: usize, limit: usize, beside: usize) -> bool {
        let (active, busy) = (self.runs.active() + beside, self.runs.busy(place) + beside);
        let all = self.settings.max_in_flight;
        if busy >= self.settings.handlers[place].concurrency || active >= all {
            return false;
        }
        busy < self.kept_for(place, limit) || active < limit && active + self.kept_free(limit) < all
    }

    /// Whether timers of this one's handler have recipients.
    pub(super) fn has_recipients(&self, resident: Resident) -> bool {
        let handler = self.settings.handlers.get(usize::from(resident.name));
        handler.is_some_and(|handler| handler.recipient.is_some())
    }

    /// How many places are kept for handlers that have fewer runs than that.
    pub(super) fn kept_free(&self, limit: usize) -> usize {
        let free = |place| self.kept_for(place, limit).saturating_sub(self.runs.busy(place));
        (0..self.settings.handlers.len()).map(free).sum()
    }

    /// How many places the handler in this place can always have.
    fn kept_for(&self, place: usize, limit: usize) -> usize {
        let handlers = &self.settings.handlers;
        let part = limit / (KEPT_FREE * handlers.len()).max(1);
        let part = if limit < handlers.len() { 0 } else { part.max(1) };
        part.min(handlers[place].concurrency)
    }
}
