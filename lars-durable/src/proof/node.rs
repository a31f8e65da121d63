//! One node over the reference, in virtual time, without faults: what the engine promises by
//! itself.

mod cancels;
mod closing;
mod ends;
mod failures;
mod held;
mod late;
mod leases;
mod quarantine;
mod shares;

use std::collections::BTreeSet;
use std::time::Duration;

use lars_base::backoff::BackoffPolicy;
use lars_jobs::wall_clock::MissedRuns;

use crate::engine::{HandlerSettings, Lane, Launch, Node, NodeSettings, Output, RunEnd};
use crate::model::{
    Act, CancelReason, Fence, MissedTick, NewTimer, OnConflict, Recipient, Select, Series, States,
    TimerId, When, Which, cron_series,
};
use crate::store::{
    Committed, Letters, MemoryStore, Reply, Request, Store, StoreError, Subject, Write, Written,
};
use crate::sync::{Arc, AtomicI64, Ordering};
use crate::time::{Micros, Mono, Timestamp};

const SECOND: i64 = 1_000_000;
/// A Friday, 2023-11-17 at midnight.
const START: i64 = 1_700_179_200 * SECOND;

/// A run, as its handler saw it: payload, planned for, begun at (both since the start), attempt.
type Seen = (String, i64, i64, u32);

