//! What makes timers late, alone and in pairs.

use std::error::Error;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::late::{Cause, Lateness};
use lars_scheduler::{Builder, Executor, Handle, LightArrayRevolverScheduler, Task};

/// What is late by more than this is explained.
const BOUND: Duration = Duration::from_millis(5);
/// How long a fault lasts.
const LASTS: Duration = Duration::from_millis(60);

type Injected = Result<Option<Lateness>, Box<dyn Error>>;

/// A way to make timers late.
pub(crate) struct Fault {
    name: &'static str,
    causes: &'static [Cause],
    percent: usize,
    inject: fn() -> Injected,
}

impl Fault {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// What has to be said of it: one of these.
    pub(crate) fn causes(&self) -> &'static [Cause] {
        self.causes
    }

    /// In how many of a hundred runs.
    pub(crate) fn percent(&self) -> usize {
        self.percent
    }

    /// What the scheduler says of one run; `None` if the fault cannot be had here.
    pub(crate) fn inject(&self) -> Injected {
        (self.inject)()
    }
}

const fn alone(name: &'static str, causes: &'static [Cause], inject: fn() -> Injected) -> Fault {
    Fault { name, causes, percent: 99, inject }
}

#[cfg(target_os = "linux")]
const fn pair(name: &'static str, causes: &'static [Cause], inject: fn() -> Injected) -> Fault {
    Fault { name, causes, percent: 95, inject }
}

pub(crate) fn all() -> Vec<Fault> {
    let mut all = vec![
        alone("inline sleeper", &[Cause::InlineTask], inline_sleeper),
        alone("crowd of one tick", &[Cause::TasksBefore], crowd),
        alone("busy pool", &[Cause::PoolBusy], busy_pool),
        alone("full queue", &[Cause::PoolFull], full_queue),
        alone("slow executor", &[Cause::OtherExecutor], slow_executor),
        alone("busy event loop", &[Cause::EventLoop], busy_loop),
    ];
    #[cfg(target_os = "linux")]
    {
        use crate::machine;
        all.push(alone("stopped process", &[Cause::Overslept], machine::stopped));
        all.push(alone("busy processor", &[Cause::Processor], machine::busy_processor));
        all.push(alone("quota", &[Cause::Throttled], machine::quota));
        all.push(pair("sleeper, then stopped", &[Cause::InlineTask], || {
            machine::sleeper_and_stopped(4 * LASTS, LASTS)
        }));
        all.push(pair("stopped, then sleeper", &[Cause::Overslept], || {
            machine::sleeper_and_stopped(LASTS, 4 * LASTS)
        }));
    }
    all
}

pub(crate) fn explaining() -> Builder {
    LightArrayRevolverScheduler::builder().explain_late(BOUND)
}

/// A timer for each millisecond that comes.
pub(crate) fn beats(timers: &Handle, milliseconds: u64) -> Result<(), Box<dyn Error>> {
    for ms in 1..=milliseconds {
        let beat = Task::new(|| ()).named("heartbeat");
        let _ = timers.schedule_once(Duration::from_millis(ms), beat)?;
    }
    Ok(())
}

/// Waits until nothing is pending and all has run, and says what was late.
pub(crate) fn at_the_end(scheduler: &LightArrayRevolverScheduler) -> Injected {
    while scheduler.metrics().pending > 0 || scheduler.metrics().pool.queued > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    // What ran last is told when the next turn begins.
    thread::sleep(Duration::from_millis(5));
    Ok(Some(scheduler.lateness()))
}

pub(crate) fn sleeps(name: &'static str, time: Duration) -> Task<impl FnOnce() + Send> {
    Task::new(move || thread::sleep(time)).named(name)
}

fn inline_sleeper() -> Injected {
    let scheduler = explaining().inline().build()?;
    let _ = scheduler.schedule_once(Duration::from_millis(2), sleeps("sync_prices", LASTS))?;
    beats(&scheduler, 60)?;
    at_the_end(&scheduler)
}

fn crowd() -> Injected {
    let scheduler = explaining().inline().build()?;
    let busy = || {
        let end = Instant::now() + Duration::from_micros(20);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    };
    let due = Instant::now() + Duration::from_millis(40);
    for _ in 0..3_000 {
        let _ = scheduler.schedule_at(due, Task::new(busy).named("send_digest"))?;
    }
    at_the_end(&scheduler)
}

fn busy_pool() -> Injected {
    let scheduler = explaining().pool(|pool| pool.threads(2)).build()?;
    for _ in 0..2 {
        let _ = scheduler.schedule_once(Duration::ZERO, sleeps("resize_image", LASTS))?;
    }
    beats(&scheduler, 40)?;
    at_the_end(&scheduler)
}

fn full_queue() -> Injected {
    let scheduler = explaining().pool(|pool| pool.threads(1).queue(1)).build()?;
    let _ = scheduler.schedule_once(Duration::ZERO, sleeps("resize_image", LASTS))?;
    beats(&scheduler, 40)?;
    at_the_end(&scheduler)
}

/// Runs one task after another, each after a pause.
struct Slow(mpsc::Sender<Runnable>);

impl Executor for Slow {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        self.0.send(task).map_err(|lost| Rejected::new(lost.0, "its thread has ended"))
    }
}

fn slow_executor() -> Injected {
    let (sender, tasks) = mpsc::channel::<Runnable>();
    let worker = thread::spawn(move || {
        for task in tasks {
            thread::sleep(LASTS);
            task.run();
        }
    });
    let scheduler = explaining().executor(Slow(sender)).build()?;
    beats(&scheduler, 2)?;
    while scheduler.metrics().fired < 2 {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(3 * LASTS);
    let said = scheduler.lateness();
    // With its executor, whose queue ends then.
    drop(scheduler);
    worker.join().map_err(|_| "a task panicked")?;
    Ok(Some(said))
}

fn busy_loop() -> Injected {
    let mut timers = explaining().build_driver(|| ())?;
    beats(&timers.handle(), 20)?;
    let _ = timers.turn(Instant::now());
    thread::sleep(LASTS);
    while timers.turn(Instant::now()).is_some() {}
    Ok(Some(timers.lateness()))
}
