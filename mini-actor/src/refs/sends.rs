//! Scheduled message sends.

use std::ops::ControlFlow;
use std::panic::Location;
use std::time::Duration;

use lars_base::rate::Rate;
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;
use lars_scheduler::executor::{Due, TaskBody};
use lars_scheduler::extend::Systems;
use lars_scheduler::{
    Cancellable, Handle, MissedTickBehavior, Periodic, Repeat, ScheduleError, Task,
};

use crate::cell::home::{Cell, LARGE};
use crate::cell::registry::Place;
use crate::mailbox::block::Parcel;
use crate::refs::address::ActorRef;
use crate::sync::Arc;

/// Schedules messages to actors. Cheap to clone, `Send` and `Sync`.
///
/// A due message goes from the timer thread straight into the mailbox, without a detour through a
/// pool. A scheduled message does not keep its actor alive. If the actor has stopped when the
/// message is due, or its mailbox is full and its policy is to fail or to block, the message
/// becomes a dead letter; a periodic send to an actor that has stopped ends by itself. Periodic
/// sends do not wait until the actor has received the one before; those of
/// [`Context::timers`](crate::Context::timers) do.
///
/// Delays, lateness, order, cancelling and errors are those of [`lars_scheduler::Handle`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use std::time::Duration;
///
/// let kit = TestKit::new("test")?;
/// let probe = kit.probe::<&'static str>("probe");
/// let (scheduler, second) = (kit.scheduler(), Duration::from_secs(1));
/// let _ = scheduler.schedule_once(second, probe.actor(), "once")?;
/// let ticks = scheduler.schedule_at_fixed_rate(2 * second, second, probe.actor(), "tick")?;
/// assert_eq!(probe.expect_message_within(second), "once");
/// for _ in 0..3 {
///     assert_eq!(probe.expect_message_within(second), "tick");
/// }
/// assert_eq!(kit.elapsed(), 4 * second);
/// assert!(ticks.cancel());
/// probe.expect_no_message_for(60 * second);
///
/// let never = scheduler.schedule_with_fixed_delay(second, Duration::ZERO, probe.actor(), "never");
/// assert!(never.is_err());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Scheduler {
    timers: Handle,
    missed: MissedTickBehavior,
}

/// A send, as it lies in a timer: with a message of up to two words it needs no allocation.
///
/// It refers to the actor's home, whose mailbox outlives the actor, so an actor can stop and be
/// dropped while messages to it are scheduled.
struct Delivery<M> {
    to: Arc<Cell<M>>,
    message: M,
}

impl<M: Send + 'static> TaskBody for Delivery<M> {
    /// The messages of a burst share the cost of getting into a mailbox, and of waking its actor.
    const TOGETHER: bool = true;

    fn run(self) {
        self.to.deliver(self.message);
    }

    fn run_due(due: &mut Due<'_, Self>) {
        while let Some(Self { to, message }) = due.next() {
            let more = due.peek().take_while(|next| Arc::ptr_eq(&next.to, &to)).count();
            if more == 0 {
                to.deliver(message);
                continue;
            }
            // None of their references is the last: this one is held.
            let others = due.by_ref().take(more).map(|next| next.message);
            to.deliver_all(1 + more, std::iter::once(message).chain(others));
        }
    }
}

/// The send of a large message, which is not passed from frame to frame on the timer thread.
struct LargeDelivery<M> {
    to: Arc<Cell<M>>,
    message: Box<M>,
}

impl<M: Send + 'static> TaskBody for LargeDelivery<M> {
    fn run(self) {
        self.to.deliver_boxed(self.message);
    }
}

/// The send of a message that was promised by then, where it is explained what is late. It is
/// allocated with its task.
struct TimedDelivery<M, P> {
    to: Arc<Cell<M>>,
    message: P,
    promised: Instant,
}

impl<M: Send + 'static, P: Parcel<M> + Send + 'static> TaskBody for TimedDelivery<M, P> {
    fn run(self) {
        self.to.deliver_timed(self.message, self.promised);
    }
}