struct Bench {
    node: Option<Node>,
    store: MemoryStore,
    settings: NodeSettings,
    clock: Arc<AtomicI64>,
    now: i64,
    alarms: BTreeSet<i64>,
    launched: Vec<Launch>,
    seen: Vec<Seen>,
    most_resident: usize,
    closed: bool,
    /// What the node has said of runs that were given up: payload and reason.
    told: Vec<(String, String)>,
    /// The next batch of this lane is carried out, and its answer is lost.
    loses: Option<Lane>,
    /// The keeper gets no answers any more.
    deaf: bool,
    /// Nor do the others.
    stalled: bool,
    /// What the keeper sends does not arrive, and it is told so.
    away: bool,
    /// Runs of this handler never end.
    stuck: Option<&'static str>,
    stuck_runs: Vec<(TimerId, Fence)>,
    /// Buckets that actors had to leave, whether at once, and when.
    vacated: Vec<(crate::model::BucketNo, bool, i64)>,
    /// Buckets that actors may live in again, and in which epoch.
    admitted: Vec<(crate::model::BucketNo, u32)>,
    valid_until: i64,
    /// Runs that need not go on: when that was said, and why.
    needless: Vec<(TimerId, i64, CancelReason)>,
    /// How many timers others were told of.
    notified: usize,
    /// How often the writer asked for identities and nothing else.
    only_drawn: usize,
    /// When keys were forgotten, and how many.
    forgotten: Vec<(i64, usize)>,
    /// How long it takes to read a bucket from the start of its index. What takes more than ten
    /// seconds fails.
    dead_rows: Micros,
    /// Batches with such reads, and how many each had.
    from_start: Vec<usize>,
    /// How many timers a request named at most that puts off or reads.
    most_named: usize,
    next_call: u64,
    /// Keys that another transaction holds.
    held: BTreeSet<Arc<str>>,
    /// What became of which call, in the order of the answers.
    answers: Vec<(u64, Written)>,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut NodeSettings)) -> Self {
        let mut bench = Self::of(1, change);
        bench.live();
        bench
    }

    /// A store of so many buckets, and nobody who lives yet.
    fn of(buckets: u16, change: impl FnOnce(&mut NodeSettings)) -> Self {
        let millisecond = Duration::from_millis(1);
        let backoff = BackoffPolicy::builder().initial(millisecond).build().unwrap();
        let handler = HandlerSettings { backoff, ..HandlerSettings::new("handler", 1_000) };
        let mut settings =
            NodeSettings { max_in_flight: 1_000, ramp: 1_000, ..NodeSettings::new(vec![handler]) };
        change(&mut settings);
        let clock = Arc::new(AtomicI64::new(START));
        let here = Arc::clone(&clock);
        let store =
            MemoryStore::new(buckets, Arc::new(move || Timestamp(here.load(Ordering::Relaxed))));
        Self {
            node: None,
            store,
            settings,
            clock,
            now: 0,
            alarms: BTreeSet::new(),
            launched: Vec::new(),
            seen: Vec::new(),
            most_resident: 0,
            closed: false,
            told: Vec::new(),
            loses: None,
            deaf: false,
            stalled: false,
            away: false,
            stuck: None,
            stuck_runs: Vec::new(),
            vacated: Vec::new(),
            admitted: Vec::new(),
            valid_until: i64::MIN,
            needless: Vec::new(),
            notified: 0,
            only_drawn: 0,
            forgotten: Vec::new(),
            dead_rows: Micros::ZERO,
            from_start: Vec::new(),
            most_named: 0,
            next_call: 0,
            held: BTreeSet::new(),
            answers: Vec::new(),
        }
    }

    /// A new life; the old one, if there is one, is gone without a word.
    fn live(&mut self) {
        self.launched.clear();
        let settings = self.settings.clone();
        let rng = fastrand::Rng::with_seed(self.now.unsigned_abs());
        self.node = Some(Node::new(settings, rng, Mono(self.now)));
        self.turn();
    }

    fn node(&mut self) -> &mut Node {
        self.node.as_mut().unwrap()
    }

    fn turn(&mut self) {
        loop {
            let now = Mono(self.now);
            self.node().turn(now);
            let outputs = self.node().take_outputs();
            self.most_resident = self.most_resident.max(self.node().counts().resident);
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    Output::Send { lane: Lane::Keeper, .. } if self.deaf => {}
                    Output::Send { .. } if self.stalled => {}
                    Output::Send { lane: Lane::Keeper, .. } if self.away => {
                        let error = Err(StoreError::nothing_done("away"));
                        self.node().replied(Lane::Keeper, now, error);
                    }
                    Output::Send { lane, requests } => {
                        let draws = |request: &Request| matches!(request, Request::Ids { .. });
                        self.only_drawn += usize::from(requests.iter().all(draws));
                        let named = requests.iter().map(|request| match request {
                            Request::PutOff { timers, .. } => timers.len(),
                            Request::Read { ids, .. } => ids.len(),
                            _ => 0,
                        });
                        self.most_named = named.fold(self.most_named, usize::max);
                        let took = self.read_from_start(&requests);
                        let now = Mono(self.now);
                        if took > 10 * SECOND {
                            let error = Err(StoreError::nothing_done("too long"));
                            self.node().replied(lane, now, error);
                            continue;
                        }
                        let mut committed = self.transact(&requests);
                        let replies = committed.iter().flat_map(|committed| &committed.replies);
                        let forgotten = replies.filter_map(|reply| match reply {
                            Reply::Forgotten(0) => None,
                            Reply::Forgotten(count) => Some((self.now, *count)),
                            _ => None,
                        });
                        self.forgotten.extend(forgotten);
                        if self.loses.take_if(|loses| *loses == lane).is_some() {
                            committed = Err(StoreError::unknown("the answer is lost"));
                        }
                        self.node().replied(lane, now, committed);
                    }
                    Output::Alarm { at } => drop(self.alarms.insert(at.0)),
                    Output::Launch(launch) if self.stuck == Some(&*launch.row.handler) => {
                        self.stuck_runs.push((launch.row.id, launch.fence));
                    }
                    Output::Launch(launch) => self.launched.push(launch),
                    Output::Answer { call, result } => self.answers.push((call, result.unwrap())),
                    Output::Vacate { bucket, lost, .. } => {
                        let now = self.now;
                        self.vacated.push((bucket, lost, now));
                    }
                    Output::Admit { bucket, epoch } => self.admitted.push((bucket, epoch)),
                    Output::Parked(parked) => {
                        self.told.push((parked.row.payload.clone(), parked.reason));
                    }
                    Output::Cancel { id, reason, .. } => self.needless.push((id, self.now, reason)),
                    Output::Closed { .. } => self.closed = true,
                    Output::ValidUntil(until) => self.valid_until = until.0,
                    Output::BegunAnew => self.valid_until = i64::MIN,
                    Output::Notify(timers) => self.notified += timers.len(),
                }
            }
        }
    }

    /// Leaves alone what is held, and what comes after that and is about the same.
    fn transact(&mut self, requests: &[Request]) -> Result<Committed, StoreError> {
        let mut held: BTreeSet<Subject> = self.held.iter().cloned().map(Subject::Key).collect();
        let is_held = |request: &Request| {
            let Request::Write(write) = request else { return false };
            let subjects = write.subjects();
            let is_held = subjects.iter().any(|subject| held.contains(subject));
            if is_held {
                held.extend(subjects);
            }
            is_held
        };
        let waits: Vec<bool> = requests.iter().map(is_held).collect();
        let free = requests.iter().zip(&waits).filter(|(_, waits)| !*waits);
        let free: Vec<Request> = free.map(|(request, _)| request.clone()).collect();
        let Committed { clock, replies } = self.store.transact(&free)?;
        let mut replies = replies.into_iter();
        let reply = |waits: bool| match waits {
            true => Reply::Written(Written::Held),
            false => replies.next().unwrap(),
        };
        Ok(Committed { clock, replies: waits.into_iter().map(reply).collect() })
    }

    /// How long it takes, which is over then.
    fn read_from_start(&mut self, requests: &[Request]) -> i64 {
        let start = Timestamp::MIN;
        let is_one = |it: &&Request| matches!(it, Request::Load { after, .. } if after.0 == start);
        let count = requests.iter().filter(is_one).count();
        if count > 0 {
            self.from_start.push(count);
        }
        let took = self.dead_rows.0 * count as i64;
        self.move_to(self.now + took.min(10 * SECOND));
        took
    }

    /// Moves time on; each run ends as `end` says, at once.
    fn run_until(&mut self, time: i64, end: impl Fn(&Launch) -> RunEnd) {
        self.turn();
        loop {
            if let Some(place) = self.next_launch() {
                let launch = self.launched.remove(place);
                let row = &launch.row;
                let planned = row.planned.0 - START;
                self.seen.push((row.payload.clone(), planned, self.now, row.attempt));
                let (now, id, end) = (Mono(self.now), row.id, end(&launch));
                self.node().ended(now, id, launch.fence, end);
                self.turn();
                continue;
            }
            let launches = self.launched.iter().map(|launch| launch.at.0);
            let next = launches.chain(self.alarms.first().copied()).min().unwrap_or(i64::MAX);
            let next = next.min(self.node().next_turn().0).max(self.now);
            if next > time {
                break;
            }
            self.move_to(next.max(self.now + 1));
            self.alarms = self.alarms.split_off(&(self.now + 1));
            self.turn();
        }
        self.move_to(time.max(self.now));
        self.turn();
    }

    fn next_launch(&self) -> Option<usize> {
        let due = self.launched.iter().enumerate().filter(|(_, launch)| launch.at.0 <= self.now);
        due.min_by_key(|(_, launch)| (launch.row.deadline, launch.row.id)).map(|(place, _)| place)
    }

    fn move_to(&mut self, time: i64) {
        self.now = time;
        self.clock.store(START + time, Ordering::Relaxed);
    }

    fn call(&mut self, write: Write) {
        self.next_call += 1;
        let (now, call) = (Mono(self.now), self.next_call);
        self.node().call(now, call, write);
        self.turn();
    }

    fn schedule(&mut self, due: i64, payload: &str, series: Option<Series>) {
        let timer = self.timer(due, payload, series);
        self.call(Write::Schedule(Arc::new(vec![timer])));
    }

    /// `count` timers of this handler, without keys.
    fn schedule_many(&mut self, handler: &str, due: i64, count: usize) {
        let timer = |number: usize| NewTimer {
            key: None,
            handler: handler.into(),
            ..self.timer(due, &number.to_string(), None)
        };
        let timers = (0..count).map(timer).collect();
        self.call(Write::Schedule(Arc::new(timers)));
    }

    fn timer(&self, due: i64, payload: &str, series: Option<Series>) -> NewTimer {
        NewTimer {
            id: 0,
            bucket: 0,
            when: When::At(Timestamp(START + due)),
            offset: Micros::ZERO,
            home: None,
            key: Some(format!("key {payload} {due}").into()),
            tag: None,
            conflict: OnConflict::Fail,
            handler: "handler".into(),
            payload_version: 1,
            payload: payload.into(),
            series: series.map(|series| series.to_text().into()),
            remember: Micros::ZERO,
        }
    }

    fn parked(&mut self) -> Vec<(String, String)> {
        let select = Arc::new(Select::of(States::PARKED, 100, 100));
        let write = Request::Write(Write::Select { select, act: Act::List });
        let reply = self.store.transact(&[write]).unwrap().replies.pop();
        let Some(Reply::Written(Written::Selected(found))) = reply else { panic!() };
        found.listed.into_iter().map(|it| (it.payload, it.parked.unwrap().0)).collect()
    }

    fn texts(&self) -> Vec<&str> {
        self.seen.iter().map(|(text, ..)| text.as_str()).collect()
    }
}

