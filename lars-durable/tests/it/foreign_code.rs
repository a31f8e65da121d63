//! Wakers and executors that do not do what is expected of them.

use crate::common;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll};
use std::time::Duration;

use common::{LONG, Note, note};
use futures::task::{ArcWake, waker};
use lars_durable::{Durable, Fired, Handler, Payload};
use lars_scheduler::Executor;
use lars_scheduler::executor::{Rejected, Runnable};

/// Calls something when it is dropped, unless that would be a second panic.
struct Dropped<F: Fn(&str)>(F);

impl<F: Fn(&str)> Drop for Dropped<F> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            (self.0)("dropped");
        }
    }
}

/// Panics when it is told something, with a value that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

struct Panics;

impl ArcWake for Panics {
    fn wake_by_ref(_: &Arc<Self>) {
        std::panic::panic_any(Bomb);
    }
}

/// Polls once, with a waker that panics.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&waker(Arc::new(Panics))))
}

/// Has a thread for each task, unless it is told to refuse tasks, or to drop them like a runtime
/// that was shut down.
#[derive(Clone, Default)]
struct Moody {
    refuses: Arc<AtomicBool>,
    drops: Arc<AtomicBool>,
    dropped: Arc<AtomicUsize>,
}

impl Executor for Moody {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(Rejected::new(task, "no thread is free"));
        }
        if self.drops.load(Ordering::SeqCst) {
            self.dropped.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        std::thread::spawn(move || task.run());
        Ok(())
    }
}

#[test]
fn a_waker_that_panics_with_a_value_that_panics_when_it_is_dropped_harms_nobody() {
    let durable = Durable::in_memory().start().unwrap();
    let timers = durable.timers();
    for number in 0..100 {
        // Before its answer, most probably.
        let _ = poll(&mut timers.get("nobody"));
        let timer = timers.schedule_once(LONG, note("x")).key(number.to_string());
        timer.submit().wait().unwrap();
    }
    durable.close().unwrap();
}

/// In virtual time: the store is away until the end.
#[test]
fn each_call_that_waits_when_a_node_ends_is_answered_whatever_the_wakers_of_others_do() {
    let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let store = lars_durable::test_kit::Store::new(&time.handle());
    let node = store.node().call_timeout(Duration::from_secs(3_600)).start().unwrap();
    let timers = node.timers();
    time.advance(Duration::from_secs(1));
    store.set_reachable(false);
    let mut calls: Vec<_> = (0..10).map(|_| timers.get("nobody")).collect();
    assert!(calls.iter_mut().all(|call| poll(call).is_pending()));
    node.close().unwrap();
    time.advance(Duration::from_secs(60));
    for call in &mut calls {
        assert!(matches!(poll(call), Poll::Ready(Err(_))), "it waits for ever");
    }
}

/// Each on a thread of its own, because they wait for most of their time.
fn beside_each_other<T: Send>(cases: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            let test = &test;
            scope.spawn(move || test(case));
        }
    });
}

