//! Sequences of operations on a delay queue, against a model that is a sorted map. One thread;
//! clocks that are moved by hand; futures that are polled by hand, and dropped.
//!
//! Two users: `tests/it/delay_queue.rs` feeds it with random bytes, and the fuzzer in `fuzz/` with
//! bytes that it has chosen by the coverage that they bring.
//!
//! - [`ops`]: what may happen, and how bytes become it.
//! - [`consumers`]: the futures, and whether they were woken.

mod consumers;
mod ops;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use consumers::{Consumer, Got};
use lars_jobs::delay_queue::{DelayKey, DelayQueue, QueueClosed};
use lars_scheduler::{Cancellable, Handle, LightArrayRevolverScheduler, Refusal, VirtualTime};
pub(crate) use ops::Sequence;
use ops::{Clock, LAST, Op};

/// Carries out a sequence, and checks each step. Returns how many operations that were.
pub(crate) fn check(sequence: &Sequence) -> Result<u64, String> {
    let mut world = World::new(sequence);
    for op in &sequence.ops {
        world.carry_out(op).map_err(|why| format!("{op:?}: {why}"))?;
        world.compare().map_err(|why| format!("after {op:?}: {why}"))?;
    }
    world.end(sequence.take_all).map_err(|why| format!("at the end: {why}"))?;
    Ok(sequence.ops.len() as u64)
}

fn same<T: PartialEq + Debug>(what: &str, is: &T, should: &T) -> Result<(), String> {
    if is == should { Ok(()) } else { Err(format!("{what} is {is:?}, not {should:?}")) }
}

/// Nanoseconds from the start, before it or after it.
type Nanos = i128;

/// The deadline of what never comes due.
const NEVER: Nanos = Nanos::MAX;

/// An item: its number, and how often it was dropped.
#[derive(Debug)]
struct Item(usize, Arc<AtomicUsize>);

impl Drop for Item {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

struct Put {
    /// `None` if it was refused.
    key: Option<DelayKey>,
    due: Nanos,
    drops: Arc<AtomicUsize>,
}

struct World {
    queue: DelayQueue<Item>,
    time: VirtualTime,
    handle: Handle,
    clock: Clock,
    /// What a clock of its own shows.
    own: Arc<AtomicU64>,
    tick: Duration,
    one_timer: bool,
    start: Instant,
    consumers: Vec<Consumer>,
    other_timer: Option<Cancellable>,
    stopped: bool,
    other_key: DelayKey,
    // The model.
    items: BTreeMap<(Nanos, usize), ()>,
    puts: Vec<Put>,
    now: u64,
    closed: bool,
}

impl World {
    fn new(sequence: &Sequence) -> Self {
        let mut builder = LightArrayRevolverScheduler::builder().tick_duration(sequence.tick);
        if sequence.one_timer {
            builder = builder.max_pending(1);
        }
        let time = builder.build_virtual().expect("the settings are good");
        let (handle, own) = (time.handle(), Arc::new(AtomicU64::new(0)));
        let start = handle.now();
        let queue = match sequence.clock {
            Clock::Schedulers => {
                let handle = handle.clone();
                DelayQueue::with_clock(move || handle.now())
            }
            Clock::Own => {
                let own = Arc::clone(&own);
                DelayQueue::with_clock(move || {
                    start + Duration::from_nanos(own.load(Ordering::Relaxed))
                })
            }
        };
        // Number and deadline are those of the first item; the queue is not.
        let other_key = DelayQueue::new().put_at((), start).expect("it is open");
        Self {
            queue,
            time,
            handle,
            clock: sequence.clock,
            own,
            tick: sequence.tick,
            one_timer: sequence.one_timer,
            start,
            consumers: Vec::new(),
            other_timer: None,
            stopped: false,
            other_key,
            items: BTreeMap::new(),
            puts: Vec::new(),
            now: 0,
            closed: false,
        }
    }

