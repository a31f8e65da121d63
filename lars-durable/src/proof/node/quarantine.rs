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
fn timers_that_start_in_their_order_wait_for_those_in_quarantine() {
    for in_order in [true, false] {
        let mut bench = Bench::with(|settings| {
            settings.handlers[0].in_order = in_order;
            settings.handlers[0].concurrency = 4;
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
        let begun: Vec<&str> = bench.launched.iter().map(|it| &*it.row.payload).collect();
        assert_eq!(begun, if in_order { &["0", "1"][..] } else { &["0", "1", "4", "5"] });
        bench.run_until(60 * SECOND, done);
        assert_eq!(bench.texts(), ["0", "1", "2", "3", "4", "5"]);
    }
}
