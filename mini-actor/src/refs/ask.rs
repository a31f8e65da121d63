//! Questions: a message with a way back, and a time limit for the answer.

use std::any::type_name;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lars_base::time::Instant;
use lars_scheduler::executor::TaskBody;
use lars_scheduler::extend::Systems;
use lars_scheduler::{Cancellable, PendingTask, Refusal, Task};

use crate::base::error::{AskError, Unsendable};
use crate::base::lineage::Ancestry;
use crate::base::oneshot::{NoValue, OneShot};
use crate::base::panics::guard;
use crate::cell::askers::{Waits, weak};
use crate::cell::dead_letters::Undelivered;
use crate::cell::home::Wait;
use crate::cell::registry::{Place, Registry};
use crate::cell::signal::Resident;
use crate::dispatcher::manual::LAST_TURNS;
use crate::dispatcher::marks::Inside;
use crate::dispatcher::worker::{about_to_block, polled_and_pending};
use crate::refs::address::{ActorRef, Recipient};
use crate::sync::plain::AtomicBool;
use crate::sync::{Arc, Mutex, Ordering, real_now};

/// What asker, answerer and timeout share.
struct Question<T> {
    shot: OneShot<T>,
    /// Set right after the question was made; taken by the first party that has no more use for it.
    timer: Mutex<Option<Cancellable>>,
    /// For a thread that waits: closing ends the timer before it ends the question. `None` is
    /// never, or in virtual time.
    deadline: Option<Instant>,
}

impl<T> Question<T> {
    fn cancel_timer(&self) {
        let timer = self.timer.lock().take();
        if let Some(timer) = timer {
            timer.cancel();
        }
    }

    fn end(&self, why: NoValue) {
        if self.shot.settle(Err(why)).is_ok() {
            self.cancel_timer();
        }
    }
}

impl<T: Send + 'static> Question<T> {
    /// Starts the timer that gives it up after `limit`.
    fn start_timer(
        self: &Arc<Self>,
        registry: &Registry,
        limit: Duration,
        place: Place,
    ) -> Result<(), Refusal> {
        // Held over the scheduling, so that a timer that fires at once finds itself here. Who
        // closes the system takes it too.
        let _waits_later = registry.timers.wait_later();
        let mut timer = self.timer.lock();
        let give_up = Task::new(GiveUp { question: Arc::clone(self) });
        *timer = Some(registry.arm(limit, give_up, place)?);
        Ok(())
    }
}

impl<T: Send> Waits for Question<T> {
    fn give_up(&self) {
        self.end(NoValue::Restarting);
    }

    fn close(&self) {
        self.end(NoValue::Closed);
    }
}

/// The timeout.
struct GiveUp<T: Send + 'static> {
    question: Arc<Question<T>>,
}

impl<T: Send + 'static> TaskBody for GiveUp<T> {
    fn run(self) {
        drop(self.question.shot.settle(Err(NoValue::TimedOut)));
        drop(self.question.timer.lock().take());
    }
}

/// Run, cancelled, or dropped by a system that is closed: only then is the question still open.
impl<T: Send + 'static> Drop for GiveUp<T> {
    fn drop(&mut self) {
        drop(self.question.shot.settle(Err(NoValue::Closed)));
    }
}

/// Whether this is the timeout of a question, which ends when this is dropped. Told by the type's
/// name without its parameters, since tasks have no other mark.
pub(crate) fn is_question(task: &PendingTask) -> bool {
    let open = |name: &'static str| name.split('<').next();
    open(task.identity().type_name()) == open(type_name::<GiveUp<()>>())
}