    fn carry_out(&mut self, op: &Op) -> Result<(), String> {
        match *op {
            Op::Put(delay) => {
                let put = |queue: &DelayQueue<Item>, item| queue.put(item, delay);
                self.put(due_after(self.now, delay), put)
            }
            Op::PutAt(ahead) => {
                let Some(at) = self.instant().checked_add(ahead) else { return Ok(()) };
                self.put(due_after(self.now, ahead), |queue, item| queue.put_at(item, at))
            }
            Op::PutPast(ago) => {
                let Some(at) = self.instant().checked_sub(ago) else { return Ok(()) };
                let due = Nanos::from(self.now) - ago.as_nanos() as Nanos;
                self.put(due, |queue, item| queue.put_at(item, at))
            }
            Op::Poll => {
                let is = self.queue.poll().map(|item| item.0);
                same("the item", &is, &self.pop_due())
            }
            Op::PollTimeout => {
                let is =
                    self.queue.poll_timeout(Duration::ZERO).map(|item| item.map(|item| item.0));
                let should = self.pop_due();
                let refused = should.is_none() && self.closed;
                same("the item", &is, &if refused { Err(QueueClosed) } else { Ok(should) })
            }
            Op::Take => {
                let should = self.pop_due();
                if should.is_none() && !self.closed {
                    return Ok(()); // it would block
                }
                let is = self.queue.take().map(|item| item.0);
                same("the item", &is, &should.ok_or(QueueClosed))
            }
            Op::Drain => {
                let is = self.queue.drain();
                self.drained(is, usize::MAX)
            }
            Op::DrainUpTo(max) => {
                let is = self.queue.drain_up_to(max);
                self.drained(is, max)
            }
            Op::TakeAll => self.take_all(),
            Op::Remove(nth) => self.remove(nth),
            Op::Remaining(nth) => self.remaining(nth),
            Op::Advance(by) => {
                self.advance(u64::try_from(by.as_nanos()).unwrap_or(LAST));
                Ok(())
            }
            Op::AdvanceToFirst { before } => {
                let first = self.items.first_key_value().map(|(&(due, _), ())| due);
                let target = first.map_or(0, |due| due - Nanos::from(before));
                if let Ok(by) = u64::try_from(target.saturating_sub(self.now.into())) {
                    self.advance(by);
                }
                Ok(())
            }
            Op::Jump(by) => {
                if self.clock == Clock::Own {
                    let by = u64::try_from(by.as_nanos()).unwrap_or(LAST);
                    self.now += by.min(LAST - self.now);
                    self.own.store(self.now, Ordering::Relaxed);
                }
                self.queue.clock_moved();
                same("all are woken", &self.consumers.iter().all(|one| !one.waits()), &true)
            }
            Op::Consumer { stream } => {
                if self.consumers.len() < 6 {
                    self.consumers.push(Consumer::new(&self.queue, &self.handle, stream));
                }
                Ok(())
            }
            Op::PollConsumer(nth) => self.poll_consumer(nth),
            Op::DropConsumer(nth) => {
                if !self.consumers.is_empty() {
                    drop(self.consumers.swap_remove(nth % self.consumers.len()));
                }
                Ok(())
            }
            Op::Close => {
                same("the first close", &self.queue.close(), &!self.closed)?;
                self.closed = true;
                same("all are told", &self.consumers.iter().all(|one| !one.waits()), &true)
            }
            Op::OtherTimer => {
                match self.other_timer.take() {
                    Some(timer) => same("cancelled", &timer.cancel(), &!self.stopped)?,
                    None => {
                        self.other_timer = self.handle.schedule_once(Duration::MAX, || ()).ok();
                    }
                }
                Ok(())
            }
            Op::Stop => {
                // The tasks that are handed back are dropped: that tells who waits for them.
                drop(self.time.stop());
                self.stopped = true;
                Ok(())
            }
        }
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_nanos(self.now)
    }

    /// The first item if it is due, which then is gone.
    fn pop_due(&mut self) -> Option<usize> {
        let first = self.items.first_entry()?;
        (first.key().0 <= self.now.into()).then(|| first.remove_entry().0.1)
    }

    fn put(
        &mut self,
        due: Nanos,
        put: impl FnOnce(
            &DelayQueue<Item>,
            Item,
        ) -> Result<DelayKey, lars_jobs::delay_queue::PutError<Item>>,
    ) -> Result<(), String> {
        let (number, drops) = (self.puts.len(), Arc::<AtomicUsize>::default());
        let result = put(&self.queue, Item(number, Arc::clone(&drops)));
        same("accepted", &result.is_ok(), &!self.closed)?;
        let key = match result {
            Ok(key) => {
                self.items.insert((due, number), ());
                Some(key)
            }
            Err(error) => {
                same("the item given back", &error.into_item().0, &number)?;
                None
            }
        };
        self.puts.push(Put { key, due, drops });
        Ok(())
    }

    fn drained(&mut self, is: Vec<Item>, max: usize) -> Result<(), String> {
        let is: Vec<usize> = is.iter().map(|item| item.0).collect();
        let should: Vec<usize> = std::iter::from_fn(|| self.pop_due()).take(max).collect();
        same("what was drained", &is, &should)
    }

    fn take_all(&mut self) -> Result<(), String> {
        let is: Vec<_> = self.queue.take_all().iter().map(|(at, item)| (*at, item.0)).collect();
        let items = std::mem::take(&mut self.items);
        let should: Vec<_> =
            items.into_keys().map(|(due, number)| (at(self.start, due), number)).collect();
        same("what was taken out", &is, &should)
    }

    fn remove(&mut self, nth: usize) -> Result<(), String> {
        same("of another queue", &self.queue.remove(self.other_key).is_none(), &true)?;
        same("of another queue", &self.queue.remaining(self.other_key), &None)?;
        if self.puts.is_empty() {
            return Ok(());
        }
        let number = nth % self.puts.len();
        let put = &self.puts[number];
        let Some(key) = put.key else { return Ok(()) };
        let should = self.items.remove(&(put.due, number)).map(|()| number);
        same("what was removed", &self.queue.remove(key).map(|item| item.0), &should)
    }

