//! Builds a system: its settings, its threads, its scheduler.

use std::time::Duration;

use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::late::Late;
use lars_scheduler::{Executor, Handle, LightArrayRevolverScheduler, VirtualTime};

use crate::base::error::BuildError;
use crate::base::late::Whose;
use crate::base::name::{NAME_RULE, is_name};
use crate::base::slow_receive::{SlowHook, SlowReceive};
use crate::base::supervision::{Directive, Panic};
use crate::base::threads::{OnThreadStart, ThreadStart};
use crate::cell::dead_letters::{DeadLetter, Hook};
use crate::cell::incidents::{Incidents, PanicHook};
use crate::cell::late_messages::{LateHook, LateMessages};
use crate::cell::registry::Registry;
use crate::cell::rules::{Rules, StopHook};
use crate::dispatcher::Dispatcher;
use crate::dispatcher::manual::Manual;
use crate::dispatcher::pool::Pool;
use crate::dispatcher::task::{Activate, Task};
use crate::dispatcher::worker::NoTurn;
use crate::sync::{Arc, Mutex};
use crate::system::close::ClosePolicy;
use crate::system::closing::StopScheduler;
use crate::system::owner::ActorSystem;
use crate::system::settings::Settings;

/// The most messages of one activation.
const MAX_THROUGHPUT: usize = 1 << 20;
/// The most threads of a system.
const MAX_THREADS: usize = 1024;

type SetScheduler = Box<dyn FnOnce(lars_scheduler::Builder) -> lars_scheduler::Builder + Send>;

/// Builds a system. Made by [`ActorSystem::builder`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::{ActorSystem, ClosePolicy};
/// use std::time::Duration;
///
/// let system = ActorSystem::builder("server")
///     .threads(2)
///     .throughput(64)
///     .time_slice(Duration::from_millis(1))
///     .tick_duration(Duration::from_millis(5))
///     .shutdown_timeout(Duration::from_secs(5))
///     .close_policy(ClosePolicy::DropPending)
///     .on_dead_letter(|letter| eprintln!("{letter:?}"))
///     .build()?;
/// assert_eq!(system.name(), "server");
/// assert!(ActorSystem::builder("server").threads(0).build().is_err());
/// # Ok(()) }
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    name: String,
    threads: usize,
    throughput: usize,
    time_slice: Option<Duration>,
    slow_receive: Duration,
    explain_late: Option<Duration>,
    capture_spans: bool,
    scheduler: SetScheduler,
    /// A scheduler that the system does not own.
    foreign: Option<Handle>,
    shutdown_timeout: Duration,
    close_policy: ClosePolicy,
    on_dead_letter: Option<Hook>,
    pub(crate) on_panic: Option<PanicHook>,
    on_slow: Option<SlowHook>,
    on_late: Option<LateHook>,
    on_thread_start: OnThreadStart,
    /// For a test kit.
    pub(crate) on_stop: Option<StopHook>,
}

impl Builder {
    /// Takes all settings that are plain values from `settings`, for example from a file. They
    /// replace those set before. See [`Settings`].
    pub fn settings(mut self, settings: Settings) -> Self {
        let Settings {
            threads,
            throughput,
            time_slice,
            slow_receive,
            explain_late,
            shutdown_timeout,
            close_policy,
            mut scheduler,
        } = settings;
        scheduler.thread_name.get_or_insert_with(|| scheduler_name(&self.name));
        scheduler.explain_late = scheduler.explain_late.or(explain_late);
        self.threads = threads.unwrap_or_else(default_threads);
        self.throughput = throughput;
        self.time_slice = time_slice;
        self.slow_receive = slow_receive;
        self.explain_late = explain_late;
        self.shutdown_timeout = shutdown_timeout;
        self.close_policy = close_policy;
        self.scheduler(|builder| builder.settings(scheduler))
    }

    /// How many threads run the actors, from 1 to 1,024; by default one per core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How many messages an actor receives before another one gets its turn on the thread, from 1
    /// to 1,048,576; 64 by default. A larger number is faster for busy actors, a smaller one fairer
    /// to the others.
    pub fn throughput(mut self, messages: usize) -> Self {
        self.throughput = messages;
        self
    }

    /// How long an actor may receive before another one gets its turn, in addition to the
    /// [`throughput`](Self::throughput). It costs a reading of the clock after each message. By
    /// default there is no such limit. A message that is being received is never interrupted.
    pub fn time_slice(mut self, slice: Duration) -> Self {
        self.time_slice = Some(slice);
        self
    }

