//! Workers without threads: what each does next.

use std::iter::from_fn;
use std::sync::Mutex;

use lars_base::idle::Idle;

use super::*;
use crate::base::lineage::Lineage;
use crate::dispatcher::task::Activate;
use crate::dispatcher::watch::{Note, Reports};

/// The tasks that have had a turn, in order.
type Log = Arc<Mutex<Vec<u32>>>;

/// Writes down its number with each turn, and then does something.
struct Numbered {
    number: u32,
    log: Log,
    then: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Activate for Numbered {
    fn activate(self: Arc<Self>) -> bool {
        self.log.lock().unwrap().push(self.number);
        (self.then)()
    }
}

/// The workers of a pool, which the calling thread has to be.
struct Bench {
    workers: Vec<Worker>,
    log: Log,
}

impl Bench {
    fn new(workers: usize) -> Self {
        let queues: Vec<Queue<Task>> = (0..workers).map(|_| Queue::new_fifo()).collect();
        let shared = Arc::new(Shared::new(false, &queues, Idle::new(workers).0));
        let worker = |(number, queue)| Worker::new(Arc::clone(&shared), number, queue);
        let workers = queues.into_iter().enumerate().map(worker).collect();
        Self { workers, log: Log::default() }
    }

    fn task(&self, number: u32, then: impl Fn() -> bool + Send + Sync + 'static) -> Task {
        Arc::new(Numbered { number, log: Arc::clone(&self.log), then: Box::new(then) })
    }

    /// One that has a single turn.
    fn once(&self, number: u32) -> Task {
        self.task(number, || false)
    }

    /// Gives all of them a turn, and returns their numbers.
    fn numbers(&self, tasks: impl Iterator<Item = Task>) -> Vec<u32> {
        self.log.lock().unwrap().clear();
        tasks.for_each(|task| _ = task.activate());
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    /// What lies in the shared queue.
    fn given(&self) -> Vec<u32> {
        let injector = &self.workers[0].shared.injector;
        self.numbers(from_fn(|| {
            // An attempt may fail without a reason.
            from_fn(|| Some(injector.steal())).find(|it| !it.is_retry())?.success()
        }))
    }
}

impl Worker {
    fn be(&self) -> Set<*const Self> {
        Set::enter(&CURRENT, &raw const *self)
    }

