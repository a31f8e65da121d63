//! What W8 and W13 have in common: timers of which most are cancelled soon, some are moved, and
//! some fire.
//!
//! Each producer goes through a script that was written before, and shares nothing with the others
//! but the peer. The clock is read for those timers only whose lateness is recorded: one in twenty.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use benches::Xorshift;

use super::lateness;
use super::producers::{Span, span};
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::{LIMIT, Producer, Timers};
use benches::process;

/// What becomes of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Cancelled,
    Moved,
    Untouched,
}

/// Of twenty timers, eighteen are cancelled.
const GROUP: usize = 20;
const CANCELLED: usize = 18;

/// A script has this many groups, and is begun again.
const GROUPS: usize = 1024;

/// Timers are cancelled or moved at most this many steps later.
const LATEST: u64 = 1000;

/// The steps that one can look ahead, as a power of two.
const RING: usize = 1024;

/// One line of a script.
#[derive(Debug, Clone, Copy)]
struct Step {
    delay: Duration,
    /// Cancelled or moved after this many steps.
    after: u16,
    fate: Fate,
}

/// Exponential delays of this mean: one from each of as many parts of equal likelihood, shuffled.
/// The longest is then less than eleven times the mean.
fn script(mean: Duration, producer: u64) -> Vec<Step> {
    let mut random = Xorshift::new(producer);
    let length = GROUP * GROUPS;
    let mut delays: Vec<_> = (0..length)
        .map(|part| {
            let left = (length - part) as f64 - 0.5;
            mean.mul_f64(-(left / length as f64).ln())
        })
        .collect();
    shuffle(&mut delays, &mut random);
    delays
        .chunks(GROUP)
        .flat_map(|delays| {
            let mut fates = [Fate::Cancelled; GROUP];
            fates[CANCELLED..].copy_from_slice(&[Fate::Moved, Fate::Untouched]);
            shuffle(&mut fates, &mut random);
            let steps = delays.iter().zip(fates).map(|(&delay, fate)| Step {
                delay,
                after: (1 + random.number() % LATEST) as u16,
                fate,
            });
            steps.collect::<Vec<_>>()
        })
        .collect()
}

fn shuffle<T>(items: &mut [T], random: &mut Xorshift) {
    for place in (1..items.len()).rev() {
        items.swap(place, (random.number() % (place as u64 + 1)) as usize);
    }
}

/// Where the callbacks of each fate leave what they saw. Producers do not write there.
#[derive(Debug, Clone, Copy)]
struct Recorders {
    cancelled: &'static Recorder,
    moved: &'static Recorder,
    untouched: &'static Recorder,
}

/// How many timers of each kind there were.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    untouched: u64,
    moved: u64,
    /// Those that the peer said it could not cancel any more.
    not_cancelled: u64,
}

/// One producer at work.
pub(super) struct Mix<P: Producer> {
    producer: P,
    recorders: Recorders,
    script: Vec<Step>,
    /// The next line of the script.
    line: usize,
    mean: Duration,
    /// The number of steps taken.
    steps: usize,
    /// What is to be cancelled or moved, by the step at which that is done.
    ring: Vec<Vec<(P::Timer, Fate)>>,
    tally: Tally,
}

impl<P: Producer> Mix<P> {
    fn new(producer: P, recorders: Recorders, mean: Duration, number: u64) -> Self {
        Self {
            producer,
            recorders,
            script: script(mean, number),
            line: 0,
            mean,
            steps: 0,
            ring: (0..RING).map(|_| process::touched_vec(4)).collect(),
            tally: Tally::default(),
        }
    }

    /// Schedules one timer; cancels or moves those whose turn it is.
    #[inline]
    pub(super) fn step(&mut self) {
        self.settle_accounts();
        let Step { delay, after, fate } = self.script[self.line];
        self.line += 1;
        if self.line == self.script.len() {
            self.line = 0;
        }
        let callback = match fate {
            Fate::Cancelled => self.recorders.cancelled.callback(),
            Fate::Moved => self.recorders.moved.callback(),
            Fate::Untouched => self.recorders.untouched.due_at(Instant::now() + delay),
        };
        let timer = self.producer.schedule(delay, callback);
        if fate == Fate::Untouched {
            self.tally.untouched += 1;
            self.producer.release(timer);
        } else {
            self.ring[(self.steps + usize::from(after)) % RING].push((timer, fate));
        }
        self.steps += 1;
    }

    #[inline]
    fn settle_accounts(&mut self) {
        while let Some((timer, fate)) = self.ring[self.steps % RING].pop() {
            if fate == Fate::Cancelled {
                self.tally.not_cancelled += u64::from(!self.producer.cancel(timer));
                continue;
            }
            self.tally.moved += 1;
            let callback = self.recorders.moved.callback();
            if let Some(timer) = self.producer.reset(timer, self.mean, callback) {
                self.producer.release(timer);
            }
        }
    }

    /// Cancels and moves what is left over.
    fn finish(&mut self) {
        for _ in 0..RING {
            self.settle_accounts();
            self.steps += 1;
        }
    }
}

/// After this long everything ought to have fired: with a mean of 200 ms the longest delay is two
/// thirds of it.
const DRAINED_WITHIN: Duration = Duration::from_secs(3);

/// Between two looks at whether everything has fired.
const LOOK: Duration = Duration::from_millis(1);