#[derive(Clone, Copy)]
enum When {
    In(Duration),
    At(Instant),
}

impl Scheduler {
    pub(crate) fn new(timers: Handle) -> Self {
        Self { timers, missed: MissedTickBehavior::Burst }
    }

    /// The same scheduler, for periodic sends at a fixed rate that do this about those that were
    /// missed.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::MissedTickBehavior;
    /// use mini_actor::test_kit::TestKit;
    /// use std::time::Duration;
    ///
    /// let kit = TestKit::new("test")?;
    /// let probe = kit.probe::<&'static str>("probe");
    /// let second = Duration::from_secs(1);
    /// let skipping = kit.scheduler().missed_ticks(MissedTickBehavior::Skip);
    /// let _ = skipping.schedule_at_fixed_rate(second, second, probe.actor(), "tick")?;
    /// assert_eq!(probe.expect_message_within(second), "tick");
    /// # Ok(()) }
    /// ```
    pub fn missed_ticks(&self, missed: MissedTickBehavior) -> Self {
        Self { timers: self.timers.clone(), missed }
    }

    /// Sends `message` to the actor once, `delay` from now.
    ///
    /// If the system is closed before that, the message is sent then, unless the system's
    /// [`close_policy`](crate::Builder::close_policy) says otherwise. (For an actor's own timeouts
    /// and ticks use [`Context::timers`](crate::Context::timers): those are never sent before their
    /// time.)
    ///
    /// # Errors
    ///
    /// A [`ScheduleError`] gives the message back if the system has been closed, and, as for
    /// [`Handle::schedule_once`], if the scheduler is full or overloaded.
    ///
    /// # Examples
    ///
    /// ```
    /// # use mini_actor::{Actor, ActorSystem, Context};
    /// # struct Printer(std::sync::mpsc::Sender<&'static str>);
    /// # impl Actor for Printer {
    /// #     type Message = &'static str;
    /// #     fn receive(&mut self, message: &'static str, _: &mut Context<Self>) {
    /// #         self.0.send(message).unwrap();
    /// #     }
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # let (sender, receiver) = std::sync::mpsc::channel();
    /// let system = ActorSystem::new("demo")?;
    /// let printer = system.spawn("printer", || Printer(sender))?;
    /// let reminder =
    ///     system.scheduler().schedule_once(Duration::from_secs(3600), &printer, "an hour later")?;
    /// system.scheduler().schedule_once(Duration::from_millis(1), &printer, "soon")?;
    /// assert_eq!(receiver.recv()?, "soon");
    /// assert!(reminder.cancel());
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn schedule_once<M: Send + 'static>(
        &self,
        delay: Duration,
        to: &ActorRef<M>,
        message: M,
    ) -> Result<Cancellable, ScheduleError<M>> {
        self.send_at(When::In(delay), to, message)
    }

    /// Sends `message` to the actor once, at `deadline`, or at once if that has passed.
    ///
    /// Otherwise like [`schedule_once`](Self::schedule_once). [`Handle::now`] is the scheduler's
    /// time, in virtual time as well.
    ///
    /// # Errors
    ///
    /// Same as [`schedule_once`](Self::schedule_once).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::test_kit::TestKit;
    /// use std::time::Duration;
    ///
    /// let kit = TestKit::new("test")?;
    /// let probe = kit.probe::<&'static str>("probe");
    /// let end = kit.scheduler().timers().now() + Duration::from_secs(30);
    /// kit.advance(Duration::from_secs(10)); // which the sender need not know of
    /// let _ = kit.scheduler().schedule_at(end, probe.actor(), "time is up")?;
    /// assert_eq!(probe.expect_message_within(Duration::from_secs(20)), "time is up");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn schedule_at<M: Send + 'static>(
        &self,
        deadline: Instant,
        to: &ActorRef<M>,
        message: M,
    ) -> Result<Cancellable, ScheduleError<M>> {
        self.send_at(When::At(deadline), to, message)
    }

    #[track_caller]
    fn send_at<M: Send + 'static>(
        &self,
        when: When,
        to: &ActorRef<M>,
        message: M,
    ) -> Result<Cancellable, ScheduleError<M>> {
        // A function for each case, so that a large message is in one frame only.
        let send = if size_of::<M>() > LARGE { Self::send_large } else { Self::send_small };
        send(self, (when, Location::caller()), Arc::clone(to.cell()), message)
    }

    fn send_small<M: Send + 'static>(
        &self,
        when: (When, Place),
        to: Arc<Cell<M>>,
        message: M,
    ) -> Result<Cancellable, ScheduleError<M>> {
        if let Some((at, promised)) = self.promise(when.0, &to) {
            let delivery = TimedDelivery { to, message, promised };
            let sent = self.schedule((When::At(at), when.1), delivery);
            return sent.map_err(|refused| refused.map(|task| task.into_body().message));
        }
        let sent = self.schedule(when, Delivery { to, message });
        sent.map_err(|refused| refused.map(|task| task.into_body().message))
    }

    fn send_large<M: Send + 'static>(
        &self,
        when: (When, Place),
        to: Arc<Cell<M>>,
        message: M,
    ) -> Result<Cancellable, ScheduleError<M>> {
        let message = Box::new(message);
        if let Some((at, promised)) = self.promise(when.0, &to) {
            let delivery = TimedDelivery { to, message, promised };
            let sent = self.schedule((When::At(at), when.1), delivery);
            return sent.map_err(|refused| refused.map(|task| *task.into_body().message));
        }
        let sent = self.schedule(when, LargeDelivery { to, message });
        sent.map_err(|refused| refused.map(|task| *task.into_body().message))
    }

    /// The deadline of a message, and by when it is promised, if it is explained what is late.
    fn promise<M>(&self, when: When, to: &Cell<M>) -> Option<(Instant, Instant)> {
        to.registry.incidents.late()?;
        let deadline = match when {
            When::In(delay) => self.timers.now().checked_add(delay)?,
            When::At(deadline) => deadline,
        };
        Some((deadline, self.timers.promised(deadline)?))
    }

    fn schedule<B: TaskBody>(
        &self,
        (when, place): (When, Place),
        body: B,
    ) -> Result<Cancellable, ScheduleError<Task<B>>> {
        let task = Task::new(body).inline().run_on_close().placed_at(place);
        match when {
            When::In(delay) => self.timers.schedule_once(delay, task),
            When::At(deadline) => self.timers.schedule_at(deadline, task),
        }
    }

    /// Sends a clone of `message` after `initial`, and then again and again, each time `delay`
    /// after the send before.
    ///
    /// # Errors
    ///
    /// As for [`schedule_once`](Self::schedule_once); also if `delay` is zero.
    #[track_caller]
    pub fn schedule_with_fixed_delay<M: Clone + Send + 'static>(
        &self,
        initial: Duration,
        delay: Duration,
        to: &ActorRef<M>,
        message: M,
    ) -> Result<Cancellable, ScheduleError<M>> {
        if let Some((first, _)) = self.promise(When::In(initial), to.cell())
            && !delay.is_zero()
        {
            let after = move |_, now| WhenDue::after(now, delay);
            let send = repeated_timed(self.timers.clone(), to, message.clone(), (first, after));
            let sent = self.timers.schedule_repeating(first, Periodic::new(send).inline());
            return sent.map_err(|refused| refused.map(|_| message));
        }
        let send = Periodic::new(repeated(to, message.clone())).inline();
        self.timers
            .schedule_with_fixed_delay(initial, delay, send)
            .map_err(|refused| refused.map(|_| message))
    }

    /// Sends a clone of `message` after `initial`, and then every `interval`, without drift. Sends
    /// that were missed because the machine stood still are all made up for, unless
    /// [`missed_ticks`](Self::missed_ticks) says otherwise.
    ///
    /// # Errors
    ///
    /// As for [`schedule_once`](Self::schedule_once); also if `interval` is zero.
    #[track_caller]
    pub fn schedule_at_fixed_rate<M: Clone + Send + 'static>(
        &self,
        initial: Duration,
        interval: Duration,
        to: &ActorRef<M>,
        message: M,
    ) -> Result<Cancellable, ScheduleError<M>> {
        if let Some((first, _)) = self.promise(When::In(initial), to.cell())
            && !interval.is_zero()
        {
            let rate = Rate::new(interval, self.missed);
            let after = move |due: WhenDue, now| due.count_on(now, |passed| rate.next(passed));
            let send = repeated_timed(self.timers.clone(), to, message.clone(), (first, after));
            let sent = self.timers.schedule_repeating(first, Periodic::new(send).inline());
            return sent.map_err(|refused| refused.map(|_| message));
        }
        let send = Periodic::new(repeated(to, message.clone())).inline().missed_ticks(self.missed);
        self.timers
            .schedule_at_fixed_rate(initial, interval, send)
            .map_err(|refused| refused.map(|_| message))
    }

    /// The scheduler itself, for closures. They run on the system's threads unless they say
    /// otherwise. When the system is closed before their time, only those marked with
    /// [`run_on_close`](lars_scheduler::Task::run_on_close) run.
    pub fn timers(&self) -> &Handle {
        &self.timers
    }
}

