//! The builder: every setting, checked once.

use std::sync::Arc;
use std::time::Duration;

use crate::api::close::ClosePolicy;
use crate::api::settings::Settings;
use crate::base::backpressure::Backpressure;
use crate::base::error::ConfigError;
use crate::base::late::report::{Late, LateHook, Lateness};
use crate::base::panics::{PanicReport, Reporter};
use crate::base::slow::{SlowHook, SlowTask, SlowTasks};
use crate::base::threads::{OnThreadStart, ThreadStart};
use crate::base::tick::{Tick, nanos};
use crate::engine::lanes::{LaneSettings, MOST_WHEELS};
use crate::engine::shared::{DefaultExecutor, Executors, Settings as CheckedSettings};
use crate::engine::wheel::Wheel;
use crate::executor::pool::{Pool, STACKS};
use crate::executor::{Executor, PoolBuilder};
use lars_base::debug_fields;

type PanicHook = Box<dyn Fn(&PanicReport<'_>) + Send + Sync>;

/// Builds a scheduler. Made by
/// [`LightArrayRevolverScheduler::builder`](crate::LightArrayRevolverScheduler::builder).
///
/// [`build`](Self::build) checks all settings before it starts anything.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{ClosePolicy, ConfigError, LightArrayRevolverScheduler};
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let scheduler = LightArrayRevolverScheduler::builder()
///     .tick_duration(ms(5))
///     .ticks_per_wheel(256)
///     .coalesce(ms(20)) // wakes up less often
///     .max_pending(1_000_000)
///     .thread_name("timers")
///     .pool(|pool| pool.threads(2))
///     .shutdown_timeout(ms(5_000))
///     .close_policy(ClosePolicy::RunMarked)
///     .on_panic(|report| eprintln!("{:?}: {}", report.place, report.message))
///     .build()?;
/// assert_eq!(scheduler.tick_duration(), ms(5));
///
/// let wrong = LightArrayRevolverScheduler::builder().ticks_per_wheel(100).build();
/// assert!(wrong.unwrap_err().to_string().contains("100"));
/// let wrong = LightArrayRevolverScheduler::builder().max_pending(0).build_virtual();
/// assert!(matches!(wrong, Err(ConfigError::MaxPending { given: 0 })));
/// # Ok(()) }
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    pub(crate) settings: Settings,
    executor: Option<DefaultExecutor>,
    panic_hook: Option<PanicHook>,
    slow_hook: Option<SlowHook>,
    late_hook: Option<LateHook>,
    pub(crate) on_thread_start: OnThreadStart,
    /// The pool's own, if it has one.
    on_pool_start: OnThreadStart,
    capture_spans: bool,
    record_run_times: bool,
}

