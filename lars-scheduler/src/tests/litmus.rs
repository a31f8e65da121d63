//! The store-buffer litmus of `engine::sleep_word`, with each kind of notice. For Miri, which
//! knows `SeqCst` accesses as they are: the models of loom cannot tell them from weaker ones,
//! because of their own fences.

use crate::base::tick::{NEVER, Tick};
use crate::engine::entry::Entry;
use crate::engine::intake::{Intake, Pop};
use crate::engine::lane::Lane;
use crate::engine::lanes::{LaneSettings, Lanes, MOST_WHEELS};
use crate::engine::listing::{Filter, Requests};
use crate::engine::pace::ENDLESS;
use crate::engine::sleep_word::{AfterPush, Alarm, FOREVER, SleepWord};
use crate::engine::stop_word::StopWord;
use crate::sync::{Arc, AtomicBool, Ordering, thread, yield_now};

/// Both sides, again and again: `gives` gives a notice and looks at the sleep word, `announces`
/// writes that, `looks` looks at the notices. The sleeper sees the notice, or is woken, or the
/// producer `gives` with the result that it has seen the word.
///
/// Before that another thread has woken the sleeper, and has not got far enough for anybody to know
/// that it was that thread. The producer must not find what that one wrote when it looks for what
/// was announced after it.
fn neither_misses_the_other<N: Send + Sync + 'static>(
    make: fn() -> N,
    gives: fn(&N, &SleepWord) -> bool,
    announces: fn(&SleepWord),
    looks: fn(&N) -> bool,
) {
    for round in 0_u32..if cfg!(miri) { 50 } else { 1_000 } {
        let woken = Arc::new(AtomicBool::new(false));
        let bell = Arc::clone(&woken);
        // Relaxed, and below: the other thread has ended when this is read.
        let alarm = Alarm::Call(Box::new(move || bell.store(true, Ordering::Relaxed)));
        let both = Arc::new((make(), SleepWord::new(alarm)));
        both.1.announce_sleep(FOREVER);
        // Relaxed: a thread that sees it learns of nothing else.
        let go = Arc::new(AtomicBool::new(false));
        let wait = |go: &AtomicBool| {
            while !go.load(Ordering::Relaxed) {
                yield_now();
            }
        };
        let producer = {
            let (both, go) = (Arc::clone(&both), Arc::clone(&go));
            thread::spawn(move || {
                wait(&go);
                gives(&both.0, &both.1)
            })
        };
        let waker = {
            let (both, go) = (Arc::clone(&both), Arc::clone(&go));
            thread::spawn(move || {
                both.1.wake();
                go.store(true, Ordering::Relaxed);
            })
        };
        wait(&go);
        woken.store(false, Ordering::Relaxed);
        // Under Miri, the other thread gets on when this one gives way: not at all in every other
        // round, and in those between a little more each time, until it has come far enough.
        let far = if cfg!(miri) { round % 2 * (round / 2 % 25).pow(2) } else { 0 };
        (0..far).for_each(|_| yield_now());
        announces(&both.1);
        let seen = looks(&both.0);
        let sees = producer.join().unwrap();
        waker.join().unwrap();
        assert!(seen || sees || woken.load(Ordering::Relaxed), "each missed the other");
    }
}

fn no_wake_up_is_lost<N: Send + Sync + 'static>(
    make: fn() -> N,
    gives: fn(&N, &SleepWord) -> bool,
    looks: fn(&N) -> bool,
) {
    neither_misses_the_other(make, gives, |sleep| sleep.announce_sleep(FOREVER), looks);
}

/// A channel, and the entry that is pushed into it.
struct Channel {
    intake: Intake,
    entry: *mut Entry,
}

// SAFETY: one thread pushes the entry, and does not touch it after that.
unsafe impl Send for Channel {}
// SAFETY: the intake may be shared, and only the pushing thread uses the entry's address.
unsafe impl Sync for Channel {}

impl Channel {
    fn new() -> Self {
        Self { intake: Intake::new(), entry: Box::into_raw(Box::new(Entry::free(0))) }
    }