fn done(_: &Launch) -> RunEnd {
    RunEnd::Done
}

#[test]
fn what_is_in_memory_and_is_cancelled_or_moved_by_its_identity_is_as_it_was_told() {
    let mut bench = Bench::new();
    for name in ["cancelled", "later", "sooner"] {
        bench.schedule(5 * SECOND, name, None);
    }
    bench.run_until(SECOND, done);
    assert_eq!(bench.node().counts().resident, 3);
    let id = |bench: &mut Bench, name: &str| {
        let which = format!("key {name} 5000000").as_str().into();
        let reply = bench.store.transact(&[Request::Write(Write::Get { which })]).unwrap().replies;
        let Reply::Written(Written::Listed(timers)) = &reply[0] else { panic!("{reply:?}") };
        Which::Id(timers[0].id)
    };
    let which = id(&mut bench, "cancelled");
    bench.call(Write::Cancel { which });
    for (name, at) in [("later", 8 * SECOND), ("sooner", 3 * SECOND)] {
        let (which, when) = (id(&mut bench, name), When::At(Timestamp(START + at)));
        bench.call(Write::Reset { which, when });
    }
    bench.run_until(10 * SECOND, done);
    let seen: Vec<(&str, i64)> = bench.seen.iter().map(|run| (run.0.as_str(), run.2)).collect();
    assert_eq!(seen, [("sooner", 3 * SECOND), ("later", 8 * SECOND)]);
}