/// The settings that only the owner needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerSettings {
    pub(crate) wheel_size: usize,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) close_policy: ClosePolicy,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            settings: Settings::default(),
            executor: None,
            panic_hook: None,
            slow_hook: None,
            late_hook: None,
            on_thread_start: OnThreadStart::default(),
            on_pool_start: OnThreadStart::default(),
            capture_spans: false,
            record_run_times: false,
        }
    }

    /// Takes all settings that are plain values from `settings`, for example from a file. They
    /// replace those set before. See [`Settings`].
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The length of a tick, to which deadlines are rounded up. From 1 ns to 1 h; 1 ms by default.
    ///
    /// A shorter tick makes timers more punctual, but fewer of them share a wake-up. It costs
    /// nothing while nothing is due: the thread sleeps until the next deadline, not until the next
    /// tick.
    pub fn tick_duration(mut self, tick: Duration) -> Self {
        self.settings.tick_duration = Some(tick);
        self
    }

    /// How many ticks the revolving array has: a power of two from 2 to 65,536; 512 by default.
    ///
    /// Timers beyond one revolution wait on overflow levels and are moved down once or twice. Much
    /// larger arrays save that, and cost memory: 24 bytes a tick.
    pub fn ticks_per_wheel(mut self, ticks: usize) -> Self {
        self.settings.ticks_per_wheel = ticks;
        self
    }

    /// How long the timer thread may delay a wake-up so that it serves more timers: up to 1 h; zero
    /// by default.
    ///
    /// Each timer may be later by this much, and is still never early. With a long tick there is
    /// nothing to gain, because its timers share their wake-ups anyway. With a short tick it saves
    /// processor time if very many timers are due shortly after one another: docs/design.md has
    /// figures.
    ///
    /// (On Linux the thread asks for a timer slack of 1 ns, so that the kernel does not add 50 µs
    /// of its own.)
    pub fn coalesce(mut self, window: Duration) -> Self {
        self.settings.coalesce = window;
        self
    }

    /// Asks the system for short time slices for the timer thread; off by default.
    ///
    /// If there are more busy threads than processors, a thread that wakes waits until another
    /// thread has used up its slice of some 3 ms. From Linux 6.12 on, a thread with slices of
    /// 0.1 ms need not wait for that. Eight threads that scheduled without a pause on two
    /// processors gave a 99th percentile of lateness of 12 to 20 ms without this option, and of 5
    /// to 8 ms with it. The timer thread does not get a larger share of the processors. It may be
    /// interrupted more often while it runs an inline task. Threads that the timer thread starts
    /// have ordinary slices.
    ///
    /// On older kernels and other systems this does nothing. It does nothing either if the timer
    /// thread has a nice value below zero or a real-time policy, which
    /// [`on_thread_start`](Self::on_thread_start) may have set. It is off by default because it
    /// calls `sched_setattr(2)`, and a sandbox may kill a process that makes this call.
    pub fn short_slices(mut self, short: bool) -> Self {
        self.settings.short_slices = short;
        self
    }

    /// Whether time goes on while the machine is suspended, on Linux; off by default.
    ///
    /// The monotonic clock stands still in a suspend, so that a timer of five minutes has as much
    /// left after a night as before. With this option it has passed: deadlines count by
    /// `CLOCK_BOOTTIME`. Use it where they are somebody else's too, such as the lease of a session
    /// on a server. (Nobody can set this clock, unlike the wall clock of `lars-jobs`.)
    ///
    /// No sleep of a thread counts a suspend. So while something is pending, the timer thread wakes
    /// at least once a second to look at the clock, and what came due in the suspend begins up to a
    /// second after the resume. An event loop is told to turn as often
    /// ([`build_driver`](Self::build_driver)). [`Instant`](std::time::Instant)s stay those of the
    /// monotonic clock: one that is passed to [`schedule_at`](crate::Handle::schedule_at) is as far
    /// off as it is at the time of the call, and has passed earlier if the machine is suspended.
    ///
    /// In virtual time this does nothing. On other systems it is refused:
    /// [`ConfigError::CountSuspend`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(target_os = "linux")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::time::Duration;
    ///
    /// let leases = LightArrayRevolverScheduler::builder().count_suspend(true).build()?;
    /// let lease = leases.schedule_once(Duration::from_secs(300), || println!("log in again"))?;
    /// # assert!(lease.cancel());
    /// # Ok(()) }
    /// # #[cfg(not(target_os = "linux"))]
    /// # fn main() {}
    /// ```
    pub fn count_suspend(mut self, count: bool) -> Self {
        self.settings.count_suspend = count;
        self
    }

    /// How many timers may be pending; no limit by default. Beyond it, scheduling is refused with
    /// [`Refusal::Full`](crate::Refusal::Full).
    ///
    /// A limit needs one exact count, so all threads that schedule then share one more cache line.
    pub fn max_pending(mut self, limit: usize) -> Self {
        self.settings.max_pending = Some(limit);
        self
    }

    /// What becomes of calls of a thread that schedules more than its share while the timer thread
    /// is late: they wait by default. See [`Backpressure`].
    pub fn backpressure(mut self, backpressure: Backpressure) -> Self {
        self.settings.backpressure = backpressure;
        self
    }

    /// The name of the timer thread; `lars-scheduler` by default. The threads of the pool have this
    /// name with `-worker-0` and so on appended.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.settings.thread_name = Some(name.into());
        self
    }

    /// The stack size of the timer thread in bytes, from 64 KiB to 1 GiB, for inline tasks that
    /// need more or less than others; by default that of std, which is 2 MiB unless
    /// `RUST_MIN_STACK` says otherwise. The threads of the pool have [their
    /// own](PoolBuilder::stack_size).
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.settings.stack_size = Some(bytes);
        self
    }

    /// Runs tasks on `executor` unless they say otherwise. The default is a [`Pool`] of the
    /// scheduler's own.
    pub fn executor(mut self, executor: impl Executor) -> Self {
        self.executor = Some(match executor.as_pool() {
            Some(pool) => DefaultExecutor::Pool(pool.clone()),
            None => DefaultExecutor::Other(executor.into_shared()),
        });
        self
    }

    /// Runs tasks on the timer thread unless they say otherwise: for a scheduler whose tasks never
    /// block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let builder = LightArrayRevolverScheduler::builder().thread_name("timers");
    /// let scheduler = builder.inline().build()?;
    /// let (sender, receiver) = mpsc::channel();
    /// let _ = scheduler.schedule_once(Duration::ZERO, move || {
    ///     drop(sender.send(std::thread::current().name().map(String::from)));
    /// })?;
    /// assert_eq!(receiver.recv()?.as_deref(), Some("timers"));
    /// # Ok(()) }
    /// ```
    pub fn inline(mut self) -> Self {
        self.executor = Some(DefaultExecutor::Inline);
        self
    }

    /// Changes the scheduler's own pool: how many threads it has, how long its queue may be, and
    /// what else [`PoolBuilder`] can set.
    ///
    /// `options` is given the pool's builder as set so far. The scheduler names the threads, after
    /// [`thread_name`](Self::thread_name), and calls its own
    /// [`on_thread_start`](Self::on_thread_start) on them, unless the pool has another hook.
    ///
    /// With a limited [`queue`](PoolBuilder::queue), timers that are due while it is full stay in
    /// the scheduler until there is room. Nothing is lost, nothing runs on the timer thread
    /// instead, and that thread does not block: inline tasks run on time. The timers that wait are
    /// pending as before. They can be cancelled and moved, `stop` hands them back, and they keep
    /// their places within [`max_pending`](Self::max_pending). So both limits together bound the
    /// memory: if the pool falls behind, schedule calls are refused in the end. The log says when
    /// the queue is full, and [`Metrics::held_for_pool`](crate::Metrics::held_for_pool) counts the
    /// timers that had to wait.
    ///
    /// The limit does not hold for work that has no timer to wait in: what another executor
    /// rejected, and what a worker or a future hands over at once. Nor does it hold in virtual
    /// time, which would have to wait for the pool's threads.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let builder = LightArrayRevolverScheduler::builder();
    /// let scheduler = builder.pool(|pool| pool.threads(1).queue(1)).build()?;
    /// let (release, hold) = mpsc::channel::<()>();
    /// let _ = scheduler.schedule_once(Duration::ZERO, move || hold.recv().unwrap_or_default())?;
    /// let (sender, ran) = mpsc::channel();
    /// for number in 0..3 {
    ///     let sender = sender.clone();
    ///     let _ = scheduler.schedule_once(Duration::ZERO, move || drop(sender.send(number)))?;
    /// }
    /// while scheduler.metrics().held_for_pool < 2 {
    ///     std::thread::yield_now();
    /// }
    /// drop(release); // the task that occupies the thread ends
    /// assert_eq!((ran.recv()?, ran.recv()?, ran.recv()?), (0, 1, 2));
    /// # Ok(()) }
    /// ```
    pub fn pool(mut self, options: impl FnOnce(PoolBuilder) -> PoolBuilder) -> Self {
        let pool = options(self.own_pool());
        let settings = &mut self.settings;
        (settings.pool_threads, settings.pool_queue) = (pool.threads, pool.queue);
        (settings.pool_stack_size, self.on_pool_start) = (pool.stack_size, pool.on_start);
        self
    }

    /// The pool as set so far.
    fn own_pool(&self) -> PoolBuilder {
        let given = &self.settings;
        let mut pool = Pool::builder(format!("{}-worker", given.name()));
        (pool.threads, pool.queue) = (given.pool_threads, given.pool_queue);
        (pool.stack_size, pool.on_start) = (given.pool_stack_size, self.on_pool_start.clone());
        pool
    }

    /// The same, checked. Its threads have the hook of all threads, unless they have one of their
    /// own.
    fn checked_pool(&self) -> Result<Pool, ConfigError> {
        let mut pool = self.own_pool();
        if pool.on_start.0.is_none() {
            pool.on_start = self.on_thread_start.clone();
        }
        pool.build().map_err(|error| match error {
            // Report the name that the caller gave, not the one derived from it.
            ConfigError::ThreadName { .. } => {
                ConfigError::ThreadName { given: self.settings.name().to_owned() }
            }
            other => other,
        })
    }

    /// How long [`close`](crate::LightArrayRevolverScheduler::close) waits, in all, for the timer
    /// thread and for unfinished tasks on the scheduler's own pool; 5 s by default. Dropping the
    /// owner waits as long for the timer thread.
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.settings.shutdown_timeout = limit;
        self
    }

    /// What [`close`](crate::LightArrayRevolverScheduler::close) does with pending tasks; by
    /// default it runs them.
    pub fn close_policy(mut self, policy: ClosePolicy) -> Self {
        self.settings.close_policy = policy;
        self
    }

    /// Calls `hook` for every panic that the scheduler contains, on the thread that panicked.
    /// Panics are counted and logged in any case. A panic of the hook itself is logged.
    pub fn on_panic(mut self, hook: impl Fn(&PanicReport<'_>) + Send + Sync + 'static) -> Self {
        self.panic_hook = Some(Box::new(hook));
        self
    }

    /// Calls `hook` on each thread that the scheduler starts, before the thread does anything else:
    /// on the timer thread, and on the threads of the scheduler's own pool. Use it to set a
    /// thread's affinity or priority, or to register it with a profiler. A hook that panics does no
    /// harm.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::hooks::ThreadKind;
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::sync::mpsc;
    ///
    /// let (sender, threads) = mpsc::channel();
    /// let scheduler = LightArrayRevolverScheduler::builder()
    ///     .thread_name("timers")
    ///     .on_thread_start(move |thread| drop(sender.send((thread.kind, thread.name.to_owned()))))
    ///     .build()?;
    /// assert_eq!(threads.recv()?, (ThreadKind::Timer, "timers".to_owned()));
    /// # drop(scheduler);
    /// # Ok(()) }
    /// ```
    pub fn on_thread_start(
        mut self,
        hook: impl Fn(&ThreadStart<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_thread_start = OnThreadStart(Some(Arc::new(hook)));
        self
    }

    /// Whether each task runs in the `tracing` span in which it was scheduled; off by default.
    ///
    /// The span of the calling thread is captured by each call that schedules something, and kept
    /// until the task has run, been cancelled or dropped. It is entered around the run, on whatever
    /// thread that is. The runs of a repeat have the span of the call that scheduled it. So do the
    /// tasks and closures of the systems in `lars-jobs`.
    ///
    /// Futures have spans of their own (`tracing::Instrument`). Actors receive messages in spans
    /// only if their system captures spans itself.
    ///
    /// With this on, each task is boxed with its span, and [`TaskBody::run_due`] is not used: tasks
    /// run one by one.
    ///
    /// [`TaskBody::run_due`]: crate::executor::TaskBody::run_due
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::time::Duration;
    ///
    /// let scheduler = LightArrayRevolverScheduler::builder().capture_spans(true).build()?;
    /// let request = tracing::info_span!("request", id = 17);
    /// let _in = request.enter();
    /// let timeout = scheduler.schedule_once(Duration::from_secs(5), || {
    ///     tracing::warn!("no answer"); // in `request{id=17}`
    /// })?;
    /// timeout.cancel();
    /// # Ok(()) }
    /// ```
    pub fn capture_spans(mut self, on: bool) -> Self {
        self.capture_spans = on;
        self
    }

    /// How long a task may run on the timer thread before it counts as slow: 10 ms by default.
    /// [`Duration::MAX`] turns this off.
    ///
    /// A slow task is counted and logged, and passed to the hook of [`on_slow`](Self::on_slow).
    /// In virtual time no task is slow, because time stands still while it runs.
    pub fn slow_inline(mut self, threshold: Duration) -> Self {
        self.settings.slow_inline = threshold;
        self
    }

    /// How long a task may run on a [`Pool`] before it counts as slow: 1 s by default.
    /// [`Duration::MAX`] turns this off. On other executors the scheduler does not see how long
    /// tasks run.
    pub fn slow_on_pool(mut self, threshold: Duration) -> Self {
        self.settings.slow_on_pool = threshold;
        self
    }

    /// Whether to record how long tasks run, by whose they are, for
    /// [`Handle::run_times`](crate::Handle::run_times). Off by default.
    ///
    /// While it is on, the clock is read before each task rather than before each 32nd, and each
    /// run is added up in a table, under a lock that threads rarely share. The table has an entry
    /// for each type, place and name of a task that ever ran. Tasks that run together
    /// ([`TaskBody::run_due`](crate::executor::TaskBody::run_due)) are timed together, and the time
    /// counts for the last of them. In virtual time nothing is recorded.
    pub fn record_run_times(mut self, on: bool) -> Self {
        self.record_run_times = on;
        self
    }

    /// Calls `hook` for every slow task, after it has run, on its thread. On the timer thread the
    /// hook itself holds up all timers. Slow tasks are counted and logged in any case. A hook that
    /// panics does no harm. See [`SlowTask`].
    pub fn on_slow(mut self, hook: impl Fn(&SlowTask<'_>) + Send + Sync + 'static) -> Self {
        self.slow_hook = Some(Box::new(hook));
        self
    }

    /// Finds out why tasks begin late, if they are late by more than `bound`; off by default.
    ///
    /// A task is late by what lies between the instant that was promised and its begin. Promised is
    /// its deadline, rounded up to a [tick](Self::tick_duration), plus the window of
    /// [`coalesce`](Self::coalesce). [`Handle::lateness`](crate::Handle::lateness) has a table of
    /// what all late tasks waited for: which tasks ran meanwhile, on which threads, and what the
    /// machine did. The log gets a line a second, at most. [`on_late`](Self::on_late) is told each
    /// time.
    ///
    /// A task that is punctual costs nothing beyond what its thread notes for itself: what ran
    /// between two readings of the clock. In virtual time nothing is late.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::late::{Cause, Who};
    /// use lars_scheduler::{LightArrayRevolverScheduler, Task};
    /// use std::{sync::mpsc, thread, time::Duration};
    ///
    /// let ms = Duration::from_millis;
    /// let (sender, late) = mpsc::channel();
    /// let scheduler = LightArrayRevolverScheduler::builder()
    ///     .inline()
    ///     .explain_late(ms(2))
    ///     .on_late(move |late| drop(sender.send((late.who.clone(), late.shares.to_vec()))))
    ///     .build()?;
    /// let timers = scheduler.handle();
    /// let slow = move || {
    ///     let _ = timers.schedule_once(ms(5), Task::new(|| ()).named("heartbeat"));
    ///     thread::sleep(ms(50));
    /// };
    /// scheduler.schedule_once(ms(10), Task::new(slow).named("slow"))?;
    ///
    /// let (who, shares) = late.recv()?;
    /// let name = |who: &Who| who.task().and_then(|task| task.name());
    /// # if name(&who) == Some("heartbeat") {
    /// assert_eq!(name(&who), Some("heartbeat"));
    /// let most = &shares[0];
    /// assert_eq!(most.cause, Cause::InlineTask);
    /// assert_eq!(most.culprit.as_ref().and_then(name), Some("slow"));
    /// # }
    /// # Ok(()) }
    /// ```
    pub fn explain_late(mut self, bound: Duration) -> Self {
        self.settings.explain_late = Some(bound);
        self
    }

    /// Calls `hook` with what was late and why, on the thread on which it was late, after it has
    /// run; on an executor that is not ours, just before. Where much is late it is called once for
    /// many ([`Late::count`]), up to a quarter of the bound after the first has run. For an inline
    /// task that is the timer thread, where a hook holds up all timers. Nothing calls it without
    /// [`explain_late`](Self::explain_late). A hook that panics does no harm.
    pub fn on_late(mut self, hook: impl Fn(&Late<'_>) + Send + Sync + 'static) -> Self {
        self.late_hook = Some(Box::new(hook));
        self
    }

    /// Checks everything, with the defaults that depend on what is built.
    pub(crate) fn check(
        self,
        default_tick: Duration,
        channels: usize,
        wheel_after: Option<u64>,
        default_executor: impl FnOnce(&Pool) -> DefaultExecutor,
    ) -> Result<(CheckedSettings, Executors, OwnerSettings), ConfigError> {
        let given = &self.settings;
        let tick = Tick::new(given.tick_duration.unwrap_or(default_tick))?;
        if given.coalesce > Tick::MAX {
            return Err(ConfigError::Coalesce { given: given.coalesce, max: Tick::MAX });
        }
        let wheel_size = checked_wheel_size(given.ticks_per_wheel)?;
        if given.max_pending == Some(0) {
            return Err(ConfigError::MaxPending { given: 0 });
        }
        if let Some(given) = given.stack_size.filter(|bytes| !STACKS.contains(bytes)) {
            let (min, max) = STACKS.into_inner();
            return Err(ConfigError::StackSize { given, min, max });
        }
        let pool = self.checked_pool()?;
        let (inline, on_pool) = (nanos(given.slow_inline), nanos(given.slow_on_pool));
        let mut slow = SlowTasks { inline, pool: on_pool, ..SlowTasks::default() };
        slow.hook = self.slow_hook;
        let mut reporter = Reporter::new(self.panic_hook, slow);
        reporter.times = self.record_run_times.then(Box::default);
        let (late_hook, coalesce) = (self.late_hook, nanos(given.coalesce));
        let lateness = |bound| Lateness::new(nanos(bound), tick, coalesce, late_hook);
        reporter.late = given.explain_late.map(lateness).map(Box::new);
        let settings = CheckedSettings {
            tick,
            coalesce,
            lanes: LaneSettings {
                channels,
                wheel_after,
                most_wheels: MOST_WHEELS,
                tick,
                wheel_size,
            },
            limit: given.max_pending,
            backpressure: given.backpressure,
            capture_spans: self.capture_spans,
            reporter,
        };
        let default = self.executor.unwrap_or_else(|| default_executor(&pool));
        let executors = Executors { default, pool };
        let owner = OwnerSettings {
            wheel_size,
            shutdown_timeout: given.shutdown_timeout,
            close_policy: given.close_policy,
        };
        Ok((settings, executors, owner))
    }
}

fn checked_wheel_size(given: usize) -> Result<usize, ConfigError> {
    let (min, max) = Wheel::SIZES;
    let valid = given.is_power_of_two() && (min..=max).contains(&given);
    valid.then_some(given).ok_or(ConfigError::TicksPerWheel { given, min, max })
}

debug_fields!(|it: Builder| settings: it.settings);