    fn push(&self) {
        // SAFETY: one thread calls this, once, and the entry is there until the channel goes.
        unsafe { self.intake.push(self.entry) };
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made by `Box`, and the intake does not look at it when it goes.
        drop(unsafe { Box::from_raw(self.entry) });
    }
}

#[test]
fn a_push_is_seen_by_the_sleeper_or_its_producer_sees_the_sleep() {
    let gives = |channel: &Channel, sleep: &SleepWord| {
        channel.push();
        sleep.after_push(0) == AfterPush::Stopped
    };
    // SAFETY: there is one consumer, the caller.
    no_wake_up_is_lost(Channel::new, gives, |channel| unsafe { !channel.intake.is_empty() });
}

#[test]
fn a_push_is_seen_by_the_last_drain_or_its_producer_sees_the_stop() {
    let gives = |channel: &Channel, sleep: &SleepWord| {
        channel.push();
        sleep.after_push(0) == AfterPush::Stopped
    };
    neither_misses_the_other(Channel::new, gives, SleepWord::announce_stopped, |channel| {
        let mut mark = channel.intake.mark();
        // SAFETY: there is one consumer, the caller.
        unsafe { channel.intake.pop_up_to(&mut mark) != Pop::Empty }
    });
}

#[test]
fn a_request_for_a_visit_is_seen_by_the_sleeper_or_its_owner_sees_the_sleep() {
    let gives = |lane: &Lane, sleep: &SleepWord| {
        lane.ask_for_visit(5);
        sleep.after_push(0) == AfterPush::Stopped
    };
    no_wake_up_is_lost(|| Lane::new(0, false, ENDLESS), gives, |lane| lane.earliest() != NEVER);
}

fn lanes() -> Lanes {
    let tick = Tick::new(Tick::MIN).expect("the shortest tick is a tick");
    let settings = LaneSettings {
        channels: 1,
        wheel_after: Some(0),
        most_wheels: MOST_WHEELS,
        tick,
        wheel_size: 2,
    };
    Lanes::new(settings, ENDLESS)
}

#[test]
fn a_new_wheel_is_seen_by_the_sleeper_or_its_owner_sees_the_sleep() {
    let gives = |lanes: &Lanes, sleep: &SleepWord| {
        let own = lanes.of_this_thread();
        assert!(lanes.wheel_of(own, 0).is_some());
        own.lane.ask_for_visit(5);
        sleep.after_push(0) == AfterPush::Stopped
    };
    no_wake_up_is_lost(lanes, gives, |lanes| {
        // SAFETY: a wheel lives as long as the lanes.
        let wheel = unsafe { lanes.newest_wheel().as_ref() };
        wheel.is_some_and(|wheel| wheel.lane().earliest() != NEVER)
    });
}

/// The walk of a listing comes from an entry to its lane, and so to a wheel that it may not know.
#[test]
fn a_wheel_that_another_thread_finds_in_its_lane_is_there_as_it_was_made() {
    let lanes = Arc::new(lanes());
    let maker = {
        let lanes = Arc::clone(&lanes);
        thread::spawn(move || assert!(lanes.wheel_of(lanes.of_this_thread(), 0).is_some()))
    };
    let number = loop {
        match lanes.iter().find_map(Lane::wheel) {
            Some(wheel) => break wheel.number,
            None => yield_now(),
        }
    };
    assert_eq!(number, 0);
    maker.join().unwrap();
}

#[test]
fn a_request_to_stop_is_seen_by_the_sleeper_or_wakes_it() {
    let gives = |stop: &StopWord, sleep: &SleepWord| {
        drop(stop.request(false));
        sleep.wake();
        false
    };
    no_wake_up_is_lost(StopWord::new, gives, StopWord::is_requested);
}

#[test]
fn a_request_for_a_listing_is_seen_by_the_sleeper_or_wakes_it() {
    let gives = |requests: &Requests, sleep: &SleepWord| {
        drop(requests.ask(Filter::default()));
        sleep.wake();
        false
    };
    no_wake_up_is_lost(Requests::new, gives, Requests::is_asked);
}