/// The way back to the asker: a part of the message of [`ActorRef::ask`]. Use it once, at any time,
/// from any thread. Dropping it tells the asker that there is no answer.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::{AskError, Reply};
/// use std::time::Duration;
///
/// let kit = TestKit::new("test")?;
/// let clerk = kit.probe::<Reply<u32>>("clerk");
/// let ask = || clerk.actor().ask(|reply| reply, Duration::from_secs(5));
///
/// let answer = ask();
/// let reply = clerk.expect_message();
/// assert!(reply.is_wanted());
/// reply.send(7);
/// assert_eq!(answer.wait()?, 7);
///
/// let answer = ask();
/// drop(clerk.expect_message());
/// assert_eq!(answer.wait(), Err(AskError::NoAnswer));
///
/// drop(ask()); // the question is withdrawn
/// let reply = clerk.expect_message();
/// assert!(!reply.is_wanted());
/// reply.send(8);
/// assert_eq!(kit.dead_letters().len(), 1);
/// # Ok(()) }
/// ```
#[must_use = "dropping a reply tells the asker that there is no answer"]
pub struct Reply<T: Send + 'static> {
    question: Option<Arc<Question<T>>>,
    registry: Arc<Registry>,
    asked: Arc<Ancestry>,
}

impl<T: Send + 'static> Reply<T> {
    /// Answers. If the timeout has passed, or the asker no longer waits, the answer becomes a dead
    /// letter.
    pub fn send(mut self, answer: T) {
        let Some(question) = self.question.take() else {
            return;
        };
        match question.shot.settle(Ok(answer)) {
            Ok(()) => question.cancel_timer(),
            Err(Ok(answer)) => {
                self.registry.dead_letters.bury::<T>(&*self.asked, Undelivered::Late, answer);
            }
            Err(Err(_)) => {}
        }
    }

    /// Whether the asker still waits. If not, the answer need not be computed.
    pub fn is_wanted(&self) -> bool {
        self.question.as_ref().is_some_and(|question| question.shot.is_open())
    }
}

impl<T: Send + 'static> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(question) = self.question.take()
            && question.shot.settle(Err(NoValue::Dropped)).is_ok()
        {
            question.cancel_timer();
        }
    }
}

show!([T: Send + 'static] Reply<T>, "Reply", |it| asked: it.asked);

/// The answer to a question. Made by [`ActorRef::ask`].
///
/// A future for any executor, which must not be polled again after it was ready; a thread can also
/// [`wait`](Self::wait) for it. Dropping it withdraws the question: an answer is then a dead
/// letter.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::{AskError, Reply};
/// use std::time::Duration;
///
/// let kit = TestKit::new("test")?;
/// let clerk = kit.probe::<Reply<u32>>("clerk");
/// let limit = Duration::from_secs(5);
///
/// let answer = clerk.actor().ask(|reply| reply, limit);
/// clerk.expect_message().send(7);
/// assert_eq!(answer.wait()?, 7); // or `.await`
///
/// let answer = clerk.actor().ask(|reply| reply, limit);
/// kit.advance(limit);
/// assert_eq!(answer.wait(), Err(AskError::Timeout(limit)));
/// # Ok(()) }
/// ```
#[must_use = "the answer comes to whoever waits for it"]
pub struct Ask<T: Send + 'static> {
    state: Result<Arc<Question<T>>, AskError>,
    registry: Arc<Registry>,
    to: Arc<dyn Resident>,
    limit: Duration,
    /// Its number among the open questions of a system that keeps these.
    open: Option<u64>,
    /// An actor waits for the answer, or has waited.
    by_actor: AtomicBool,
}

impl<M: Send + 'static> ActorRef<M> {
    /// Asks the actor: sends the message that `make` makes with a [`Reply`] in it, and returns the
    /// answer to come, within `timeout`.
    ///
    /// The timeout costs one scheduled timer, which the answer cancels. It is never early.
    ///
    /// If the mailbox is full and its policy is [`Overflow::Block`](crate::Overflow::Block), this
    /// call waits for room, like [`tell`](Self::tell); the returned future does not. The wait
    /// counts against `timeout`. Async code must not block its thread, so it asks actors whose
    /// mailboxes have another policy.
    ///
    /// # Errors
    ///
    /// The result is an [`AskError`] if the actor could not be asked, did not answer in time, or
    /// dropped the question.
    ///
    /// # Panics
    ///
    /// If `make` does.
    ///
    /// # Examples
    ///
    /// ```
    /// use mini_actor::{Actor, ActorSystem, Context, Reply};
    /// use std::time::Duration;
    ///
    /// struct Squares;
    /// struct Square(u64, Reply<u64>);
    ///
    /// impl Actor for Squares {
    ///     type Message = Square;
    ///     fn receive(&mut self, Square(number, reply): Square, _: &mut Context<Self>) {
    ///         reply.send(number * number);
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let system = ActorSystem::new("demo")?;
    /// let squares = system.spawn("squares", || Squares)?;
    /// let answer = squares.ask(|reply| Square(12, reply), Duration::from_secs(5));
    /// assert_eq!(answer.wait()?, 144); // or `.await`
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn ask<T: Send + 'static>(
        &self,
        make: impl FnOnce(Reply<T>) -> M,
        timeout: Duration,
    ) -> Ask<T> {
        let to = Arc::clone(self.cell()) as Arc<dyn Resident>;
        let send = |reply, wait| self.cell().send(make(reply), wait);
        Ask::begin(to, &self.cell().registry, timeout, send)
    }
}

