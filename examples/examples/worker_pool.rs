//! A pool of workers that fail now and then: a parent keeps them busy, supervision restarts them
//! with a growing pause, and no job is lost or done twice.
//!
//! ```text
//! cargo run --release -p examples --example worker_pool
//! ```
#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use examples::checks::{Problem, verify};
use mini_actor::supervision::{Failure, SupervisionStrategy};
use mini_actor::{Actor, ActorRef, ActorSystem, Context, Props, StopReason, Terminated};

const JOBS: u32 = 2_000;
const WORKERS: u32 = 4;

#[derive(Debug, Clone)]
struct Job {
    number: u32,
    /// How often it has been tried.
    tries: u32,
}

enum Event {
    Job(Job),
    Done {
        worker: u64,
        number: u32,
    },
    /// A worker failed; the job is to be tried again.
    Failed {
        worker: u64,
        job: Job,
    },
}

/// Works. Every 17th job makes it panic at the first try, and one worker in all never recovers.
struct Worker {
    pool: ActorRef<Event>,
    hopeless: bool,
}

impl Actor for Worker {
    type Message = Job;

    fn started(&mut self, ctx: &mut Context<Self>) {
        // A worker that has nothing to do for a while says so. (Refused only while the system is
        // being closed.)
        let _ = ctx.set_receive_timeout(Duration::from_secs(60));
    }

    fn receive(&mut self, job: Job, ctx: &mut Context<Self>) {
        assert!(!self.hopeless, "this worker is beyond repair");
        assert!(!job.number.is_multiple_of(17) || job.tries > 0, "job {} is hard", job.number);
        let done = Event::Done { worker: ctx.myself().id(), number: job.number };
        // The pool stops after its workers.
        let _ = self.pool.tell(done);
    }

    /// So that a job that fails is handed back.
    fn keep(job: &Job) -> Option<Job> {
        Some(job.clone())
    }

    fn restarting(&mut self, failure: Failure<Job>, ctx: &mut Context<Self>) {
        if let Some(mut job) = failure.message {
            job.tries += 1;
            let _ = self.pool.tell(Event::Failed { worker: ctx.myself().id(), job });
        }
    }
}

struct Pool {
    waiting: VecDeque<Job>,
    idle: Vec<ActorRef<Job>>,
    /// The workers, each with the job that it is at.
    workers: HashMap<u64, (ActorRef<Job>, Option<Job>)>,
    done: BTreeSet<u32>,
    twice: u32,
    buried: u32,
    finished: Sender<(usize, u32, u32)>,
}

impl Pool {
    fn new(finished: Sender<(usize, u32, u32)>) -> Self {
        Self {
            waiting: VecDeque::new(),
            idle: Vec::new(),
            workers: HashMap::new(),
            done: BTreeSet::new(),
            twice: 0,
            buried: 0,
            finished,
        }
    }

    fn hire(&mut self, number: u32, ctx: &mut Context<Self>) {
        let pool = ctx.myself().clone();
        let hopeless = number == 1;
        let props = Props::new(move || Worker { pool: pool.clone(), hopeless }).supervision(
            SupervisionStrategy::restart()
                .limit(200, Duration::MAX) // in its whole life, however busy the machine is
                .backoff(Duration::from_micros(100), Duration::from_millis(5)),
        );
        // A number that no predecessor has had; refused only while the pool stops.
        if let Ok(worker) = ctx.spawn_with(&format!("worker-{number}"), props) {
            ctx.watch(&worker);
            self.workers.insert(worker.id(), (worker.clone(), None));
            self.idle.push(worker);
        }
    }

    fn hand_out(&mut self, ctx: &mut Context<Self>) {
        while !self.waiting.is_empty() {
            let Some(worker) = self.idle.pop() else {
                return;
            };
            let Some(job) = self.waiting.pop_front() else {
                return;
            };
            match worker.tell(job.clone()) {
                Ok(()) => {
                    if let Some(entry) = self.workers.get_mut(&worker.id()) {
                        entry.1 = Some(job);
                    }
                }
                // It has just stopped; the pool will be told.
                Err(back) => self.waiting.push_front(back.into_message()),
            }
        }
        if self.done.len() == JOBS as usize {
            let _ = self.finished.send((self.done.len(), self.twice, self.buried));
            ctx.myself().stop();
        }
    }

    fn is_free(&mut self, worker: u64) {
        if let Some((worker, job)) = self.workers.get_mut(&worker) {
            *job = None;
            self.idle.push(worker.clone());
        }
    }
}

impl Actor for Pool {
    type Message = Event;

    fn started(&mut self, ctx: &mut Context<Self>) {
        for number in 0..WORKERS {
            self.hire(number, ctx);
        }
    }

    fn receive(&mut self, event: Event, ctx: &mut Context<Self>) {
        match event {
            Event::Job(job) => self.waiting.push_back(job),
            Event::Done { worker, number } => {
                self.twice += u32::from(!self.done.insert(number));
                self.is_free(worker);
            }
            Event::Failed { worker, job } => {
                self.waiting.push_front(job);
                self.is_free(worker);
            }
        }
        self.hand_out(ctx);
    }

    /// A worker failed too often, and has been given up.
    fn terminated(&mut self, gone: Terminated, ctx: &mut Context<Self>) {
        if gone.reason != StopReason::Panicked {
            return; // the pool stops, and they with it
        }
        self.buried += 1;
        println!("{} is given up", gone.path);
        self.idle.retain(|worker| worker.id() != gone.id);
        if let Some((_, Some(job))) = self.workers.remove(&gone.id) {
            self.waiting.push_front(job);
        }
        self.hire(WORKERS + self.buried, ctx);
        self.hand_out(ctx);
    }
}

fn main() -> Result<(), Problem> {
    // The panics are the point here, and shown by the counts.
    std::panic::set_hook(Box::new(|_| ()));
    let system = ActorSystem::new("jobs")?;
    let (finished, wait) = channel();
    let pool = system.spawn("pool", move || Pool::new(finished))?;
    let end = pool.termination();
    for number in 0..JOBS {
        pool.tell(Event::Job(Job { number, tries: 0 }))?;
    }
    let (done, twice, buried) = wait.recv_timeout(Duration::from_secs(60))?;
    end.wait_timeout(Duration::from_secs(60));
    let metrics = system.metrics();
    let report = system.close()?;
    println!(
        "{done} jobs done; {} panics, {} restarts, workers given up: {buried}.\nClosed: {report}\n",
        metrics.panicked, metrics.restarts
    );
    verify(&[
        ("every job is done", done == JOBS as usize),
        ("and only once", twice == 0),
        ("the hopeless worker is given up, and no other", buried == 1),
        ("hard jobs were tried again", metrics.restarts >= u64::from(JOBS / 17)),
        ("the pool stopped its workers, and nothing is left", report.actors_stopped == 0),
        ("no message was lost", report.undelivered == 0),
    ])?;
    Ok(())
}