    /// How long the handler of a message may run before the message counts as slow: 100 ms by
    /// default. [`Duration::MAX`] turns it off.
    ///
    /// A slow message is logged as "a slow message", at `WARN` and with the target `mini_actor`,
    /// counted in [`slow_receives`](crate::metrics::SystemMetrics::slow_receives), and passed to
    /// the hook of [`on_slow`](Self::on_slow), after it has been received. [`SlowReceive`] says
    /// what is detected. In virtual time nothing is slow.
    ///
    /// Inline tasks on the timer thread are the scheduler's, which logs slow ones as "a slow task",
    /// with the target `lars_scheduler`: see
    /// [its own limit](lars_scheduler::Builder::slow_inline).
    pub fn slow_receive(mut self, threshold: Duration) -> Self {
        self.slow_receive = threshold;
        self
    }

    /// Finds out why the messages of timers are received late, if they are late by more than
    /// `bound`; off by default.
    ///
    /// These are messages that [`Scheduler`](crate::Scheduler) sends, once or periodically, those
    /// of an actor's own [`timers`](crate::Context::timers), and calls of
    /// [`Actor::receive_timeout`](crate::Actor::receive_timeout). Each is late by what lies between
    /// the instant that was promised and the one at which the actor begins with it. Promised is the
    /// deadline, rounded up to a [tick](Self::tick_duration), plus the scheduler's
    /// [`coalesce`](lars_scheduler::Builder::coalesce). A tick that its actor missed is not late
    /// once more when it is made up for.
    ///
    /// [`System::lateness`](crate::System::lateness) has a table of what all of them waited for,
    /// [`on_late`](Self::on_late) is told each time, and the log gets a line a second at most:
    /// "received late", at `WARN` and with the target `mini_actor`. The causes:
    ///
    /// - [`Timer`]: the message came into the mailbox late. The scheduler's own table
    ///   ([`Handle::lateness`]) says why: its
    ///   [`explain_late`](lars_scheduler::Builder::explain_late) is set as well, unless the
    ///   scheduler is [somebody else's](Self::on_scheduler).
    /// - [`ActorBusy`]: the actor was in another message when this one came, or in a hook.
    /// - [`MessagesBefore`]: then others stood before it.
    /// - [`DispatcherBusy`]: the thread that ran the actor in the end was with others, which are
    ///   named: actors, piped futures, and closures of the scheduler.
    /// - [`Unknown`]: the rest. Mostly no thread was awake, and the machine was slow to wake one;
    ///   or the actor was being restarted.
    ///
    /// [`Timer`]: lars_scheduler::late::Cause::Timer
    /// [`ActorBusy`]: lars_scheduler::late::Cause::ActorBusy
    /// [`MessagesBefore`]: lars_scheduler::late::Cause::MessagesBefore
    /// [`DispatcherBusy`]: lars_scheduler::late::Cause::DispatcherBusy
    /// [`Unknown`]: lars_scheduler::late::Cause::Unknown
    ///
    /// In virtual time nothing is late. While it is off, a message costs a test or two, and no
    /// memory. While it is on, each turn of an actor costs a reading of the clock; a timer's
    /// message an allocation, and a lock of its mailbox's own; and while one waits, each message
    /// before it a reading of the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use mini_actor::{Actor, Context};
    /// use lars_scheduler::late::Cause;
    /// use mini_actor::ActorSystem;
    /// use std::{sync::mpsc, thread, time::Duration};
    ///
    /// struct Sleeper;
    /// impl Actor for Sleeper {
    ///     type Message = Duration;
    ///     fn receive(&mut self, time: Duration, ctx: &mut Context<Self>) {
    ///         if !time.is_zero() {
    ///             let soon = Duration::from_millis(10);
    ///             let _ = ctx.timers().start_single("heartbeat", soon, Duration::ZERO);
    ///             thread::sleep(time); // nobody receives the heartbeat meanwhile
    ///         }
    ///     }
    /// }
    ///
    /// let (ms, (sender, late)) = (Duration::from_millis, mpsc::channel());
    /// let system = ActorSystem::builder("server")
    ///     .explain_late(ms(5))
    ///     .on_late(move |late| drop(sender.send((late.who.to_string(), late.shares.to_vec()))))
    ///     .build()?;
    /// let sleeper = system.spawn("sleeper", || Sleeper)?;
    /// sleeper.tell(ms(100))?;
    ///
    /// let (who, shares) = late.recv()?;
    /// assert_eq!(who, "/sleeper in core::time::Duration");
    /// # if shares[0].cause == Cause::ActorBusy {
    /// assert_eq!(shares[0].cause, Cause::ActorBusy);
    /// assert_eq!(shares[0].culprit.as_ref().unwrap().to_string(), who);
    /// # }
    /// print!("{}", system.lateness());
    /// # Ok(()) }
    /// ```
    pub fn explain_late(mut self, bound: Duration) -> Self {
        self.explain_late = Some(bound);
        self
    }

