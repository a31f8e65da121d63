//! Real processes that are killed, at any moment and between a commit and its answer, again and
//! again on one file.
//!
//! Each life of the process writes what its callers and handlers see into one log, in one write a
//! line, so that what was seen outlives it. In the end a last life brings everything to its end,
//! and the checker reads the log.
//!
//! In between the file is replaced by a backup of itself, which is declared. The runs of one
//! handler never end.
//!
//! `LARS_KILLS=2000 cargo test --release -p lars-durable --lib kill` kills that many.

mod actors;
mod stuck;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lars_base::backoff::BackoffPolicy;
use lars_scheduler::MissedTickBehavior::{Burst, Skip};

use super::history::{self, Answer, End, Event, Kind, Summary, Tag};
use super::in_short;
use super::tempdir::Directory;
use crate::failpoint::DIE;
use crate::query::{Found, Query, State};
use crate::schedule::{Accepted, Cancel, Placement};
use crate::time::Timestamp;
use crate::{Durable, Error, Fired, Handler, OnConflict, Outcome, Payload, Timers};

/// Kills of `cargo test`, and how many of them one file gets.
const KILLS: u64 = 24;
const KILLS_PER_FILE: u64 = 12;

/// How long a life lasts at most, in microseconds.
const LONGEST_LIFE: u64 = 120_000;

/// Where a life finds its file, and what it is to do.
const DIRECTORY: &str = "LARS_KILL_DIRECTORY";
const SEED: &str = "LARS_KILL_SEED";

#[derive(serde::Serialize, serde::Deserialize)]
struct Tagged(Tag);

impl Payload for Tagged {
    const NAME: &'static str = "tagged";
}

#[derive(serde::Serialize, serde::Deserialize)]
struct OnceOnly(Tag);

impl Payload for OnceOnly {
    const NAME: &'static str = "once-only";
}

/// Each third run of such a series fails at each attempt.
#[derive(serde::Serialize, serde::Deserialize)]
struct Failing(Tag);

impl Payload for Failing {
    const NAME: &'static str = "failing";
}

/// Keys of timers of which anything may become, and behind them those of series that fail.
const KEYS: u64 = 6;
const ALL_KEYS: u64 = 9;

