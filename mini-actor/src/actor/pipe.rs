//! Futures whose results become messages. The threads of the system poll them, so any future that
//! needs no runtime around it will do. A future that needs one is spawned on that runtime, and its
//! join handle is piped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::time::Duration;

use crate::actor::context::{Actor, Context};
use crate::base::late::Whose;
use crate::base::panics::guard;
use crate::cell::home::Cell;
use crate::dispatcher::Dispatcher;
use crate::dispatcher::task::{Activate, Task};
use crate::dispatcher::worker::NoTurn;
use crate::mailbox::asides::{Told, told_here};
use crate::sync::{Arc, AtomicU8, Mutex, Ordering};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Neither scheduled nor polled.
const WAITING: u8 = 0;
const SCHEDULED: u8 = 1;
const POLLED: u8 = 2;
/// Woken while it is polled.
const AGAIN: u8 = 3;

/// Where a piped future is: one of the constants above.
///
/// Each step reads and writes, also where nothing changes. So whoever wakes the future comes in
/// this order before the beginning of a poll, which then sees what he did; or after it, and then
/// there is another one.
struct State(AtomicU8);

impl State {
    /// Of a future that is about to be scheduled.
    fn new() -> Self {
        Self(AtomicU8::new(SCHEDULED))
    }

    /// Somebody wakes it. Returns whether he has to schedule it.
    fn wake(&self) -> bool {
        let woken = |state| match state {
            WAITING => Some(SCHEDULED),
            POLLED => Some(AGAIN),
            state => Some(state),
        };
        // Release: the next poll comes after what the waker did. Acquire: who schedules it comes
        // after the last poll.
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, woken) == Ok(WAITING)
    }

    /// A poll begins.
    fn begin(&self) {
        // Acquire: what was done before it was woken is seen. Release: whoever wakes it from here
        // on comes after the last poll.
        self.0.swap(POLLED, Ordering::AcqRel);
    }

    /// The poll has ended, and the future has not. Returns whether it was woken meanwhile.
    fn end(&self) -> bool {
        // Release: whoever schedules it comes after this poll. Acquire: as in `begin`.
        let waits = self.0.compare_exchange(POLLED, WAITING, Ordering::AcqRel, Ordering::Acquire);
        waits.is_err()
    }

    /// It was woken while it was polled, and is scheduled again.
    fn again(&self) {
        // As in `begin`: this may come after a waker who found it woken already.
        self.0.swap(SCHEDULED, Ordering::AcqRel);
    }
}

struct Pipe {
    state: State,
    /// Gone when it has ended. Locked by the one activation, and by a waker that ends it.
    work: Mutex<Option<Work>>,
    dispatcher: Dispatcher,
    /// The span in which it was piped, if the system captures spans.
    span: Option<Told>,
    /// Whose it is, and how late something has to be, if what is late is explained.
    noted: Option<(Whose, Duration)>,
}

impl Wake for Pipe {
    fn wake(self: Arc<Self>) {
        if self.state.wake() {
            if self.dispatcher.is_ending() {
                // Nobody would poll it.
                self.let_go();
            } else {
                self.dispatcher.clone().schedule(self as Task);
            }
        }
    }
}

impl Pipe {
    /// Drops the future, if it is still there. Its destructor is foreign code.
    fn let_go(&self) {
        let work = self.work.lock().take();
        guard("the destructor of a piped future", || drop(work));
    }
}

/// Counts a future as piped to this actor until it has ended and its message has been sent.
struct Open<M: Send + 'static>(Arc<Cell<M>>);

impl<M: Send + 'static> Open<M> {
    fn new(to: Arc<Cell<M>>) -> Self {
        // Relaxed: the actor itself does so, and is seen to be at work.
        to.extras.make().pipes.fetch_add(1, Ordering::Relaxed);
        Self(to)
    }
}

impl<M: Send + 'static> Drop for Open<M> {
    fn drop(&mut self) {
        // Release: whoever sees that it has ended sees the message.
        self.0.extras.make().pipes.fetch_sub(1, Ordering::Release);
    }
}