    /// Whether each message is received in the `tracing` span in which it was told. By default it
    /// is received in none.
    ///
    /// The span is that of the call of [`tell`](crate::ActorRef::tell), `ask`, `stash`,
    /// [`pipe_to_self`](crate::Context::pipe_to_self), a scheduled send, or of the call that
    /// started the actor's timer. (Of [`tell_when_room`](crate::ActorRef::tell_when_room) it is the
    /// span in which the future is polled.) Each tick of a timer and each periodic send has the
    /// span of the call that started it. Piped futures are polled in their spans. The tasks of the
    /// system's scheduler run in theirs, as with
    /// [its own setting](lars_scheduler::Builder::capture_spans), which this one sets; a scheduler
    /// of somebody else ([`on_scheduler`](Self::on_scheduler)) keeps its own, and scheduled sends
    /// there have no span without it.
    ///
    /// The hooks of actors other than `receive` are called outside of these spans.
    ///
    /// While it is off, a message costs a test where it is sent and one where it is received, and
    /// no memory. While it is on, the span is kept in a table beside the mailbox: a message costs a
    /// lock of that table when it is received. One that is told in a span costs another lock, and
    /// one or two allocations, when it is sent.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::{Actor, ActorSystem, Context};
    ///
    /// struct Orders;
    ///
    /// impl Actor for Orders {
    ///     type Message = u64;
    ///     fn receive(&mut self, order: u64, _: &mut Context<Self>) {
    ///         tracing::info!(order, "accepted"); // in `request{id=17}`
    ///     }
    /// }
    ///
    /// let system = ActorSystem::builder("shop").capture_spans(true).build()?;
    /// let orders = system.spawn("orders", || Orders)?;
    /// let request = tracing::info_span!("request", id = 17);
    /// request.in_scope(|| orders.tell(4711))?;
    /// system.close()?;
    /// # Ok(()) }
    /// ```
    pub fn capture_spans(mut self, on: bool) -> Self {
        self.capture_spans = on;
        self
    }

    /// The tick of the scheduler: what deadlines are rounded up to; 1 ms by default, 1 ns in
    /// virtual time.
    pub fn tick_duration(self, tick: Duration) -> Self {
        self.scheduler(move |scheduler| scheduler.tick_duration(tick))
    }

    /// Changes any other setting of the scheduler, by the scheduler's own builder. The builder that
    /// `set` gets has the settings that a system needs: the name of the thread, an executor that
    /// runs closures on the threads of the actors, and the `shutdown_timeout`. You may change these
    /// too. (The scheduler's own close policy has no effect: see
    /// [`close_policy`](Self::close_policy).)
    ///
    /// Timers of actors and timeouts of questions count against `max_pending`. Beyond the limit,
    /// starting one is refused. A periodic timer of an actor that finds no place when it is armed
    /// again ends, and an error is logged.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::ActorSystem;
    /// use std::time::Duration;
    ///
    /// let system = ActorSystem::builder("server")
    ///     .scheduler(|scheduler| scheduler.ticks_per_wheel(4096).max_pending(1_000_000))
    ///     .scheduler(|scheduler| scheduler.coalesce(Duration::from_millis(1)))
    ///     .build()?;
    /// # drop(system);
    /// let wrong = ActorSystem::builder("server").scheduler(|scheduler| scheduler.max_pending(0));
    /// assert!(wrong.build().is_err());
    /// # Ok(()) }
    /// ```
    pub fn scheduler(
        mut self,
        set: impl FnOnce(lars_scheduler::Builder) -> lars_scheduler::Builder + Send + 'static,
    ) -> Self {
        let before = self.scheduler;
        self.scheduler = Box::new(move |scheduler| set(before(scheduler)));
        self
    }

