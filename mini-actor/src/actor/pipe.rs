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
use crate::sync::plain::AtomicU8;
use crate::sync::{Arc, Mutex, Ordering};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Neither scheduled nor polled.
const WAITING: u8 = 0;
const SCHEDULED: u8 = 1;
const POLLED: u8 = 2;
/// Woken while it is polled.
const AGAIN: u8 = 3;

struct Pipe {
    state: AtomicU8,
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
        // AcqRel: the next poll comes after what the waker did, and after the last poll.
        let before =
            self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| match state {
                WAITING => Some(SCHEDULED),
                POLLED => Some(AGAIN),
                _ => None,
            });
        if before == Ok(WAITING) {
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
        // Release, here and below: a thread that wakes it from here on comes after the last poll.
        self.state.store(POLLED, Ordering::Release);
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
                    let woken = self
                        .state
                        .compare_exchange(POLLED, WAITING, Ordering::AcqRel, Ordering::Acquire)
                        .is_err();
                    if !woken {
                        return false;
                    }
                    if self.dispatcher.is_ending() {
                        // A future that always wakes itself would keep the thread from ending. The
                        // state stays at "woken", so that no waker schedules it.
                        self.let_go();
                        return false;
                    }
                    self.state.store(SCHEDULED, Ordering::Release);
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
            state: AtomicU8::new(SCHEDULED),
            work: Mutex::new(Some(Box::pin(work))),
            dispatcher: dispatcher.clone(),
            span,
            noted,
        });
        dispatcher.schedule(pipe as Task);
    }
}
