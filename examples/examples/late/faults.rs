//! What makes timers late, alone and in pairs.

use std::error::Error;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::hooks::SlowTask;
use lars_scheduler::late::{Cause, Lateness};
use lars_scheduler::{Builder, Executor, Handle, LightArrayRevolverScheduler, Task};

/// What is late by more than this is explained.
pub(crate) const BOUND: Duration = Duration::from_millis(5);
/// How long a fault lasts.
pub(crate) const LASTS: Duration = Duration::from_millis(60);

/// What is said of one run; `None` if the fault cannot be had here.
pub(crate) type Injected = Result<Option<Run>, Box<dyn Error>>;

/// What is said of one run.
pub(crate) struct Run {
    pub(crate) table: Lateness,
    /// For how long the threads of the scheduler were ready and had no processor, if the kernel
    /// says so: that is a fault of its own, and nobody injected it.
    pub(crate) delayed: Duration,
}

impl From<Lateness> for Run {
    fn from(table: Lateness) -> Self {
        Self { table, delayed: Duration::ZERO }
    }
}

/// A way to make timers late.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// What has to be said of it: one of these.
    pub(crate) causes: &'static [Cause],
    /// In how many of a hundred runs.
    pub(crate) percent: usize,
    pub(crate) inject: fn() -> Injected,
}

impl Fault {
    pub(crate) const fn alone(
        name: &'static str,
        about: &'static str,
        causes: &'static [Cause],
        inject: fn() -> Injected,
    ) -> Self {
        Self { name, about, causes, percent: 99, inject }
    }
}

pub(crate) fn all() -> Vec<Fault> {
    let mut all = vec![
        Fault::alone(
            "inline sleeper",
            "a task on the timer thread sleeps",
            &[Cause::InlineTask],
            || behind(sleeps("sync_prices", LASTS)),
        ),
        Fault::alone(
            "inline burner",
            "a task on the timer thread computes",
            &[Cause::InlineTask],
            || behind(computes("render_report", LASTS)),
        ),
        Fault::alone(
            "crowd of one tick",
            "three thousand short tasks are due at once",
            &[Cause::TasksBefore],
            crowd,
        ),
        Fault::alone(
            "busy pool",
            "both threads of the pool sleep in a task",
            &[Cause::PoolBusy],
            busy_pool,
        ),
        Fault::alone(
            "crowded pool",
            "three thousand short tasks are due at once for a thread",
            &[Cause::PoolBusy],
            crowded_pool,
        ),
        Fault::alone("full queue", "the queue of the pool is full", &[Cause::PoolFull], full_queue),
        Fault::alone(
            "slow executor",
            "another executor rests before each task",
            &[Cause::OtherExecutor],
            slow_executor,
        ),
        Fault::alone(
            "busy event loop",
            "the loop that turns the driver does something else",
            &[Cause::EventLoop],
            busy_loop,
        ),
        Fault::alone("slow hook", "a hook rests on the timer thread", &[Cause::Hook], slow_hook),
    ];
    #[cfg(target_os = "linux")]
    all.extend(crate::machine::all());
    all.extend(crate::actors::ALL);
    #[cfg(feature = "durable")]
    all.extend(crate::durable::ALL);
    all
}

pub(crate) fn explaining() -> Builder {
    LightArrayRevolverScheduler::builder().explain_late(BOUND)
}

/// Builds, and waits until its thread has begun: what was before that, nobody has seen.
pub(crate) fn begun(builder: Builder) -> Result<LightArrayRevolverScheduler, Box<dyn Error>> {
    let scheduler = builder.build()?;
    let _ = scheduler.schedule_once(Duration::from_millis(20), || ())?;
    while scheduler.metrics().fired == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(scheduler)
}

/// A timer for each of the next milliseconds.
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
    let table = scheduler.lateness();
    #[cfg(target_os = "linux")]
    let delayed = crate::machine::run_delay_of_others()?;
    #[cfg(not(target_os = "linux"))]
    let delayed = Duration::ZERO;
    Ok(Some(Run { table, delayed }))
}

pub(crate) fn sleeps(name: &'static str, time: Duration) -> Task<impl FnOnce() + Send> {
    Task::new(move || thread::sleep(time)).named(name)
}

pub(crate) fn computes(name: &'static str, time: Duration) -> Task<impl FnOnce() + Send> {
    let compute = move || {
        let end = Instant::now() + time;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    };
    Task::new(compute).named(name)
}

/// Beats behind a task on the timer thread.
fn behind(task: Task<impl FnOnce() + Send + 'static>) -> Injected {
    let scheduler = begun(explaining().inline())?;
    let _ = scheduler.schedule_once(Duration::from_millis(2), task)?;
    beats(&scheduler, 60)?;
    at_the_end(&scheduler)
}

/// Three thousand short tasks that are due at once.
fn crowd_on(scheduler: &LightArrayRevolverScheduler) -> Injected {
    let due = Instant::now() + Duration::from_millis(40);
    for _ in 0..3_000 {
        let task = computes("send_digest", Duration::from_micros(20));
        let _ = scheduler.schedule_at(due, task)?;
    }
    at_the_end(scheduler)
}

fn crowd() -> Injected {
    crowd_on(&begun(explaining().inline())?)
}

fn crowded_pool() -> Injected {
    crowd_on(&begun(explaining().pool(|pool| pool.threads(1)))?)
}

fn busy_pool() -> Injected {
    let scheduler = begun(explaining().pool(|pool| pool.threads(2)))?;
    for _ in 0..2 {
        let _ = scheduler.schedule_once(Duration::ZERO, sleeps("resize_image", LASTS))?;
    }
    beats(&scheduler, 40)?;
    at_the_end(&scheduler)
}

fn full_queue() -> Injected {
    let scheduler = begun(explaining().pool(|pool| pool.threads(1).queue(1)))?;
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
    let said = scheduler.lateness().into();
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
    Ok(Some(timers.lateness().into()))
}

/// The task that it is told of takes a sixth of its time.
fn slow_hook() -> Injected {
    let limit = Duration::from_millis(2);
    let rests = |_: &SlowTask<'_>| thread::sleep(LASTS);
    let builder = explaining().inline().slow_inline(limit).on_slow(rests);
    let scheduler = begun(builder)?;
    let _ = scheduler.schedule_once(limit, sleeps("sync_prices", LASTS / 6))?;
    beats(&scheduler, 60)?;
    at_the_end(&scheduler)
}