    /// Puts the system on a scheduler that it does not own: one timer thread for the actors and for
    /// the rest of the program.
    ///
    /// The system does not stop that scheduler. When it is closed, its actors' timers, their
    /// receive timeouts and the time limits of its questions end with the actors. Scheduled
    /// messages stay with the scheduler, whatever the [`close_policy`](Self::close_policy) says.
    /// Their receivers have stopped, so they become dead letters when they are due, and periodic
    /// sends end then.
    ///
    /// Close the system before its scheduler. If the scheduler goes first, the actors run on
    /// without timers: starting one is refused with [`Refusal::Stopped`](crate::Refusal::Stopped),
    /// and an actor that pauses before its restart is restarted then.
    /// The scheduler's `close` runs pending one-shots before their time, the actors' timers and
    /// timeouts among them, unless its close policy forbids it.
    ///
    /// Closures on [`Scheduler::timers`](crate::Scheduler::timers) run where that scheduler runs
    /// its tasks, not on the threads of the actors. What [`scheduler`](Self::scheduler) sets has no
    /// effect. A system of the test kit has a scheduler of its own in any case.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use mini_actor::ActorSystem;
    /// use std::time::Duration;
    ///
    /// let timers = LightArrayRevolverScheduler::new()?;
    /// let system = ActorSystem::builder("server").on_scheduler(&timers).build()?;
    /// assert!(system.close()?.is_complete());
    /// let _ = timers.schedule_once(Duration::from_secs(1), || println!("it runs on"))?;
    /// # Ok(()) }
    /// ```
    pub fn on_scheduler(mut self, scheduler: &Handle) -> Self {
        self.foreign = Some(scheduler.clone());
        self
    }