#[test]
fn what_is_moved_nearer_runs_then_also_if_the_answer_comes_before_that_to_the_end_of_a_run() {
    let mut bench = Bench::new();
    bench.schedule(SECOND, "x", None);
    bench.run_until(SECOND - 1, done);
    bench.move_to(SECOND);
    let launch = bench.launched.remove(0);
    let (now, after) = (Mono(bench.now), Micros::SECOND * 20);
    let end = RunEnd::RetryAfter { after, error: "failed".into() };
    bench.node().ended(now, launch.row.id, launch.fence, end);
    bench.node().turn(now);
    let sent = bench.node().take_outputs().into_iter().find_map(|output| match output {
        Output::Send { lane: Lane::Runner, requests } => Some(requests),
        _ => None,
    });
    let finished = bench.store.transact(&sent.unwrap());
    let when = When::At(Timestamp(START + 5 * SECOND));
    bench.call(Write::Reset { which: Which::Id(launch.row.id), when });
    assert!(matches!(bench.answers.last(), Some((_, Written::Reset { .. }))));
    bench.node().replied(Lane::Runner, now, finished);
    bench.run_until(30 * SECOND, done);
    let begun: Vec<i64> = bench.seen.iter().map(|run| run.2).collect();
    assert_eq!(begun, [5 * SECOND]);
}

#[test]
fn what_runs_at_most_once_and_is_early_by_a_clock_that_went_back_waits_for_no_renewal() {
    let mut bench = Bench::with(|settings| {
        settings.handlers[0].at_most_once = true;
        settings.lease = Micros::SECOND * 3_600;
    });
    bench.schedule(5 * SECOND, "x", None);
    bench.run_until(5 * SECOND - 1, done);
    bench.now = 5 * SECOND;
    // It shows two seconds less.
    bench.clock.store(START + 3 * SECOND, Ordering::Relaxed);
    let (now, shown) = (Mono(bench.now), Timestamp(START + 3 * SECOND));
    bench.node().observe(now, now, shown);
    let launch = bench.launched.remove(0);
    bench.node().ended(now, launch.row.id, launch.fence, RunEnd::NotBegun);
    bench.turn();
    let again: Vec<i64> = bench.launched.iter().map(|launch| launch.at.0).collect();
    assert!(matches!(again[..], [at] if at <= 7 * SECOND), "{again:?}");
}

#[test]
fn starts_happen_in_the_order_of_due_and_identity() {
    let mut bench = Bench::new();
    let mut rng = fastrand::Rng::with_seed(3);
    let mut expected = Vec::new();
    for number in 0..500_i64 {
        // Many of them within one millisecond.
        let due = SECOND + rng.i64(0..20) * 400;
        bench.schedule(due, &number.to_string(), None);
        expected.push((due, number));
    }
    expected.sort_unstable();
    bench.run_until(2 * SECOND, done);
    let expected: Vec<String> = expected.iter().map(|(_, number)| number.to_string()).collect();
    assert_eq!(bench.texts(), expected);
    assert!(bench.seen.iter().all(|(_, planned, begun, _)| begun == planned), "to the microsecond");
}

#[test]
fn no_more_timers_are_in_memory_than_the_limit_and_all_run_in_order() {
    let mut bench = Bench::with(|settings| settings.max_resident = 100);
    for batch in 0..10 {
        let timers = (0..1_000).map(|number| {
            let due = SECOND + (number * 10 + batch) * 100;
            bench.timer(due, &due.to_string(), None)
        });
        let timers = timers.collect();
        bench.call(Write::Schedule(Arc::new(timers)));
    }
    assert!(bench.most_resident <= 100, "{}", bench.most_resident);
    bench.run_until(20 * SECOND, done);
    assert!(bench.most_resident <= 100, "{}", bench.most_resident);
    assert_eq!(bench.seen.len(), 10_000);
    assert!(bench.seen.is_sorted_by_key(|(_, planned, ..)| *planned));
}

#[test]
fn identities_come_with_the_batch_before_and_take_no_transaction_of_their_own() {
    for (size, calls) in
        [(1, 100), (8, 100), (500, 20), (600, 20), (1_000, 20), (1_024, 20), (3_000, 20)]
    {
        let mut bench = Bench::new();
        for _ in 0..calls {
            bench.schedule_many("handler", 3_600 * SECOND, size);
        }
        assert_eq!(bench.only_drawn, 1, "the first of {size} timers in each call");
    }
}