/// A future that is never woken again is dropped with the last reference: by a worker, a waker, or
/// the system.
impl Drop for Pipe {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Activate for Pipe {
    fn activate(self: Arc<Self>) -> bool {
        let _no_turn = NoTurn::enter(self.noted);
        self.state.begin();
        let waker = Waker::from(Arc::clone(&self));
        let mut work = self.work.lock();
        if let Some(future) = &mut *work {
            let mut context = TaskContext::from_waker(&waker);
            let mut poll = || future.as_mut().poll(&mut context);
            let poll = || match &self.span {
                None => poll(),
                Some(span) => span.run(poll),
            };
            match guard("a piped future", poll) {
                Some(Poll::Pending) => {
                    drop(work);
                    if !self.state.end() {
                        return false;
                    }
                    if self.dispatcher.is_ending() {
                        // A future that always wakes itself would keep the thread from ending. The
                        // state stays at "woken", so that no waker schedules it.
                        self.let_go();
                        return false;
                    }
                    self.state.again();
                    return true;
                }
                Some(Poll::Ready(())) | None => {}
            }
        }
        drop(work);
        self.let_go();
        false
    }
}

impl<A: Actor> Context<A> {
    /// Runs `future` beside this actor, and sends the actor the message that `map` makes of its
    /// result. Meanwhile the actor goes on receiving.
    ///
    /// The threads of the system poll the future. One that needs the context of a runtime (tokio's
    /// sockets and timers) is spawned there, and its join handle is piped. If the actor has
    /// stopped, the message is a dead letter. If the future or `map` panics, that is logged, and no
    /// message is sent. If the actor is restarted meanwhile, the result reaches the new
    /// incarnation. Put [`incarnation`](Self::incarnation) into it to recognize that, as below.
    ///
    /// # Examples
    ///
    /// ```
    /// # use mini_actor::{Actor, Context};
    /// # struct Fetcher;
    /// # enum Event { Fetch, Fetched(u64, String) }
    /// # async fn fetch() -> String { "page".to_owned() }
    /// # impl Actor for Fetcher {
    /// #     type Message = Event;
    /// fn receive(&mut self, event: Event, ctx: &mut Context<Self>) {
    ///     match event {
    ///         Event::Fetch => {
    ///             let by = ctx.incarnation();
    ///             ctx.pipe_to_self(fetch(), move |page| Event::Fetched(by, page));
    ///         }
    ///         // An actor that was restarted meanwhile knows nothing of the question.
    ///         Event::Fetched(by, page) if by == ctx.incarnation() => println!("{page}"),
    ///         Event::Fetched(..) => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn pipe_to_self<T>(
        &mut self,
        future: impl Future<Output = T> + Send + 'static,
        map: impl FnOnce(T) -> A::Message + Send + 'static,
    ) {
        let cell = Arc::clone(self.myself().cell());
        let dispatcher = cell.registry.dispatcher.clone();
        let span = cell.mailbox.has_spans().then(told_here).flatten();
        let late = cell.registry.incidents.late();
        let noted = late.map(|late| (Whose::Piped(cell.id), late.bound()));
        let open = Open::new(Arc::clone(&cell));
        let work = async move {
            // Moved in whole, so that it also ends with a future that is dropped.
            let open = open;
            let message = map(future.await);
            open.0.deliver(message);
        };
        let pipe = Arc::new(Pipe {
            state: State::new(),
            work: Mutex::new(Some(Box::pin(work))),
            dispatcher: dispatcher.clone(),
            span,
            noted,
        });
        dispatcher.schedule(pipe as Task);
    }
}

#[cfg(all(test, lars_loom))]
mod models {
    use super::*;
    use crate::sync::AtomicU64;

    /// Polls until nobody has woken it meanwhile. Returns what it saw last.
    fn poll(state: &State, done: &AtomicU64) -> u64 {
        loop {
            state.begin();
            let seen = done.load(Ordering::Relaxed);
            if !state.end() {
                return seen;
            }
            state.again();
        }
    }

    /// Of a future that is scheduled, and of one that waits.
    #[test]
    fn a_poll_after_the_last_wake_sees_what_was_done_before_it() {
        for waits in [false, true] {
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound.get_or_insert(2);
            builder.check(move || {
                let shared = Arc::new((State::new(), AtomicU64::new(0)));
                if waits {
                    assert_eq!(poll(&shared.0, &shared.1), 0);
                }
                let waking = [1, 2].map(|bit| {
                    let shared = Arc::clone(&shared);
                    loom::thread::spawn(move || {
                        shared.1.fetch_add(bit, Ordering::Relaxed);
                        shared.0.wake()
                    })
                });
                let mut seen = if waits { 0 } else { poll(&shared.0, &shared.1) };
                for thread in waking {
                    if thread.join().unwrap() {
                        seen = poll(&shared.0, &shared.1);
                    }
                }
                assert_eq!(seen, 3, "a wake was lost");
            });
        }
    }
}