#[test]
fn nothing_is_lost_early_or_twice_in_a_life_however_the_process_is_killed() {
    let kills = std::env::var("LARS_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let seed = std::env::var(SEED).map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(seed);
    println!("seed {seed}");
    let (mut left, mut total, mut longest) = (kills, Summary::default(), LONGEST_LIFE);
    // On a busy machine all may be killed before they have done anything: longer lives then.
    let did_little = |total: &Summary| total.runs == 0 || total.accepted == 0;
    while left > 0 || did_little(&total) && longest < LONGEST_LIFE * 1_000 {
        let lives = KILLS_PER_FILE.min(left.max(1));
        left = left.saturating_sub(lives);
        let summary = one_file(&mut rng, lives, longest);
        total.accepted += summary.accepted;
        total.runs += summary.runs;
        total.repeated += summary.repeated;
        total.prevented += summary.prevented;
        total.parked += summary.parked;
        if did_little(&total) {
            longest *= 2;
        }
    }
    println!("{kills} kills: {total:?}");
    assert!(!did_little(&total), "the processes did nothing");
}

fn one_file(rng: &mut fastrand::Rng, lives: u64, longest: u64) -> Summary {
    let directory = Directory::new("kill");
    let (backed_up, restored) = (rng.u64(0..lives), rng.u64(0..lives));
    for life_number in 0..lives {
        if life_number == backed_up.min(restored) {
            back_up(&directory);
        }
        if life_number == backed_up.max(restored) && backed_up != restored {
            restore(&directory);
        }
        let mut child = life(&directory, rng.u64(..), rng);
        // It has opened the file, or will be killed while it does.
        let patience = Duration::from_micros(rng.u64(0..longest));
        std::thread::sleep(patience);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut command = command(&directory, 0);
    let status = command.status().unwrap();
    let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(status.success(), "the last life ended with {status}\n{}", in_short("kill", &log));
    check(&log)
}

/// The file and its log, which nobody has open.
const FILES: [&str; 2] = ["timers.db", "timers.db-wal"];

fn back_up(directory: &Directory) {
    let backup = directory.path().join("backup");
    let _ = std::fs::create_dir(&backup);
    for name in FILES {
        // In the first life there is none.
        let _ = std::fs::copy(directory.path().join(name), backup.join(name));
    }
    if backup.join(FILES[0]).exists() {
        Log::open(directory.path()).note(Event::BackedUp);
    }
}

/// Unless nothing was backed up.
fn restore(directory: &Directory) {
    let backup = directory.path().join("backup");
    if !backup.join(FILES[0]).exists() {
        return;
    }
    let _ = std::fs::remove_file(directory.path().join("timers.db-shm"));
    for name in FILES {
        let (from, to) = (backup.join(name), directory.path().join(name));
        let _ = std::fs::remove_file(&to);
        if from.exists() {
            std::fs::copy(from, to).unwrap();
        }
    }
    Durable::declare_restored(directory.file()).unwrap();
    Log::open(directory.path()).note(Event::Restored);
}

/// What the processes have written goes through the checker.
pub(super) fn check(log: &str) -> Summary {
    // A line that was broken off is no event.
    let events: Vec<Event> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    history::check(&events).unwrap_or_else(|wrong| panic!("{wrong}\n{}", in_short("kill", log)))
}

fn command(directory: &Directory, seed: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["proof::kill::one_life", "--exact", "--test-threads=1"])
        .env(DIRECTORY, directory.path())
        .env(SEED, seed.to_string())
        .env_remove(DIE)
        .stdout(Stdio::null());
    command
}

/// A life that is to be killed; every second one dies by itself between two steps of the store.
fn life(directory: &Directory, seed: u64, rng: &mut fastrand::Rng) -> std::process::Child {
    let mut command = command(directory, seed.max(1));
    match rng.u8(..4) {
        0 => command.env(DIE, format!("before-commit:{}", rng.u32(1..40))),
        1 => command.env(DIE, format!("after-commit:{}", rng.u32(1..40))),
        _ => &mut command,
    };
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// Not a test of its own: what a process does until it is killed.
#[test]
fn one_life() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    let log = Log::open(Path::new(&directory));
    let file = Path::new(&directory).join("timers.db");
    let builder = Durable::sqlite(&file);
    let builder = actors::hosted(builder, &log);
    let durable = start(stuck::handled(builder, &log, seed == 0), &log, seed);
    let timers = durable.timers();
    if seed == 0 {
        bring_to_an_end(&durable, &timers, &log);
        let file = rusqlite::Connection::open(file).unwrap();
        note_parked(&timers, &log, |id| {
            let planned = "SELECT planned_at FROM lars_parked WHERE id = ?1";
            file.query_row(planned, [id.cast_signed()], |row| row.get(0)).unwrap()
        });
        return;
    }
    actors::told_for_ever(&timers, seed);
    stuck::scheduled_for_ever(&timers, &log, seed);
    call_for_ever(&timers, &log, seed, 4_000);
}

/// Calls at random, with pauses of up to this many microseconds.
pub(super) fn call_for_ever(timers: &Timers, log: &Log, seed: u64, pause: u64) -> ! {
    let mut rng = fastrand::Rng::with_seed(seed);
    loop {
        one_call(timers, log, &mut rng);
        if rng.u8(..4) == 0 {
            std::thread::sleep(Duration::from_micros(rng.u64(0..pause)));
        }
    }
}

/// What is seen, where it outlives the process.
#[derive(Clone)]
pub(super) struct Log {
    file: Arc<File>,
    /// How far the store's clock is ahead of the machine's, in microseconds, if it was set.
    ahead: PathBuf,
}

impl Log {
    pub(super) fn open(directory: &Path) -> Self {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(directory.join("log")).unwrap();
        let log = Self { file: Arc::new(file), ahead: directory.join("ahead") };
        // Ends a line that the last life may have left unfinished.
        (&*log.file).write_all(b"\n").unwrap();
        log.note(Event::Fault);
        log
    }

    pub(super) fn note(&self, event: Event) {
        let mut line = serde_json::to_vec(&event).unwrap();
        line.push(b'\n');
        (&*self.file).write_all(&line).unwrap();
    }

    /// The store's clock is set: for everybody with this log.
    pub(super) fn set_ahead(&self, micros: i64) {
        let new = self.ahead.with_extension("new");
        std::fs::write(&new, micros.to_string()).unwrap();
        std::fs::rename(new, &self.ahead).unwrap();
    }

    fn ahead(&self) -> Option<i64> {
        std::fs::read_to_string(&self.ahead).ok()?.parse().ok()
    }

    /// What the store's clock shows.
    fn clock(&self) -> i64 {
        Timestamp::from_system(SystemTime::now()).0 + self.ahead().unwrap_or(0)
    }

    /// A bound that a store keeps whose clock counts whole microseconds.
    fn bound(&self) -> i64 {
        self.clock() - 1
    }
}

pub(super) fn start(builder: crate::Builder, log: &Log, seed: u64) -> Durable {
    let run = move |log: Log, tag: Tag, fence: u64, planned: SystemTime| {
        let fence = i64::try_from(fence).unwrap();
        let planned = Timestamp::from_system(planned).0;
        let clock = log.clock();
        log.note(Event::Began { tag, fence, planned, clock, frozen: false });
        let roll = fastrand::u8(..100);
        if roll < 20 {
            std::thread::sleep(Duration::from_micros(fastrand::u64(0..20_000)));
        }
        let (end, outcome) = match roll {
            // In the last life everything comes to an end.
            0..=14 if seed != 0 => {
                (End::Retry, Outcome::RetryAfter(Duration::from_millis(fastrand::u64(0..50))))
            }
            15 => (End::Park, Outcome::Park("chance".into())),
            _ => (End::Done, Outcome::Done),
        };
        let clock = log.clock();
        log.note(Event::Ended { tag, fence, end, clock });
        outcome
    };
    let (one, other, log) = (log.clone(), log.clone(), log.clone());
    let tagged =
        move |due: &Fired<Tagged>| run(one.clone(), due.payload().0, due.fence(), due.due());
    let once_only =
        move |due: &Fired<OnceOnly>| run(other.clone(), due.payload().0, due.fence(), due.due());
    let failing = move |due: &Fired<Failing>| {
        let (tag, fence) = (due.payload().0, i64::try_from(due.fence()).unwrap());
        let planned = Timestamp::from_system(due.due()).0;
        log.note(Event::Began { tag, fence, planned, clock: log.clock(), frozen: false });
        let fails = planned % 3 == 0;
        let end = if fails { End::Retry } else { End::Done };
        log.note(Event::Ended { tag, fence, end, clock: log.clock() });
        if fails { Err("again and again") } else { Ok(()) }
    };
    let short = Duration::from_millis(1);
    let backoff = BackoffPolicy::builder().initial(short).cap(2 * short).build().unwrap();
    builder
        .handle(tagged)
        .handler(Handler::new(once_only).at_most_once())
        .handler(Handler::new(failing).max_attempts(3).backoff(backoff))
        .start()
        .unwrap()
}

fn one_call(timers: &Timers, log: &Log, rng: &mut fastrand::Rng) {
    let key = rng.u64(..KEYS);
    match rng.u8(..10) {
        0 => cancel(timers, log, key),
        1 => {
            let after = rng.u64(0..50_000);
            let not_before = log.bound() + i64::try_from(after).unwrap();
            log.note(Event::ResetAsked { key, not_before });
            let moved = timers.reset(&key.to_string(), Duration::from_micros(after)).wait().ok();
            log.note(Event::ResetAnswered { key, moved });
        }
        _ => schedule(timers, log, rng, key),
    }
}

fn schedule(timers: &Timers, log: &Log, rng: &mut fastrand::Rng, key: u64) {
    let tag = rng.u64(1..u64::MAX >> 12);
    let after = Duration::from_micros(rng.u64(0..60_000));
    let every = Duration::from_micros(rng.u64(5_000..50_000));
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap();
    let not_before = log.bound() + micros(after);
    let conflict = *rng.choice(&[OnConflict::Keep, OnConflict::Replace, OnConflict::Fail]).unwrap();
    let replaces = conflict == OnConflict::Replace;
    let asked = |key, kind| {
        log.note(Event::Asked { tag, key, not_before, kind, replaces });
    };
    let text = key.to_string();
    let submitted = match rng.u8(..10) {
        0 => {
            asked(Some(key), Kind::Delay(micros(every)));
            let timer = timers.schedule_with_fixed_delay(after, every, Tagged(tag)).key(text);
            timer.on_conflict(conflict).submit()
        }
        1 => {
            // Not an hour's runs, after a clock that is set forward by an hour.
            let (missed, kind) = match log.ahead() {
                Some(_) => (Skip, Kind::Rate(micros(every))),
                None => (Burst, Kind::Burst(micros(every))),
            };
            asked(Some(key), kind);
            let timer = timers.schedule_at_fixed_rate(after, every, Tagged(tag)).key(text);
            timer.missed_ticks(missed).on_conflict(conflict).submit()
        }
        2 => {
            asked(None, Kind::AtMostOnce);
            timers.schedule_once(after, OnceOnly(tag)).submit()
        }
        6 => {
            // Nobody replaces it, so that it lives through many deaths.
            let key = KEYS + key % (ALL_KEYS - KEYS);
            let kind = Kind::Rate(micros(every));
            log.note(Event::Asked { tag, key: Some(key), not_before, kind, replaces: false });
            let timer = timers.schedule_at_fixed_rate(after, every, Failing(tag));
            let timer = timer.key(key.to_string()).missed_ticks(Skip);
            timer.on_conflict(OnConflict::Keep).submit()
        }
        3..=5 => {
            asked(Some(key), Kind::Once);
            let timer = timers.schedule_once(after, Tagged(tag)).key(text);
            timer.on_conflict(conflict).submit()
        }
        _ => {
            asked(None, Kind::Once);
            timers.schedule_once(after, Tagged(tag)).submit()
        }
    };
    if rng.u8(..3) == 0 {
        // Nobody waits for it: the call is not taken back.
        drop(submitted);
        return;
    }
    note_answer(log, tag, submitted.wait());
}

fn note_answer(log: &Log, tag: Tag, answer: Result<Accepted, Error>) {
    log.note(match answer {
        Ok(accepted) if accepted.placement == Placement::Kept => Event::Refused { tag },
        Ok(_) => Event::Accepted { tag },
        Err(Error::OutcomeUnknown { .. }) => Event::Unknown { tag },
        Err(_) => Event::Refused { tag },
    });
}

fn cancel(timers: &Timers, log: &Log, key: u64) {
    log.note(Event::CancelAsked { key });
    let answer = match timers.cancel(&key.to_string()).wait() {
        Ok(Cancel::Prevented) => Answer::Prevented,
        Ok(Cancel::Running) => Answer::Running,
        Ok(Cancel::NotFound) => Answer::NotFound,
        Err(_) => Answer::Unknown,
    };
    log.note(Event::CancelAnswered { key, answer });
}

/// Cancels all series, and waits until nothing is left but what was given up.
fn bring_to_an_end(durable: &Durable, timers: &Timers, log: &Log) {
    for round in 0..6_000 {
        cancel_series(timers, log);
        std::thread::sleep(Duration::from_millis(10));
        let metrics = durable.metrics();
        // The first load and the first sweep come at once.
        if round > 20 && metrics.in_flight == 0 && metrics.resident == 0 {
            break;
        }
    }
}

/// Cancels the series that are left.
pub(super) fn cancel_series(timers: &Timers, log: &Log) {
    for key in 0..ALL_KEYS {
        if let Ok(Some(timer)) = timers.get(&key.to_string()).wait()
            && timer.rule.is_some()
        {
            cancel(timers, log, key);
        }
    }
}

/// `planned` says what a parked run was planned for.
pub(super) fn note_parked(timers: &Timers, log: &Log, planned: impl Fn(u64) -> i64) {
    let mut query = Some(Query::new().states([State::Parked]));
    while let Some(asked) = query.take() {
        let page = timers.list(&asked).wait().unwrap();
        query = page.next.map(|next| asked.after(next));
        // A message to an actor has no tag.
        for timer in page.timers.iter().map(Found::timer) {
            if let Ok(tag) = serde_json::from_str(&timer.payload) {
                log.note(Event::Left { tag, parked: true, planned: Some(planned(timer.id)) });
            }
        }
    }
}