    fn remaining(&self, nth: usize) -> Result<(), String> {
        if self.puts.is_empty() {
            return Ok(());
        }
        let number = nth % self.puts.len();
        let put = &self.puts[number];
        let Some(key) = put.key else { return Ok(()) };
        let is_here = self.items.contains_key(&(put.due, number));
        let should = is_here.then(|| remaining(put.due, self.now));
        same("what remains", &self.queue.remaining(key), &should)
    }

    /// Both clocks; that of the queue first, or last, in turn.
    fn advance(&mut self, by: u64) {
        let by = by.min(LAST - self.now);
        let queue_first = self.now.is_multiple_of(2);
        self.now += by;
        if queue_first {
            self.own.store(self.now, Ordering::Relaxed);
        }
        self.time.advance(Duration::from_nanos(by));
        self.own.store(self.now, Ordering::Relaxed);
    }

    fn poll_consumer(&mut self, nth: usize) -> Result<(), String> {
        if self.consumers.is_empty() {
            return Ok(());
        }
        let nth = nth % self.consumers.len();
        if self.consumers[nth].has_ended() {
            return same("ended", &self.consumers[nth].poll(&self.queue), &Got::End);
        }
        let got = self.consumers[nth].poll(&self.queue);
        match (self.pop_due(), got) {
            (Some(number), got) => same("what it got", &got, &Got::Item(number)),
            (None, Got::End) => same("closed", &self.closed, &true),
            (None, Got::Refused(Refusal::Stopped)) => same("stopped", &self.stopped, &true),
            (None, Got::Refused(Refusal::Full { .. })) => {
                same("full", &(self.one_timer && self.other_timer.is_some()), &true)
            }
            (None, Got::Pending) => same("closed", &self.closed, &false),
            (None, got) => Err(format!("it got {got:?}, but nothing is due")),
        }
    }

    fn compare(&mut self) -> Result<(), String> {
        same("the size", &self.queue.len(), &self.items.len())?;
        same("empty", &self.queue.is_empty(), &self.items.is_empty())?;
        same("closed", &self.queue.is_closed(), &self.closed)?;
        let first = self.items.first_key_value().map(|(&key, ())| key);
        let head = self.queue.peek().map(|head| (head.0, head.remaining(), head.key()));
        let should = first.map(|(due, number)| {
            (number, remaining(due, self.now), self.puts[number].key.unwrap())
        });
        same("the first item", &head, &should)?;
        if self.clock == Clock::Schedulers {
            same("the time", &self.handle.now(), &self.instant())?;
        }
        self.compare_consumers(first.map_or(NEVER, |(due, _)| due))
    }

    /// Nobody is forgotten, and one timer is enough.
    fn compare_consumers(&self, first: Nanos) -> Result<(), String> {
        let timers = self.time.pending() - u64::from(self.has_other_timer());
        let limit = u64::from(!self.consumers.is_empty());
        same("not more than one timer", &(timers <= limit), &true)?;
        let waiting = self.consumers.iter().filter(|one| one.waits()).count();
        let woken = self.consumers.iter().filter(|one| one.is_woken()).count();
        if waiting == 0 || first == NEVER || woken > 0 {
            return Ok(());
        }
        same("somebody has a timer", &timers, &1)?;
        let is_due = first <= self.now.into() && self.tick == Duration::from_nanos(1);
        same("nobody was woken for what is due", &is_due, &false)
    }

    fn has_other_timer(&self) -> bool {
        self.other_timer.is_some() && !self.stopped
    }

    fn end(mut self, take_all: bool) -> Result<(), String> {
        self.consumers.clear();
        same("the timers", &self.time.pending(), &u64::from(self.has_other_timer()))?;
        if take_all {
            self.take_all()?;
        }
        drop(self.queue);
        for (number, put) in self.puts.iter().enumerate() {
            same(&format!("drops of {number}"), &put.drops.load(Ordering::Relaxed), &1)?;
        }
        Ok(())
    }
}

/// The deadline of a delay that begins now. Those that no clock can show are never.
fn due_after(now: u64, delay: Duration) -> Nanos {
    if delay == Duration::MAX { NEVER } else { Nanos::from(now) + delay.as_nanos() as Nanos }
}

fn remaining(due: Nanos, now: u64) -> Duration {
    match due {
        NEVER => Duration::MAX,
        due => duration(due - Nanos::from(now)),
    }
}

fn duration(nanos: Nanos) -> Duration {
    let nanos = nanos.max(0);
    Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32)
}

fn at(start: Instant, due: Nanos) -> Option<Instant> {
    match due {
        NEVER => None,
        0.. => Some(start + duration(due)),
        _ => Some(start - duration(-due)),
    }
}