impl<P> Recipient<P> {
    /// Asks like [`ActorRef::ask`]: `make` makes what the recipient takes, with a [`Reply`] in it.
    ///
    /// # Errors
    ///
    /// The result is an [`AskError`], as for [`ActorRef::ask`].
    ///
    /// # Panics
    ///
    /// If `make` does, or the mapping of the recipient.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::test_kit::TestKit;
    /// use mini_actor::{Recipient, Reply};
    /// use std::time::Duration;
    ///
    /// enum Request {
    ///     Price(&'static str, Reply<u32>),
    /// }
    ///
    /// let kit = TestKit::new("test")?;
    /// let shop = kit.probe::<Request>("shop");
    /// /// All that a customer knows of it.
    /// type Prices = Recipient<(&'static str, Reply<u32>)>;
    /// let prices: Prices = shop.actor().map(|(article, reply)| Request::Price(article, reply));
    ///
    /// let price = prices.ask(|reply| ("tea", reply), Duration::from_secs(1));
    /// let Request::Price("tea", reply) = shop.expect_message() else { panic!("it was tea") };
    /// reply.send(3);
    /// assert_eq!(price.wait()?, 3);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn ask<T: Send + 'static>(
        &self,
        make: impl FnOnce(Reply<T>) -> P,
        timeout: Duration,
    ) -> Ask<T> {
        let (to, registry) = (Arc::clone(self.target.home()), self.target.registry());
        Ask::begin(to, registry, timeout, |reply, wait| self.target.accept(make(reply), wait))
    }
}

