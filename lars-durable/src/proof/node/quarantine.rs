//! What a dead process had started comes back in groups, and the guilty is found among them.

use super::*;

/// All `count` timers run, and the process dies. `poison` are the ones that kill it.
struct Dying {
    bench: Bench,
    poison: Vec<String>,
    deaths: u32,
    most: usize,
}

impl Dying {
    fn new(count: usize, poison: &[usize]) -> Self {
        let mut bench = Bench::new();
        for number in 0..count {
            bench.schedule(SECOND, &number.to_string(), None);
        }
        bench.run_until(SECOND - 3_000, done);
        assert_eq!(bench.launched.len(), count);
        let poison = poison.iter().map(usize::to_string).collect();
        Self { bench, poison, deaths: 0, most: 0 }
    }

    /// Lives until all is over; each run takes a second, and one that kills does so at its end.
    fn live(&mut self) {
        loop {
            self.deaths += 1;
            let bench = &mut self.bench;
            bench.move_to(bench.now + 60 * SECOND);
            bench.live();
            if !self.dies() {
                return;
            }
        }
    }

    fn dies(&mut self) -> bool {
        let bench = &mut self.bench;
        let until = bench.now + 600 * SECOND;
        while bench.now < until {
            bench.move_to(bench.now + SECOND);
            bench.turn();
            let running = std::mem::take(&mut bench.launched);
            self.most = self.most.max(running.len());
            if running.iter().any(|launch| self.poison.contains(&launch.row.payload)) {
                return true;
            }
            for launch in running {
                bench.seen.push((launch.row.payload.clone(), 0, bench.now, launch.row.attempt));
                let (now, id) = (Mono(bench.now), launch.row.id);
                bench.node().ended(now, id, launch.fence, RunEnd::Done);
            }
        }
        false
    }
}

#[test]
fn what_was_interrupted_comes_back_in_groups_of_the_square_root() {
    let mut dying = Dying::new(256, &[]);
    dying.live();
    assert_eq!((dying.most, dying.deaths), (16, 1));
    assert_eq!(dying.bench.seen.len(), 256);
    let ended = dying.bench.seen.iter().map(|(_, _, begun, _)| *begun).max().unwrap();
    let first = dying.bench.seen.iter().map(|(_, _, begun, _)| *begun).min().unwrap();
    assert!(ended - first <= 20 * SECOND, "{} s for 256 s of runs", (ended - first) / SECOND);
}

#[test]
fn the_one_that_kills_is_found_among_256_after_three_deaths_and_nobody_else_is_parked() {
    for guilty in [0, 100, 255] {
        let mut dying = Dying::new(256, &[guilty]);
        dying.live();
        assert_eq!(dying.bench.parked().len(), 1, "{:?}", dying.bench.parked());
        assert_eq!(dying.bench.parked()[0].0, guilty.to_string());
        assert_eq!((dying.bench.seen.len(), dying.deaths), (255, 3));
    }
}

#[test]
fn all_that_kill_are_found_and_nobody_else_is_parked() {
    let mut dying = Dying::new(100, &[3, 4, 50, 99]);
    dying.live();
    let mut parked: Vec<usize> =
        dying.bench.parked().iter().map(|(text, _)| text.parse().unwrap()).collect();
    parked.sort_unstable();
    assert_eq!(parked, [3, 4, 50, 99]);
    assert_eq!(dying.bench.seen.len(), 96);
}

#[test]
fn a_run_that_takes_long_does_not_keep_the_others_in_quarantine() {
    let mut bench = Bench::new();
    for number in 0..4 {
        bench.schedule(SECOND, &number.to_string(), None);
    }
    bench.run_until(SECOND - 3_000, done);
    // Dies twice, so that each has to be alone.
    for _ in 0..2 {
        bench.move_to(bench.now + 60 * SECOND);
        bench.live();
        bench.move_to(bench.now + 15 * SECOND);
        bench.turn();
        bench.move_to(bench.now + 5 * SECOND);
        bench.turn();
    }
    bench.move_to(bench.now + 60 * SECOND);
    bench.live();
    let mut ran = BTreeSet::new();
    for _ in 0..120 {
        bench.move_to(bench.now + SECOND);
        bench.turn();
        for launch in std::mem::take(&mut bench.launched) {
            ran.insert(launch.row.payload.clone());
            if launch.row.payload != "0" {
                let (now, id) = (Mono(bench.now), launch.row.id);
                bench.node().ended(now, id, launch.fence, RunEnd::Done);
            }
        }
    }
    assert_eq!(ran.len(), 4, "{ran:?}");
}

#[test]
fn timers_of_a_recipient_wait_for_those_of_the_same_in_quarantine() {
    let one: fn(&str) -> Recipient = |_| Recipient::of("one");
    // Of five places one is kept for another recipient.
    for (recipient, places, begun) in [
        (Some(one), 5, &["0", "1"][..]),
        (Some(Recipient::of), 4, &["0", "1", "4", "5"]),
        (None, 4, &["0", "1", "4", "5"]),
    ] {
        let mut bench = Bench::with(|settings| {
            settings.handlers[0].recipient = recipient;
            settings.handlers[0].concurrency = places;
        });
        for number in 0..6 {
            bench.schedule(SECOND, &number.to_string(), None);
        }
        bench.run_until(SECOND - 3_000, done);
        assert_eq!(bench.launched.len(), 4);
        bench.move_to(2 * SECOND);
        bench.live();
        while bench.launched.is_empty() {
            bench.move_to(bench.now + SECOND / 2);
            bench.turn();
        }
        let found: Vec<&str> = bench.launched.iter().map(|it| &*it.row.payload).collect();
        assert_eq!(found, begun);
        bench.run_until(60 * SECOND, done);
        assert_eq!(bench.texts(), ["0", "1", "2", "3", "4", "5"]);
    }
}