#[test]
fn of_very_many_keys_whose_time_is_over_a_thousand_are_forgotten_at_once_and_the_rest_soon() {
    let mut bench = Bench::new();
    let remember = Micros(10 * SECOND);
    let timers = (0..2_500)
        .map(|number: i64| NewTimer { remember, ..bench.timer(0, &number.to_string(), None) });
    let timers = Arc::new(timers.collect());
    bench.call(Write::Schedule(timers));
    bench.run_until(60 * SECOND, |_| RunEnd::Done);
    assert_eq!(bench.seen.len(), 2_500);
    let counts: Vec<usize> = bench.forgotten.iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [1_000, 1_000, 500]);
    let times: BTreeSet<i64> = bench.forgotten.iter().map(|(time, _)| *time).collect();
    let (first, last) = (times.first().unwrap(), times.last().unwrap());
    assert!(last - first < SECOND, "{times:?}: no sweep comes so soon");
}

#[test]
fn nothing_starts_from_a_fifth_before_the_end_of_a_lease_that_is_not_renewed() {
    let mut bench = Bench::new();
    assert_eq!(bench.valid_until, 8 * SECOND, "of a lease of ten");
    bench.deaf = true;
    for due in [1, 7, 9, 11] {
        bench.schedule(due * SECOND, &due.to_string(), None);
    }
    bench.run_until(30 * SECOND, done);
    assert_eq!(bench.texts(), ["1", "7"]);
}

#[test]
fn actors_are_told_to_go_at_once_when_the_lease_ends_by_itself() {
    let mut bench = Bench::new();
    bench.node().moved_in(0, 1);
    bench.run_until(20 * SECOND, done);
    assert!(bench.vacated.is_empty(), "the lease is renewed");
    bench.deaf = true;
    bench.run_until(60 * SECOND, done);
    assert_eq!(bench.vacated, [(0, true, bench.valid_until)], "once, and not before");
    assert!(bench.admitted.is_empty(), "one of them is still there");
    bench.node().moved_out(0);
    bench.turn();
    assert_eq!(bench.admitted, [(0, 1)]);
    bench.node().moved_in(0, 1);
    bench.turn();
    assert_eq!(bench.vacated.len(), 2, "one that came late is told too");
}

#[test]
fn actors_of_a_store_with_one_owner_stay_while_it_answers_nothing_however_long() {
    let mut bench = Bench::with(|settings| settings.sole = true);
    bench.node().moved_in(0, 1);
    bench.run_until(20 * SECOND, done);
    bench.schedule(21 * SECOND, "launched", None);
    bench.run_until(21 * SECOND - 1, done);
    bench.stalled = true;
    bench.run_until(60 * SECOND, done);
    assert!(bench.vacated.is_empty(), "{:?}", bench.vacated);
    assert_eq!((bench.valid_until, bench.texts()), (Mono::NEVER.0, vec!["launched"]));
}

#[test]
fn a_node_that_closes_leaves_when_its_actors_have_gone() {
    let mut bench = Bench::new();
    bench.node().moved_in(0, 1);
    bench.node().close();
    bench.run_until(5 * SECOND, done);
    assert_eq!(bench.vacated, [(0, false, 0)]);
    assert!(!bench.closed);
    bench.node().moved_out(0);
    bench.run_until(6 * SECOND, done);
    assert!(bench.closed);
}

#[test]
fn what_is_beyond_the_window_is_not_in_memory_and_runs_on_time() {
    let mut bench = Bench::new();
    for hour in 1..=6 {
        bench.schedule(hour * 3_600 * SECOND, "far", None);
    }
    assert_eq!(bench.most_resident, 0);
    bench.run_until(7 * 3_600 * SECOND, done);
    assert_eq!(bench.seen.len(), 6);
    assert!(bench.seen.iter().all(|(_, planned, begun, _)| begun == planned));
    assert_eq!(bench.most_resident, 1);
}