impl<T: Send + 'static> Ask<T> {
    /// Asks `to`: `send` sends the question with this reply in it, or gives it back.
    #[track_caller]
    pub(super) fn begin<P>(
        to: Arc<dyn Resident>,
        registry: &Arc<Registry>,
        limit: Duration,
        send: impl FnOnce(Reply<T>, Wait) -> Result<(), (Unsendable, P)>,
    ) -> Self {
        // While nobody knows of the question, and before its time begins.
        registry.timers.wait_for_share();
        let asked = Arc::clone(to.lineage().own());
        let is_real = registry.dispatcher.as_manual().is_none();
        let deadline = is_real.then(|| real_now().checked_add(limit)).flatten();
        let question =
            Arc::new(Question { shot: OneShot::new(), timer: Mutex::new(None), deadline });
        let open = match &registry.questions {
            None => Ok(None),
            Some(questions) => questions.enter(weak(&question)).map(Some),
        };
        // Before the message is made. If that panics, this is dropped, and takes back what was
        // entered.
        let ask = Self {
            state: Ok(Arc::clone(&question)),
            open: open.unwrap_or(None),
            registry: Arc::clone(registry),
            to,
            limit,
            by_actor: AtomicBool::new(false),
        };
        if open.is_err() {
            return ask.failed(AskError::Closed);
        }
        match question.start_timer(registry, limit, Location::caller()) {
            Ok(()) => {}
            Err(Refusal::Stopped) => return ask.failed(AskError::Closed),
            Err(refusal) => return ask.failed(AskError::NoTimer(refusal)),
        }
        let reply = Reply {
            question: Some(Arc::clone(&question)),
            registry: Arc::clone(registry),
            asked: Arc::clone(&asked),
        };
        let Err((reason, message)) = send(reply, Wait::Until(deadline)) else {
            return ask;
        };
        // Its reply settles the question and cancels the timer, if the message has still got it.
        guard("the destructor of a question", || drop(message));
        question.cancel_timer();
        ask.failed(match reason {
            Unsendable::Stopped => AskError::Stopped(asked.to_path()),
            Unsendable::Full if deadline.is_some_and(|deadline| real_now() >= deadline) => {
                AskError::Timeout(limit)
            }
            Unsendable::Full => AskError::Full(asked.to_path()),
        })
    }

    /// The actor was not asked.
    fn failed(mut self, why: AskError) -> Self {
        self.state = Err(why);
        self
    }

    /// Blocks until the answer comes or the timeout has passed, even while the system is being
    /// closed.
    ///
    /// Actors should avoid it: it occupies a thread of the system, and if all threads wait, no
    /// actor answers. [`Context::pipe_to_self`](crate::Context::pipe_to_self) does not wait.
    ///
    /// In virtual time it runs everything that can run now, and does not move time. If there is no
    /// answer then, the question stays open, so that a test can move time and wait again.
    ///
    /// # Errors
    ///
    /// Same as [`ActorRef::ask`]; [`AskError::Restarting`] if an actor waits; in virtual time also
    /// [`AskError::WouldBlock`]; and [`AskError::NoAnswer`] once the answer has been returned.
    pub fn wait(&self) -> Result<T, AskError> {
        let question = self.state.as_ref().map_err(Clone::clone)?;
        if let Some(manual) = self.registry.dispatcher.as_manual() {
            if !self.registry.is_inside() {
                manual.run(LAST_TURNS);
            }
            let result = question.shot.try_take();
            return self.answer(result.ok_or(AskError::WouldBlock)?);
        }
        about_to_block();
        self.waits_here(question);
        // The timer of a system that is being closed does not run any more.
        let result = question.shot.wait(question.deadline);
        self.answer(result.unwrap_or(Err(NoValue::TimedOut)))
    }

    fn answer(&self, result: Result<T, NoValue>) -> Result<T, AskError> {
        result.map_err(|why| match why {
            NoValue::TimedOut => AskError::Timeout(self.limit),
            NoValue::Dropped => AskError::NoAnswer,
            NoValue::Closed => AskError::Closed,
            NoValue::Restarting => AskError::Restarting(self.to.lineage().to_path()),
        })
    }

    /// If the calling thread runs an actor, that actor waits. The wait ends if the actor that it
    /// asked is restarting and waits for its children.
    fn waits_here(&self, question: &Arc<Question<T>>) {
        // Relaxed, here and below: only the owner of this question sets and reads it.
        if Inside::any_actor()
            && !self.by_actor.swap(true, Ordering::Relaxed)
            && !self.to.askers().enter(weak(question))
        {
            question.give_up();
        }
    }
}

impl<T: Send + 'static> Future for Ask<T> {
    type Output = Result<T, AskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let question = match &self.state {
            Ok(question) => question,
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        let polled = question.shot.poll(context).map(|result| self.answer(result));
        if polled.is_pending() {
            polled_and_pending();
            self.waits_here(question);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Ask<T> {
    fn drop(&mut self) {
        if let (Some(questions), Some(number)) = (&self.registry.questions, self.open) {
            questions.leave(number);
        }
        if let Ok(question) = &self.state {
            // Relaxed: see `waits_here`.
            if self.by_actor.load(Ordering::Relaxed) {
                self.to.askers().leave(&weak(question));
            }
            let unseen = question.shot.abandon();
            question.cancel_timer();
            if let Some(answer) = unseen {
                self.registry.dead_letters.bury::<T>(self.to.lineage(), Undelivered::Late, answer);
            }
        }
    }
}

show!([T: Send + 'static] Ask<T>, "Ask", |it| asked: it.to.lineage(), limit: it.limit);