    /// How long [`ActorSystem::close`] waits; 5 s by default.
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.shutdown_timeout = limit;
        self
    }

    /// What [`ActorSystem::close`] does with the messages that are scheduled and not due. By
    /// default it sends them, before their time.
    pub fn close_policy(mut self, policy: ClosePolicy) -> Self {
        self.close_policy = policy;
        self
    }

    /// Calls `hook` with every dead letter, on the thread that discovers it. Dead letters are
    /// counted in any case. A panic of the hook is logged. The hook may send messages. If that
    /// causes another dead letter on its thread, that one is counted and logged but shown to no
    /// hook. The hook is dropped when the system has been dropped and the last actor has stopped.
    /// See also [`System::on_dead_letter`](crate::System::on_dead_letter).
    pub fn on_dead_letter(
        mut self,
        hook: impl Fn(&DeadLetter<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_dead_letter = Some(Arc::new(hook));
        self
    }

    /// Calls `hook` with every panic of an actor and the decision about it, on the actor's thread,
    /// before the decision is carried out. Panics are logged and counted in any case. A panic of
    /// the hook is logged. The hook is dropped when the system has been dropped and the last actor
    /// has stopped.
    ///
    /// Panics of closures on [`Scheduler::timers`](crate::Scheduler::timers), of piped futures, of
    /// messages' clones in a periodic send, of dead letter hooks and of destructors of dead letters
    /// are not among them, because they are not an actor's. All are contained and logged as errors;
    /// those of scheduler tasks are also counted in the scheduler's metrics
    /// ([`Handle::metrics`](lars_scheduler::Handle::metrics)). To learn of every panic, set a hook
    /// with [`std::panic::set_hook`]: it is called for these as well.
    pub fn on_panic(mut self, hook: impl Fn(&Panic, Directive) + Send + Sync + 'static) -> Self {
        self.on_panic = Some(Arc::new(hook));
        self
    }

    /// Calls `hook` for every slow message, after it has been received, on the thread that received
    /// it; the actors that wait for that thread wait meanwhile. Slow messages are logged and
    /// counted in any case. A panic of the hook is logged. The hook is dropped when the system has
    /// been dropped and the last actor has stopped. [`slow_receive`](Self::slow_receive) says what
    /// is slow.
    pub fn on_slow(mut self, hook: impl Fn(&SlowReceive<'_>) + Send + Sync + 'static) -> Self {
        self.on_slow = Some(Arc::new(hook));
        self
    }

    /// Calls `hook` with each message of a timer that was received late, and why, after it has been
    /// received, on the thread that received it; the actors that wait for that thread wait
    /// meanwhile. Nothing calls it without [`explain_late`](Self::explain_late). A panic of the
    /// hook is logged. The hook is dropped when the system has been dropped and the last actor has
    /// stopped. The tasks of the scheduler that are late have
    /// [a hook of their own](lars_scheduler::Builder::on_late).
    pub fn on_late(mut self, hook: impl Fn(&Late<'_>) + Send + Sync + 'static) -> Self {
        self.on_late = Some(Arc::new(hook));
        self
    }

    /// Calls `hook` on each thread of the system before it does anything else: on those that run
    /// actors, those of pinned actors, and those of the system's own scheduler. For affinity,
    /// priority, or a profiler. A hook that panics is logged. Replaces one that
    /// [`scheduler`](Self::scheduler) sets.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::hooks::ThreadKind;
    /// use mini_actor::ActorSystem;
    /// use std::sync::mpsc;
    ///
    /// let (sender, threads) = mpsc::channel();
    /// let system = ActorSystem::builder("shop")
    ///     .threads(1)
    ///     .on_thread_start(move |it| drop(sender.send((it.kind, it.name.to_owned()))))
    ///     .build()?;
    /// let mut threads: Vec<_> = threads.iter().take(2).collect();
    /// threads.sort_by(|one, other| one.1.cmp(&other.1));
    /// assert!(matches!(threads[0].0, ThreadKind::Actors { number: 0, .. }));
    /// assert_eq!(threads[0].1, "shop-actors-0");
    /// assert_eq!(threads[1], (ThreadKind::Timer, "shop-scheduler".to_owned()));
    /// # drop(system);
    /// # Ok(()) }
    /// ```
    pub fn on_thread_start(
        mut self,
        hook: impl Fn(&ThreadStart<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_thread_start = OnThreadStart(Some(Arc::new(hook)));
        self
    }

    /// Starts the system: its scheduler's thread, and the threads for the actors.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting that is out of its range, or says which thread could not be
    /// started.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub fn build(mut self) -> Result<ActorSystem, BuildError> {
        self.check()?;
        let name = format!("{}-actors", self.name);
        let pool = Pool::start(&name, self.threads, &self.on_thread_start)
            .map_err(BuildError::Dispatcher)?;
        let dispatcher = Dispatcher::Pool(pool);
        if let Some(handle) = self.foreign.take() {
            return Ok(self.finish(dispatcher, handle, None));
        }
        let scheduler = self.scheduler_on(&dispatcher).build()?;
        let handle = scheduler.handle();
        Ok(self.finish(dispatcher, handle, Some(Box::new(move || scheduler.stop()))))
    }

    /// A system without threads, on a scheduler that the page turns: actors run in its calls. The
    /// number of threads and the time slice have no effect. As for
    /// [`on_scheduler`](Self::on_scheduler), the system does not stop that scheduler. Its
    /// `max_pending` refuses no turn of actors, only their timers.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting that is out of its range.
    #[cfg(any(test, all(target_family = "wasm", target_os = "unknown")))]
    pub fn build_turned(mut self, timers: &Handle) -> Result<ActorSystem, BuildError> {
        self.check()?;
        self.time_slice = None;
        let manual = Manual::turned_by(timers.clone());
        Ok(self.finish(Dispatcher::Manual(Arc::new(manual)), timers.clone(), None))
    }

    /// A system without threads, in virtual time.
    #[cfg_attr(not(feature = "test-kit"), allow(dead_code))]
    pub(crate) fn build_manual(mut self) -> Result<(ActorSystem, Arc<VirtualTime>), BuildError> {
        self.check()?;
        // A time slice limits real time, so each run would differ.
        self.time_slice = None;
        self.slow_receive = Duration::MAX;
        self.explain_late = None;
        let dispatcher = Dispatcher::Manual(Arc::new(Manual::new()));
        let time = Arc::new(self.scheduler_on(&dispatcher).build_virtual()?);
        let stopped = Arc::clone(&time);
        let stop: Box<StopScheduler> = Box::new(move || stopped.stop());
        let system = self.finish(dispatcher, time.handle(), Some(stop));
        Ok((system, time))
    }

    fn scheduler_on(&mut self, dispatcher: &Dispatcher) -> lars_scheduler::Builder {
        let set = std::mem::replace(&mut self.scheduler, Box::new(|scheduler| scheduler));
        let scheduler = LightArrayRevolverScheduler::builder()
            .thread_name(scheduler_name(&self.name))
            .shutdown_timeout(self.shutdown_timeout)
            .capture_spans(self.capture_spans)
            .executor(OnDispatcher(dispatcher.clone(), self.explain_late));
        let scheduler = set(match self.explain_late {
            Some(bound) => scheduler.explain_late(bound),
            None => scheduler,
        });
        let on_start = self.on_thread_start.clone();
        if on_start.0.is_none() {
            return scheduler;
        }
        scheduler.on_thread_start(move |thread| on_start.call(thread.kind.into(), thread.name))
    }

    fn check(&self) -> Result<(), BuildError> {
        if !is_name(&self.name) {
            return Err(BuildError::Name { given: self.name.clone(), rule: NAME_RULE });
        }
        if self.throughput == 0 || self.throughput > MAX_THROUGHPUT {
            return Err(BuildError::Throughput { given: self.throughput, max: MAX_THROUGHPUT });
        }
        if self.threads == 0 || self.threads > MAX_THREADS {
            return Err(BuildError::Threads { given: self.threads, max: MAX_THREADS });
        }
        Ok(())
    }

    fn finish(
        self,
        dispatcher: Dispatcher,
        timers: Handle,
        stop: Option<Box<StopScheduler>>,
    ) -> ActorSystem {
        let rules = Rules {
            throughput: self.throughput as u32,
            time_slice: self.time_slice,
            slow_receive: (self.slow_receive < Duration::MAX).then_some(self.slow_receive),
            capture_spans: self.capture_spans,
            on_thread_start: Mutex::new(self.on_thread_start),
            on_stop: self.on_stop,
        };
        let late = self.explain_late.map(|bound| LateMessages::new(bound, self.on_late));
        let incidents = Incidents::new(self.on_panic, self.on_slow, late);
        let registry =
            Registry::new(self.name, (timers, stop.is_none()), dispatcher, rules, incidents);
        if let Some(hook) = self.on_dead_letter {
            registry.dead_letters.subscribe(hook).forever();
        }
        ActorSystem::own(Arc::new(registry), stop, self.shutdown_timeout, self.close_policy)
    }
}

show!([] Builder, "Builder", |it|
    name: it.name, threads: it.threads, throughput: it.throughput, time_slice: it.time_slice,
    slow_receive: it.slow_receive, explain_late: it.explain_late,
    capture_spans: it.capture_spans,
    shutdown_timeout: it.shutdown_timeout,
    close_policy: it.close_policy
);

fn scheduler_name(system: &str) -> String {
    format!("{system}-scheduler")
}

fn default_threads() -> usize {
    num_cpus::get().min(MAX_THREADS)
}

/// Runs closures of the scheduler on the threads of the actors.
/// With how late something has to be, if what is late is explained.
struct OnDispatcher(Dispatcher, Option<Duration>);

impl Executor for OnDispatcher {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        if self.0.is_ending() {
            return Err(Rejected::new(task, "the actor system has been closed"));
        }
        let noted = self.1.map(|bound| (Whose::Closure(task.identity()), bound));
        self.0.schedule(Arc::new(Closure { task: Mutex::new(Some(task)), noted }) as Task);
        Ok(())
    }
}

struct Closure {
    task: Mutex<Option<Runnable>>,
    noted: Option<(Whose, Duration)>,
}

impl Activate for Closure {
    fn activate(self: Arc<Self>) -> bool {
        let _no_turn = NoTurn::enter(self.noted);
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.run();
        }
        false
    }
}