#[test]
fn what_a_dead_process_had_started_runs_one_at_a_time_and_is_parked_after_three_deaths() {
    let mut bench = Bench::new();
    for name in ["innocent 1", "poison", "innocent 2"] {
        bench.schedule(SECOND, name, None);
    }
    // All three run when the process dies of one.
    bench.run_until(SECOND - 3_000, done);
    assert_eq!(bench.launched.len(), 3);
    for life in 0..4 {
        bench.move_to((life + 2) * 60 * SECOND);
        // The dead node's buckets are taken after a lease.
        bench.live();
        let until = bench.now + 25 * SECOND;
        let poisoned = std::cell::Cell::new(false);
        while bench.now < until && !poisoned.get() {
            assert!(bench.launched.len() <= 1, "one at a time: {:?}", bench.launched);
            if let Some(place) = bench.next_launch() {
                let launch = bench.launched.remove(place);
                bench.seen.push((launch.row.payload.clone(), 0, bench.now, launch.row.attempt));
                if launch.row.payload == "poison" {
                    poisoned.set(true);
                } else {
                    let (now, id) = (Mono(bench.now), launch.row.id);
                    bench.node().ended(now, id, launch.fence, RunEnd::Done);
                }
            }
            bench.move_to(bench.now + 1_000);
            bench.turn();
        }
    }
    let parked = bench.parked();
    assert_eq!(parked.len(), 1);
    assert_eq!(parked[0].0, "poison");
    assert!(parked[0].1.contains("died 3 times"), "{}", parked[0].1);
    let innocent = bench.texts().iter().filter(|text| text.starts_with("innocent")).count();
    assert_eq!(innocent, 2, "each innocent runs once more: {:?}", bench.seen);
}

#[test]
fn a_series_goes_on_after_a_run_in_which_the_process_died_three_times() {
    let minute = 60 * SECOND;
    let mut bench = Bench::new();
    let rule = Series::FixedRate { every: 60 * minute, missed: MissedTick::Skip };
    bench.schedule(SECOND, "job", Some(rule));
    for _ in 0..3 {
        while bench.launched.is_empty() {
            bench.move_to(bench.now + SECOND / 2);
            bench.turn();
        }
        // It dies of this run.
        bench.live();
    }
    bench.run_until(90 * minute, done);
    let planned: Vec<i64> = bench.seen.iter().map(|(_, planned, ..)| *planned).collect();
    assert_eq!(planned, [SECOND + 60 * minute], "the next hour");
    let parked = bench.parked();
    assert_eq!(parked.len(), 1);
    assert!(parked[0].1.contains("died 3 times"), "{}", parked[0].1);
}

#[test]
fn a_timer_without_a_handler_is_put_off_and_parked_after_fourteen_days() {
    // Fifteen days of heartbeats would take seconds.
    let mut bench = Bench::with(|settings| {
        settings.sweep = Micros::SECOND * 3_600;
        settings.lease = Micros::SECOND * 3_600;
    });
    let unknown = NewTimer { handler: "unknown".into(), ..bench.timer(SECOND, "x", None) };
    bench.call(Write::Schedule(Arc::new(vec![unknown])));
    bench.schedule(2 * SECOND, "known", None);
    let day = 86_400 * SECOND;
    bench.run_until(13 * day, done);
    assert_eq!(bench.texts(), ["known"]);
    assert!(bench.parked().is_empty());
    bench.run_until(15 * day, done);
    assert_eq!(bench.parked(), [("x".into(), "no handler for fourteen days".into())]);
    assert_eq!(bench.told.len(), 1, "whoever wants to know is told");
    assert_eq!(bench.node().counts().parked, 1);
    assert_eq!(bench.texts(), ["known"]);
}

#[test]
fn a_timer_that_was_planned_long_ago_is_not_parked_before_nobody_could_run_it_for_fourteen_days() {
    let mut bench = Bench::with(|settings| {
        settings.sweep = Micros::SECOND * 3_600;
        settings.lease = Micros::SECOND * 3_600;
    });
    let day = 86_400 * SECOND;
    // No node was there for a month.
    let planned = When::At(Timestamp(bench.now) - Micros(30 * day));
    let unknown =
        NewTimer { handler: "unknown".into(), when: planned, ..bench.timer(0, "x", None) };
    bench.call(Write::Schedule(Arc::new(vec![unknown])));
    bench.run_until(13 * day, done);
    assert!(bench.parked().is_empty(), "at first sight");
    bench.run_until(15 * day, done);
    assert_eq!(bench.parked(), [("x".into(), "no handler for fourteen days".into())]);
}

#[test]
fn what_a_newer_release_stored_is_put_off_twice_as_long_each_time_and_parked_in_the_end() {
    let mut bench = Bench::with(|settings| {
        settings.sweep = Micros::SECOND * 3_600;
        settings.lease = Micros::SECOND * 3_600;
    });
    bench.schedule(0, "newer", None);
    let day = 86_400 * SECOND;
    bench.run_until(13 * day, |_| RunEnd::TooNew);
    assert!(bench.seen.iter().all(|(.., attempt)| *attempt == 1), "no try counts");
    let tries: Vec<i64> = bench.seen.iter().map(|(_, _, begun, _)| begun / SECOND).collect();
    assert_eq!(tries[..8], [0, 15, 30, 60, 120, 240, 480, 960], "it is doubled");
    assert!(tries.windows(2).all(|two| two[1] - two[0] <= 601), "ten minutes at most");
    assert!(bench.parked().is_empty());
    bench.run_until(15 * day, |_| RunEnd::TooNew);
    let reason = "a newer release stored it, and none has come for fourteen days";
    assert_eq!(bench.parked(), [("newer".into(), reason.into())]);
}