/// Sends a clone at each call, until the actor has stopped.
fn repeated<M: Clone + Send + 'static>(
    to: &ActorRef<M>,
    message: M,
) -> impl FnMut() -> ControlFlow<()> + Send + 'static {
    let to = Arc::clone(to.cell());
    let message = Box::new(message);
    // A function for each case, so that a large message is in one frame only.
    let send = if size_of::<M>() > LARGE { send_large_clone } else { send_clone };
    move || {
        // Asked first, so that a series ends without a dead letter where it can.
        if !to.mailbox.is_closed() && send(&to, &message) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

/// Like [`repeated`], for a series of which it is explained what is late: it counts itself when the
/// next send is due.
fn repeated_timed<M: Clone + Send + 'static>(
    timers: Handle,
    to: &ActorRef<M>,
    message: M,
    (first, next): (Instant, impl Fn(WhenDue, Instant) -> WhenDue + Send + 'static),
) -> impl FnMut() -> Repeat + Send + 'static {
    let (to, message) = (Arc::clone(to.cell()), Box::new(message));
    // A function for each case, so that a large message is in one frame only.
    let send = if size_of::<M>() > LARGE { send_large_timed_clone } else { send_timed_clone };
    let mut due = WhenDue::At(first);
    move || {
        let promised = due.instant().and_then(|due| timers.promised(due));
        // (A series that is closed runs no more.)
        let promised = promised.unwrap_or_else(|| timers.now());
        if to.mailbox.is_closed() || !send(&to, &message, promised) {
            return Repeat::Stop;
        }
        due = next(due, timers.now());
        due.into()
    }
}

fn send_timed_clone<M: Clone + Send + 'static>(
    to: &Arc<Cell<M>>,
    message: &M,
    promised: Instant,
) -> bool {
    to.deliver_timed(message.clone(), promised)
}

fn send_large_timed_clone<M: Clone + Send + 'static>(
    to: &Arc<Cell<M>>,
    message: &M,
    promised: Instant,
) -> bool {
    to.deliver_timed(Box::new(message.clone()), promised)
}

fn send_clone<M: Clone + Send + 'static>(to: &Arc<Cell<M>>, message: &M) -> bool {
    to.deliver(message.clone())
}

fn send_large_clone<M: Clone + Send + 'static>(to: &Arc<Cell<M>>, message: &M) -> bool {
    to.deliver_boxed(Box::new(message.clone()))
}