    /// Begins rounds until one finds what lies in the shared queue: an attempt may fail without a
    /// reason.
    fn begin_round_surely(&self) -> (Option<Task>, usize) {
        let before = self.shared.injector.len();
        let mut rounds = from_fn(|| Some(self.begin_round()));
        rounds.find(|_| before == 0 || self.shared.injector.len() < before).unwrap()
    }
}

#[test]
fn what_an_actor_schedules_comes_next_for_sixteen_turns_if_others_wait() {
    let bench = Bench::new(1);
    let worker = &bench.workers[0];
    (1..3).for_each(|number| worker.queue.push(bench.once(number)));
    let (mut slot_turns, mut turns) = (0, 0..34);
    let next = || {
        turns.next()?;
        worker.replace_slot(Some(bench.once(100)));
        worker.next(&mut slot_turns)
    };
    let order = bench.numbers(from_fn(next));
    let expected = [&[100; 16][..], &[1], &[100; 16], &[2]].concat();
    assert_eq!(order, expected);
    // What did not have its turn from the slot has it behind the others.
    assert_eq!(bench.numbers(from_fn(|| worker.next(&mut slot_turns))), [100, 100]);
}

#[test]
fn what_an_actor_schedules_comes_next_for_ever_if_nothing_else_waits() {
    let bench = Bench::new(1);
    let worker = &bench.workers[0];
    let mut slot_turns = 0;
    for turn in 0..100 {
        worker.replace_slot(Some(bench.once(turn)));
        assert_eq!(bench.numbers(worker.next(&mut slot_turns).into_iter()), [turn]);
    }
    assert!(worker.next(&mut slot_turns).is_none());
}

#[test]
fn a_round_has_as_many_turns_as_tasks_wait_for_the_worker_when_it_begins() {
    let bench = Bench::new(1);
    let worker = &bench.workers[0];
    assert!(matches!(worker.begin_round_surely(), (None, 0)));
    worker.queue.push(bench.once(1));
    worker.queue.push(bench.once(2));
    assert!(matches!(worker.begin_round_surely(), (None, 2)));
    // Of what others have scheduled it takes some to the end of its queue.
    worker.shared.push(bench.once(3));
    assert!(matches!(worker.begin_round_surely(), (None, 3)));
    // What had to be given back comes first, one by one.
    worker.shared.give_back([bench.once(4), bench.once(5)].into_iter());
    let (first, turns) = worker.begin_round_surely();
    assert_eq!((bench.numbers(first.into_iter()), turns), (vec![4], 4));
    assert_eq!(bench.numbers(from_fn(|| worker.queue.pop())), [1, 2, 3]);
    assert_eq!(bench.given(), [5]);
}

#[test]
fn a_task_that_has_more_to_do_waits_behind_those_of_its_worker() {
    let bench = Bench::new(1);
    let worker = &bench.workers[0];
    worker.queue.push(bench.once(1));
    worker.run(bench.task(2, || true));
    assert_eq!(bench.numbers(from_fn(|| worker.queue.pop())), [1, 2]);
    worker.run(bench.once(3));
    assert!(worker.queue.is_empty() && worker.take_slot().is_none());
    assert!(bench.given().is_empty());
}

#[test]
fn a_task_that_blocks_leaves_nothing_to_its_worker() {
    let bench = Bench::new(1);
    let worker = &bench.workers[0];
    let _current = worker.be();
    worker.queue.push(bench.once(1));
    worker.queue.push(bench.once(2));
    worker.replace_slot(Some(bench.once(3)));
    let (shared, later) = (Arc::clone(&worker.shared), Mutex::new(Some(bench.once(4))));
    worker.run(bench.task(5, move || {
        about_to_block();
        later.lock().unwrap().take().into_iter().for_each(|later| schedule(&shared, later));
        true
    }));
    assert!(worker.queue.is_empty() && worker.take_slot().is_none());
    // With that turn it is over.
    schedule(&worker.shared, bench.once(6));
    assert_eq!(bench.numbers(worker.take_slot().into_iter()), [6]);
    assert_eq!(bench.given(), [3, 1, 2, 4, 5]);
}

#[test]
fn a_future_that_is_not_ready_blocks_the_worker_inside_an_actor_only() {
    let bench = Bench::new(1);
    let worker = &bench.workers[0];
    let _current = worker.be();
    worker.queue.push(bench.once(1));
    polled_and_pending();
    assert_eq!((worker.queue.len(), bench.given().len()), (1, 0));
    let _inside = Inside::enter(1, 1);
    polled_and_pending();
    assert_eq!((worker.queue.len(), bench.given().len()), (0, 1));
}

#[test]
fn of_what_an_actor_schedules_the_last_comes_next_and_the_others_can_be_stolen() {
    let bench = Bench::new(2);
    let [worker, other] = &bench.workers[..] else { unreachable!() };
    {
        let _current = worker.be();
        (1..4).for_each(|number| schedule(&worker.shared, bench.once(number)));
    }
    assert_eq!(bench.numbers(worker.take_slot().into_iter()), [3]);
    let stolen = other.shared.steal(other.number, &other.queue);
    let stolen = stolen.into_iter().chain(from_fn(|| other.queue.pop()));
    let left = from_fn(|| worker.queue.pop());
    assert_eq!(bench.numbers(stolen.chain(left)), [1, 2]);
}

#[test]
fn what_is_scheduled_on_another_pool_goes_to_its_shared_queue() {
    let (bench, other) = (Bench::new(1), Bench::new(1));
    schedule(&bench.workers[0].shared, bench.once(1));
    let _current = other.workers[0].be();
    schedule(&bench.workers[0].shared, bench.once(2));
    assert_eq!(bench.given(), [1, 2]);
    assert!(other.workers[0].take_slot().is_none());
}

#[test]
fn a_thread_knows_its_number_in_its_own_pool_alone() {
    let (bench, other) = (Bench::new(3), Bench::new(3));
    let [shared, others] = [&bench, &other].map(|it| &it.workers[0].shared);
    assert_eq!((number_in(shared), is_shared_thread()), (None, false));
    for (number, worker) in bench.workers.iter().enumerate() {
        let _current = worker.be();
        assert_eq!((number_in(shared), number_in(others)), (Some(number), None));
        assert!(is_shared_thread());
    }
    assert_eq!((number_in(shared), is_shared_thread()), (None, false));
}

#[test]
fn each_worker_finds_what_any_other_has() {
    let bench = Bench::new(3);
    for thief in &bench.workers {
        for (number, other) in (0..).zip(&bench.workers).filter(|(_, it)| it.number != thief.number)
        {
            other.queue.push(bench.once(number));
            assert!(thief.shared.has_tasks());
            let stolen = thief.shared.steal(thief.number, &thief.queue);
            assert_eq!(bench.numbers(stolen.into_iter()), [number]);
            assert!(!thief.shared.has_tasks());
        }
        thief.shared.push(bench.once(9));
        assert!(thief.shared.has_tasks());
        assert_eq!(bench.numbers(thief.shared.steal(thief.number, &thief.queue).into_iter()), [9]);
        assert!(thief.shared.steal(thief.number, &thief.queue).is_none());
    }
}

/// Keeps how long things took.
#[derive(Default)]
struct Took(Mutex<Vec<Duration>>);

impl Reports for Took {
    fn slow(&self, took: Duration, _: &[Note], _: Option<&Lineage>) {
        self.0.lock().unwrap().push(took);
    }
}

/// Begins a turn of which every time is too long.
fn begin_turn(worker: &Worker, took: &Arc<Took>) {
    let reports: Arc<dyn Reports> = Arc::clone(took) as _;
    let note = Note { actor: 1, message_type: || "u32", calls: 0 };
    worker.watch.begin(note, || (Duration::ZERO, Arc::downgrade(&reports)));
}

/// Waits until the clock shows so much more.
fn pass(time: Duration) {
    let begun = real_now();
    while real_now() <= begun + time {}
}

#[test]
fn what_a_worker_runs_beside_turns_ends_the_time_of_the_turn_before_and_is_noted_if_it_may_be() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let bench = Bench::new(1);
    let worker = &bench.workers[0];
    let _current = worker.be();
    let noted = || worker.journal.pieces().len();
    let took = Arc::new(Took::default());
    let reports = || std::mem::take(&mut *took.0.lock().unwrap()).len();
    // In the first case it is not noted, and the next turn does not follow upon the one before.
    for (beside, pieces) in [(None, 1), (Some((Whose::Piped(2), Duration::ZERO)), 3)] {
        worker.journal.begin(Whose::Piped(1), HOUR);
        begin_turn(worker, &took);
        pass(Duration::ZERO);
        worker.journal.end();
        let beside = NoTurn::enter(beside);
        assert_eq!(reports(), 1, "the turn is over");
        pass(Duration::ZERO);
        drop(beside);
        assert_eq!(noted(), pieces);
    }
}

#[test]
fn time_that_is_forgiven_does_not_count_for_the_message_that_is_being_received() {
    const FORGIVEN: Duration = Duration::from_millis(20);
    let bench = Bench::new(1);
    let worker = &bench.workers[0];
    let _current = worker.be();
    let took = Arc::new(Took::default());
    let begun = real_now();
    begin_turn(worker, &took);
    let forgiven = Forgiven::enter();
    pass(FORGIVEN);
    drop(forgiven);
    worker.watch.pause();
    let all = real_now() - begun;
    let took = took.0.lock().unwrap().first().copied().unwrap_or_default();
    assert!(took <= all - FORGIVEN, "{took:?} of {all:?}");
}