#[test]
fn a_series_whose_zone_this_node_does_not_know_is_put_off_and_parked_in_the_end() {
    let mut bench = Bench::with(|settings| {
        settings.sweep = Micros::SECOND * 3_600;
        settings.lease = Micros::SECOND * 3_600;
    });
    let (expression, zone) = ("0 9 * * *".into(), "Mars/Olympus".into());
    let missed = MissedRuns::Once.into();
    let cron = Series::Cron { expression, zone, missed, spread: 0 };
    bench.schedule(0, "report", Some(cron));
    let day = 86_400 * SECOND;
    bench.run_until(13 * day, done);
    assert!(bench.seen.is_empty() && bench.parked().is_empty());
    bench.run_until(15 * day, done);
    assert!(bench.seen.is_empty());
    let [(text, reason)] = <[_; 1]>::try_from(bench.parked()).unwrap();
    assert!(text == "report" && reason.contains("Mars/Olympus"), "{text}: {reason}");
}

/// Runs a rate of one second whose first run takes two and a half.
fn slow_first_run(missed: MissedTick) -> Vec<(i64, i64)> {
    let mut bench = Bench::new();
    bench.schedule(SECOND, "rate", Some(Series::FixedRate { every: SECOND, missed }));
    bench.run_until(SECOND - 1, done);
    let launch = bench.launched.remove(0);
    bench.seen.push((String::new(), SECOND, SECOND, 1));
    bench.run_until(3 * SECOND + SECOND / 2, done);
    let (now, id) = (Mono(bench.now), launch.row.id);
    bench.node().ended(now, id, launch.fence, RunEnd::Done);
    bench.run_until(6 * SECOND - 1, done);
    bench.seen.iter().map(|(_, planned, begun, _)| (planned / 100_000, begun / 100_000)).collect()
}

#[test]
fn missed_runs_of_a_rate_are_made_up_for_left_out_or_put_off_by_name() {
    let burst = [(10, 10), (20, 35), (30, 35), (40, 40), (50, 50)];
    assert_eq!(slow_first_run(MissedTick::Burst), burst);
    assert_eq!(slow_first_run(MissedTick::Skip), [(10, 10), (40, 40), (50, 50)]);
    assert_eq!(slow_first_run(MissedTick::Delay), [(10, 10), (35, 35), (45, 45), (55, 55)]);
}

#[test]
fn the_runs_of_a_rate_begin_when_they_are_planned_also_if_each_happens_at_most_once() {
    for at_most_once in [false, true] {
        let mut bench = Bench::with(|settings| settings.handlers[0].at_most_once = at_most_once);
        let missed = MissedTick::Burst;
        bench.schedule(SECOND, "rate", Some(Series::FixedRate { every: SECOND, missed }));
        bench.run_until(10 * SECOND, done);
        let begun: Vec<(i64, i64)> = bench.seen.iter().map(|run| (run.1, run.2)).collect();
        let planned: Vec<(i64, i64)> = (1..=10).map(|n| (n * SECOND, n * SECOND)).collect();
        assert_eq!(begun, planned, "at most once: {at_most_once}");
    }
}

#[test]
fn where_dead_rows_make_each_bucket_slow_to_read_no_batch_reads_many_and_all_are_read() {
    for milliseconds in [300, 4_000] {
        let mut bench = Bench::of(64, |_| ());
        bench.dead_rows = Micros::MILLISECOND * milliseconds;
        bench.live();
        bench.schedule_many("handler", SECOND, 500);
        bench.run_until(400 * SECOND, done);
        assert_eq!(bench.seen.len(), 500, "{milliseconds} ms");
        // After the first few, one at a time: all when the buckets were taken, and now and then
        // when everything is looked through.
        let singles = bench.from_start.iter().skip(3).filter(|count| **count == 1).count();
        assert_eq!(singles, bench.from_start.len() - 3, "{:?}", bench.from_start);
        bench.from_start.clear();
        bench.run_until(1_600 * SECOND, done);
        assert!(bench.from_start.len() >= 64, "{:?}", bench.from_start);
        assert!(bench.from_start.iter().all(|count| *count == 1), "{:?}", bench.from_start);
        // When the dead rows are removed, all are read together again.
        bench.dead_rows = Micros::ZERO;
        bench.from_start.clear();
        bench.run_until(1_800 * SECOND, done);
        assert!(bench.from_start.contains(&64), "{:?}", bench.from_start);
    }
}