/// What a node has unless it is set.
const LEASE: i64 = 10 * SECOND;

/// Timers of `handler`, whose runs never end, and of `other`, all under way when the process dies.
struct Stuck {
    bench: Bench,
    /// How long a run of `other` takes.
    long: i64,
    /// When those of `other` were begun.
    begun: Vec<i64>,
}

impl Stuck {
    fn new(stuck: usize, others: usize, long: i64) -> Self {
        let mut bench =
            Bench::with(|settings| settings.handlers.push(HandlerSettings::new("other", 1_000)));
        // The first in order are those that are stuck.
        bench.schedule_many("handler", SECOND, stuck);
        bench.schedule_many("other", SECOND + 1, others);
        bench.run_until(SECOND - 3_000, done);
        assert_eq!(bench.launched.len(), stuck + others);
        Self { bench, long, begun: Vec::new() }
    }

    /// A new life, in which nothing ends, for so long after the lease of the one before.
    fn live_in_vain(&mut self, long: i64) {
        self.bench.move_to(self.bench.now + 60 * SECOND);
        self.bench.live();
        self.pass(LEASE - SECOND / 4, false);
        assert_eq!(self.bench.node().counts().quarantined, 0);
        self.pass(long, false);
    }

    /// Time passes; runs of `other` end, if they do.
    fn pass(&mut self, long: i64, ends: bool) {
        let bench = &mut self.bench;
        let until = bench.now + long;
        let mut running: Vec<(i64, Launch)> = Vec::new();
        while bench.now < until {
            bench.turn();
            let others = |it: &Launch| &*it.row.handler == "other";
            for launch in std::mem::take(&mut bench.launched).into_iter().filter(others) {
                self.begun.push(bench.now);
                running.push((bench.now + self.long, launch));
            }
            let over = running.extract_if(.., |(end, _)| ends && *end <= bench.now);
            for (_, launch) in over.collect::<Vec<_>>() {
                let now = Mono(bench.now);
                bench.node().ended(now, launch.row.id, launch.fence, RunEnd::Done);
            }
            bench.turn();
            bench.move_to(bench.now + SECOND / 4);
        }
    }

    /// The longest time without a start of `other`, since `from`.
    fn longest_pause(&self, from: i64) -> i64 {
        let mut last = from;
        let pauses = self.begun.iter().map(|begun| begun - std::mem::replace(&mut last, *begun));
        pauses.max().unwrap_or(0)
    }
}

#[test]
fn what_died_once_waits_for_no_other_handler_that_is_stuck() {
    let mut stuck = Stuck::new(100, 100, SECOND);
    stuck.live_in_vain(0);
    let from = stuck.bench.now;
    stuck.pass(15 * SECOND, true);
    let begun = &stuck.begun;
    assert_eq!(begun.len(), 100, "ten at a time, a second each");
    assert!(stuck.longest_pause(from) <= 2 * SECOND);
    assert_eq!(stuck.bench.node().counts().done, 100);
}

#[test]
fn what_died_once_waits_twenty_seconds_at_most_for_another_handlers_that_are_to_be_alone() {
    let mut stuck = Stuck::new(40, 0, SECOND);
    // All of them are begun, and die for the second time.
    stuck.live_in_vain(100 * SECOND);
    // Enough for two turns: 400 s of runs, twenty at a time.
    let now = stuck.bench.now;
    stuck.bench.schedule_many("other", now + SECOND, 400);
    stuck.bench.run_until(now + SECOND - 3_000, done);
    assert_eq!(stuck.bench.launched.iter().filter(|it| &*it.row.handler == "other").count(), 400);
    stuck.live_in_vain(0);
    let from = stuck.bench.now;
    stuck.pass(120 * SECOND, true);
    assert_eq!(stuck.bench.node().counts().done, 400);
    let longest = stuck.longest_pause(from);
    // Looked at each quarter of a second.
    assert!((10 * SECOND..=20 * SECOND + SECOND / 2).contains(&longest), "{longest}");
    assert!(stuck.bench.node().counts().quarantined > 401, "those had their turns, too");
}

#[test]
fn those_that_are_to_be_alone_take_turns_by_handler() {
    let mut stuck = Stuck::new(10, 3, SECOND / 2);
    stuck.live_in_vain(100 * SECOND);
    stuck.live_in_vain(0);
    let from = stuck.bench.now;
    stuck.begun.clear();
    stuck.pass(60 * SECOND, true);
    assert_eq!(stuck.begun.len(), 3, "{:?}", stuck.begun);
    let longest = stuck.longest_pause(from);
    assert!(longest <= 11 * SECOND, "one of the stuck ones in between: {longest}");
}

#[test]
fn timers_that_nobody_had_started_wait_for_nothing_in_quarantine() {
    let mut stuck = Stuck::new(40, 0, SECOND);
    stuck.live_in_vain(100 * SECOND);
    stuck.live_in_vain(0);
    stuck.bench.stuck = Some("handler");
    let now = stuck.bench.now + SECOND;
    for number in 1..=200 {
        let due = now + number * SECOND / 2;
        let timer = NewTimer { handler: "other".into(), ..stuck.bench.timer(due, "x", None) };
        stuck.bench.call(Write::Schedule(Arc::new(vec![timer])));
    }
    stuck.bench.run_until(now + 101 * SECOND, done);
    assert!(stuck.bench.node().counts().quarantined > 5, "each of them for ten seconds");
    let late = stuck.bench.seen.iter().filter(|(_, planned, begun, _)| planned != begun);
    assert_eq!(late.collect::<Vec<_>>(), Vec::<&Seen>::new());
    assert_eq!(stuck.bench.seen.len(), 200);
}