#[test]
fn a_run_that_the_executor_drops_before_it_begins_costs_no_attempt_and_is_not_lost() {
    beside_each_other(
        [(false, false), (false, true), (true, false), (true, true)],
        |(at_most_once, future)| {
            let executor = Moody::default();
            executor.drops.store(true, Ordering::SeqCst);
            let (sender, seen) = channel();
            let tell = move |due: &Fired<Note>| sender.send(due.attempt()).unwrap();
            let handler = match future {
                true => Handler::future(move |due| {
                    tell(&due);
                    std::future::ready(())
                }),
                false => Handler::new(tell),
            };
            let handler = if at_most_once { handler.at_most_once() } else { handler };
            let builder = Durable::in_memory().executor(executor.clone());
            let durable = builder.handler(handler.max_attempts(1)).start().unwrap();
            durable.timers().schedule_once(Duration::ZERO, note("x")).submit().wait().unwrap();
            while executor.dropped.load(Ordering::SeqCst) < 2 {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(seen.try_recv().is_err());
            executor.drops.store(false, Ordering::SeqCst);
            assert_eq!(seen.recv_timeout(LONG).unwrap(), 1);
            durable.close().unwrap();
            assert!(seen.try_recv().is_err(), "once");
        },
    );
}

#[test]
fn a_future_that_panics_is_tried_again_wherever_it_panics() {
    beside_each_other(["made", "polled", "awaited", "dropped"], |place| {
        let (sender, seen) = channel();
        let handler = Handler::future(move |due: Fired<Note>| {
            let attempt = due.attempt();
            sender.send(attempt).unwrap();
            let panics = move |here: &str| assert!(attempt > 1 || here != place, "{here}");
            panics("made");
            let dropped = Dropped(panics);
            let mut polls = 0;
            poll_fn(move |context| {
                let _ = &dropped;
                polls += 1;
                panics(if polls == 1 { "polled" } else { "awaited" });
                if polls == 2 {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
        });
        let durable = Durable::in_memory().handler(handler).start().unwrap();
        durable.timers().schedule_once(Duration::ZERO, note("x")).submit().wait().unwrap();
        assert_eq!([(); 2].map(|()| seen.recv_timeout(LONG).unwrap()), [1, 2], "{place}");
        durable.close().unwrap();
        assert!(seen.try_recv().is_err(), "{place}");
    });
}

#[test]
fn a_future_that_wakes_itself_while_the_executor_refuses_its_poll_is_tried_again() {
    let executor = Moody::default();
    let (refuses, (sender, seen)) = (Arc::clone(&executor.refuses), channel());
    let handler = Handler::future(move |due: Fired<Note>| {
        let (refuses, sender) = (Arc::clone(&refuses), sender.clone());
        poll_fn(move |context| {
            sender.send(due.attempt()).unwrap();
            if due.attempt() > 1 {
                return Poll::Ready(());
            }
            refuses.store(true, Ordering::SeqCst);
            context.waker().wake_by_ref();
            refuses.store(false, Ordering::SeqCst);
            Poll::Pending
        })
    });
    let durable = Durable::in_memory().executor(executor).handler(handler).start().unwrap();
    durable.timers().schedule_once(Duration::ZERO, note("x")).submit().wait().unwrap();
    assert_eq!([(); 2].map(|()| seen.recv_timeout(LONG).unwrap()), [1, 2]);
    durable.close().unwrap();
}

#[test]
fn a_future_that_is_woken_while_it_is_polled_is_polled_again() {
    let (sender, seen) = channel();
    let handler = Handler::future(move |_: Fired<Note>| {
        let (sender, mut polls) = (sender.clone(), 0);
        poll_fn(move |context| {
            polls += 1;
            sender.send(polls).unwrap();
            if polls == 100 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    });
    let durable = Durable::in_memory().executor(Moody::default()).handler(handler).start().unwrap();
    durable.timers().schedule_once(Duration::ZERO, note("x")).submit().wait().unwrap();
    let polls: Vec<u32> = (0..100).map(|_| seen.recv_timeout(LONG).unwrap()).collect();
    assert!(polls.iter().copied().eq(1..=100), "{polls:?}");
    durable.close().unwrap();
    assert!(seen.try_recv().is_err());
}

/// An error that cannot be put into words.
struct Wordless;

impl std::fmt::Display for Wordless {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("no words")
    }
}

/// Never ends, and panics when it is dropped.
struct Clings;

impl Future for Clings {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Drop for Clings {
    fn drop(&mut self) {
        panic!("it clings");
    }
}

#[test]
fn what_panics_when_a_future_has_ended_is_why_its_run_has_failed() {
    let wordless = || Handler::future(|_: Fired<Note>| async { Err::<(), _>(Wordless) });
    let clings = || Handler::future(|_: Fired<Note>| Clings).time_limit(Duration::from_millis(1));
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    for in_tokio in [false, true] {
        let entered = in_tokio.then(|| tokio.enter());
        for (handler, why) in [(wordless(), "no words"), (clings(), "it clings")] {
            let builder = Durable::in_memory().handler(handler.max_attempts(1));
            let durable = builder.start().unwrap();
            let timers = durable.timers();
            timers.schedule_once(Duration::ZERO, note("x")).submit().wait().unwrap();
            let parked = loop {
                if let Some(parked) = common::parked(&timers).pop() {
                    break parked;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            assert_eq!(parked.reason, format!("attempt 1 failed: panicked: {why}"));
        }
        drop(entered);
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Other;

impl Payload for Other {
    const NAME: &'static str = "other";
}

#[test]
fn a_handler_that_panics_when_it_goes_with_its_node_hides_no_run_that_was_given_up() {
    let (begun, begins) = channel();
    let (_open, ends) = futures::channel::oneshot::channel::<()>();
    let ends = futures::FutureExt::shared(ends);
    let stuck = move |_: Fired<Note>| {
        begun.send(()).unwrap();
        let ends = ends.clone();
        async move { ends.await.unwrap_or(()) }
    };
    let last = Dropped(|what| panic!("{what}"));
    let panics = move |_: &Fired<Other>| {
        let _ = &last;
    };
    let durable = Durable::in_memory().handle_future(stuck).handle(panics).start().unwrap();
    durable.timers().schedule_once(Duration::ZERO, note("x")).submit().wait().unwrap();
    begins.recv_timeout(LONG).unwrap();
    assert_eq!(durable.close_within(Duration::ZERO).unwrap_err().running, 1);
}