/// An hourly job whose process is down from 9:30 to 12:10; when its runs begin, in minutes after
/// midnight.
fn down_for_hours(missed: MissedRuns) -> Vec<i64> {
    let minute = 60 * SECOND;
    let mut bench = Bench::new();
    let series = cron_series("0 * * * *", "UTC", missed, Duration::ZERO).unwrap();
    bench.schedule(60 * minute, "hourly", Some(series));
    bench.run_until(60 * minute + 30 * minute, done);
    bench.node().close();
    bench.turn();
    assert!(bench.closed);
    bench.alarms.clear();
    bench.move_to(4 * 60 * minute + 10 * minute);
    bench.live();
    bench.run_until(6 * 60 * minute - 1, done);
    bench.seen.iter().map(|(_, _, begun, _)| begun / minute).collect()
}

#[test]
fn missed_occurrences_of_a_cron_expression_are_made_up_for_or_left_out_by_name() {
    let (one, now, five) = (60, 4 * 60 + 10, 5 * 60);
    assert_eq!(down_for_hours(MissedRuns::Once), [one, now, five]);
    assert_eq!(down_for_hours(MissedRuns::Burst), [one, now, now, now, five]);
    let minutes = |minutes: u64| MissedRuns::Skip(Duration::from_secs(minutes * 60));
    assert_eq!(down_for_hours(minutes(5)), [one, five]);
    assert_eq!(down_for_hours(minutes(15)), [one, now, five]);
}

#[test]
fn a_run_that_its_handler_puts_off_comes_again_and_is_not_left_out_as_one_that_was_missed() {
    let minute = 60 * SECOND;
    let missed = MissedRuns::Skip(Duration::from_secs(60));
    let rule = cron_series("0 * * * *", "UTC", missed, Duration::ZERO).unwrap();
    let mut bench = Bench::new();
    bench.schedule(60 * minute, "hourly", Some(rule));
    let ten = Micros(10 * minute);
    let twice = |launch: &Launch| match launch.row.deadline.0 - START {
        begun if begun < 80 * minute => RunEnd::Snooze { after: ten },
        _ => RunEnd::Done,
    };
    bench.run_until(125 * minute, twice);
    let begun: Vec<i64> = bench.seen.iter().map(|(_, _, begun, _)| begun / minute).collect();
    assert_eq!(begun, [60, 70, 80, 120]);
    assert_eq!(bench.node().counts().skipped, 0);
}

#[test]
fn a_spread_is_later_and_the_same_for_each_run_of_a_key() {
    let minute = 60 * SECOND;
    let spread = Duration::from_secs(20 * 60);
    let series = cron_series("0 * * * *", "UTC", MissedRuns::Once, spread).unwrap();
    let mut offsets = BTreeSet::new();
    for number in 0..20 {
        let key = format!("key {number}");
        let next = series.next(Timestamp(START), Timestamp(START), Some(&key));
        let crate::model::Next::Run { when: When::At(when), offset } = next else { panic!() };
        assert_eq!(when.0, START + 60 * minute);
        assert!((0..20 * minute).contains(&offset.0));
        let later = series.next(when, when + offset, Some(&key));
        let run = crate::model::Next::Run { when: When::At(when + Micros(60 * minute)), offset };
        assert_eq!(later, run);
        offsets.insert(offset.0);
    }
    assert!(offsets.len() > 15, "they are spread: {offsets:?}");
}

#[test]
fn after_a_start_runs_begin_with_few_at_a_time_and_double_each_second() {
    let mut bench = Bench::with(|settings| settings.ramp = 2);
    for _ in 0..64 {
        let timers = vec![NewTimer { key: None, ..bench.timer(0, "herd", None) }];
        bench.call(Write::Schedule(Arc::new(timers)));
    }
    let mut most = Vec::new();
    for second in 1..=4 {
        bench.move_to(second * SECOND - 1);
        bench.turn();
        bench.turn();
        most.push(bench.node().counts().in_flight.min(bench.launched.len()));
    }
    assert_eq!(most, [2, 4, 8, 16]);
}

#[test]
fn an_idle_node_with_timers_far_out_asks_for_less_than_one_transaction_a_second() {
    let mut bench = Bench::new();
    for day in 1..100 {
        bench.schedule(day * 86_400 * SECOND, "far", None);
    }
    let mut transactions = 0;
    let until = bench.now + 600 * SECOND;
    while bench.now < until {
        let next = bench.node().next_turn().0.max(bench.now + 1);
        bench.move_to(next);
        let now = Mono(bench.now);
        bench.node().turn(now);
        for output in bench.node().take_outputs() {
            if let Output::Send { lane, requests } = output {
                transactions += 1;
                let committed = bench.store.transact(&requests);
                bench.node().replied(lane, now, committed);
            }
        }
    }
    assert!(transactions < 600, "{transactions} in 600 s");
}