/// Lets each producer `run` through a mix with delays of this mean, waits until all that is to fire
/// has fired, and tells lateness, memory, and whether all is accounted for. Returns what `run` did.
pub(super) fn drive<T: Timers, R: Send>(
    case: &Case,
    mean: Duration,
    outcome: &mut Outcome,
    run: impl Fn(&mut Mix<T::Producer<'_>>, u64) -> R + Sync,
) -> Vec<(Span, R)> {
    let recorders = Recorders {
        cancelled: Recorder::count(),
        moved: Recorder::count(),
        untouched: Recorder::spread(),
    };
    let timers = T::start();
    let barrier = Barrier::new(case.producers as usize + 1);
    let results = Mutex::new(Vec::new());
    let tallies = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..case.producers {
            let (timers, barrier, results, tallies, run) =
                (&timers, &barrier, &results, &tallies, &run);
            scope.spawn(move || {
                let mut mix = Mix::new(timers.producer(), recorders, mean, number);
                barrier.wait(); // everything is in place
                let mut result = None;
                let work = |mix: &mut Mix<_>| {
                    result = Some(run(mix, number));
                    mix.finish();
                };
                let span = span(barrier, &mut mix, work, |_| ());
                let result = result.expect("it has run");
                results.lock().expect("no producer panics").push((span, result));
                tallies.lock().expect("no producer panics").push(mix.tally);
                barrier.wait(); // done
                barrier.wait(); // fired, with all threads and what they own still there
            });
        }
        barrier.wait();
        let (memory, cpu) = (process::resident(), process::cpu_time());
        process::forget_peak();
        barrier.wait();
        barrier.wait();
        let tally = sum(&tallies.lock().expect("no producer panics"));
        if T::FIRES {
            drain::<T>(recorders, tally, mean, outcome);
        }
        outcome.set("cpu_s", (process::cpu_time() - cpu).as_secs_f64());
        let grown = |now: usize| (now as f64 - memory as f64) / f64::from(1 << 20);
        outcome.set("end_mib", grown(process::resident()));
        outcome.set("peak_mib", grown(process::peak()));
        barrier.wait();
    });
    lateness::tell_spread(recorders.untouched, T::IS_OURS, outcome);
    results.into_inner().expect("no producer panics")
}

fn sum(tallies: &[Tally]) -> Tally {
    tallies.iter().fold(Tally::default(), |sum, tally| Tally {
        untouched: sum.untouched + tally.untouched,
        moved: sum.moved + tally.moved,
        not_cancelled: sum.not_cancelled + tally.not_cancelled,
    })
}

/// Waits until everything has fired, and looks whether that is as it should be.
fn drain<T: Timers>(recorders: Recorders, tally: Tally, mean: Duration, outcome: &mut Outcome) {
    let begin = Instant::now();
    let fired = || {
        let Recorders { cancelled, moved, untouched } = recorders;
        (untouched.calls(), moved.calls(), cancelled.calls())
    };
    let missing = || {
        let (untouched, moved, cancelled) = fired();
        // A peer whose answers are not exact does not know of these.
        let not_cancelled = if T::ANSWERS { tally.not_cancelled } else { 0 };
        tally.untouched.saturating_sub(untouched)
            + tally.moved.saturating_sub(moved)
            + not_cancelled.saturating_sub(cancelled)
    };
    let wait = |limit| {
        while missing() > 0 && begin.elapsed() < limit {
            thread::sleep(LOOK);
        }
        missing()
    };
    let after_3s = wait(DRAINED_WITHIN);
    outcome.set("after_3s", after_3s as f64);
    let lost = wait(LIMIT);
    outcome.set("drained_ms", begin.elapsed().as_secs_f64() * 1e3);
    outcome.check(lost == 0, || format!("{lost} did not fire"));
    // What fires though it should not has a moment for it.
    thread::sleep(mean.min(Duration::from_millis(100)));
    let (untouched, moved, cancelled) = fired();
    // (A peer that is polled may be called twice: by its timer, and as ready by the poll itself.)
    if T::ANSWERS {
        let right = untouched == tally.untouched;
        outcome.check(right, || format!("{untouched} fired of {} left alone", tally.untouched));
        let right = moved == tally.moved;
        outcome.check(right, || format!("{moved} fired of {} moved", tally.moved));
        let right = cancelled == tally.not_cancelled;
        let failed = tally.not_cancelled;
        outcome.check(right, || format!("{cancelled} fired, {failed} could not be cancelled"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Duration = Duration::from_millis(200);

    #[test]
    fn a_script_has_eighteen_of_twenty_cancelled_one_moved_and_one_left_alone() {
        for group in script(MEAN, 3).chunks(GROUP) {
            let count = |fate| group.iter().filter(|step| step.fate == fate).count();
            let counts = [Fate::Cancelled, Fate::Moved, Fate::Untouched].map(count);
            assert_eq!(counts, [18, 1, 1]);
            assert!(group.iter().all(|step| (1..=1000).contains(&step.after)));
        }
    }

    #[test]
    fn delays_of_a_script_are_exponential_with_the_mean_that_is_asked_for() {
        let script = script(MEAN, 0);
        let sum: Duration = script.iter().map(|step| step.delay).sum();
        let mean = sum / script.len() as u32;
        assert!(mean.abs_diff(MEAN) < MEAN / 1000, "{mean:?}");
        // Of an exponential distribution one part in e is longer than the mean.
        let longer = script.iter().filter(|step| step.delay > MEAN).count() as f64;
        assert!((longer / script.len() as f64 - (-1_f64).exp()).abs() < 0.001);
        assert!(script.iter().all(|step| step.delay < MEAN * 11));
    }

    #[test]
    fn producers_have_scripts_of_their_own() {
        let delays =
            |producer| -> Vec<_> { script(MEAN, producer).iter().map(|step| step.delay).collect() };
        assert_ne!(delays(0), delays(1));
    }
}