impl ActorSystem {
    /// A system with the default settings.
    ///
    /// # Errors
    ///
    /// As for [`Builder::build`].
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub fn new(name: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder(name).build()
    }

    /// A builder with the default settings. A system's name is subject to
    /// [the same rule](crate::System::spawn) as an actor's.
    ///
    /// The threads are named after the system. In one with the name `shop` they are:
    ///
    /// | thread | name |
    /// |---|---|
    /// | those that actors share | `shop-actors-0`, `shop-actors-1` and so on |
    /// | the timer thread of its scheduler | `shop-scheduler` |
    /// | that of the [pinned](crate::Props::pinned) actor `/orders` | `shop/orders-0` |
    /// | those that run what an executor rejected | `shop-scheduler-worker-0` and so on |
    pub fn builder(name: impl Into<String>) -> Builder {
        let defaults = Settings::default();
        Builder {
            name: name.into(),
            threads: default_threads(),
            throughput: defaults.throughput,
            time_slice: defaults.time_slice,
            slow_receive: defaults.slow_receive,
            explain_late: None,
            capture_spans: false,
            scheduler: Box::new(|scheduler| scheduler),
            foreign: None,
            shutdown_timeout: defaults.shutdown_timeout,
            close_policy: defaults.close_policy,
            on_dead_letter: None,
            on_panic: None,
            on_slow: None,
            on_late: None,
            on_thread_start: OnThreadStart::default(),
            on_stop: None,
        }
    }
}
