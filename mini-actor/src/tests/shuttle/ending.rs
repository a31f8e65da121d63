//! Closing and dropping a system, from outside and from inside, and what was scheduled on it.

use std::sync::Arc;
use std::task::{Poll, Waker};

use lars_base::sync::{AtomicBool, Mutex, Ordering, advance, check, thread};

use super::*;
use crate::ClosePolicy;
use crate::base::threads::OnThreadStart;
use crate::dispatcher::Dispatcher;
use crate::dispatcher::pool::Pool;
use crate::dispatcher::task::{Activate, Task};

fn tellers(system: &ActorSystem, ledger: &Ledger) -> Vec<thread::JoinHandle<()>> {
    let actor = system.spawn("reader", || Reader).unwrap();
    (0..2)
        .map(|delay| {
            let (ledger, actor) = (ledger.clone(), actor.clone());
            let scheduler = system.scheduler().clone();
            thread::spawn(move || {
                for turn in 0..2 {
                    tell(&ledger, &actor);
                    let letter = Letter(ledger.token());
                    let number = letter.0.number;
                    match scheduler.schedule_once(TICK * (delay + turn), &actor, letter) {
                        Ok(send) => {
                            ledger.accepted(number);
                            if turn == 1 {
                                ledger.cancelled(number, send.cancel());
                            }
                        }
                        Err(refused) => {
                            ledger.refused(number);
                            drop(refused.into_task());
                        }
                    }
                }
            })
        })
        .collect()
}

#[test]
fn a_close_ends_all_threads_and_accounts_for_all_messages_also_those_scheduled() {
    check(4_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let tellers = tellers(&system, &ledger);
        advance(TICK);
        let report = system.close().unwrap();
        assert!(report.is_complete());
        join(tellers);
        drop(system);
        ledger.settle();
    });
}

#[test]
fn a_close_that_drops_what_is_scheduled_keeps_no_message() {
    check(3_000, || {
        let system = builder().close_policy(ClosePolicy::DropPending).build().unwrap();
        let ledger = Ledger::new();
        let tellers = tellers(&system, &ledger);
        advance(TICK);
        system.close().unwrap();
        join(tellers);
        drop(system);
        ledger.settle_dropped();
    });
}

#[test]
fn a_system_that_is_dropped_while_threads_tell_and_schedule_keeps_no_message() {
    check(4_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let tellers = tellers(&system, &ledger);
        advance(TICK);
        drop(system);
        join(tellers);
        ledger.settle_dropped();
    });
}

/// Closes the system when it is told something.
struct Closer(std::sync::Weak<ActorSystem>);

impl Actor for Closer {
    type Message = Letter;

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        letter.0.run();
        if let Some(system) = self.0.upgrade() {
            // It does not wait for this actor.
            let _ = system.close();
        }
    }
}

#[test]
fn a_system_that_is_closed_by_an_actor_and_from_outside_at_the_same_time_is_closed_once() {
    check(4_000, || {
        let (system, ledger) = (Arc::new(system()), Ledger::new());
        let weak = Arc::downgrade(&system);
        let closer = system.spawn("closer", move || Closer(weak)).unwrap();
        let tellers = tellers(&system, &ledger);
        tell(&ledger, &closer);
        advance(TICK);
        let report = system.close_within(Duration::MAX);
        assert!(report.is_complete(), "{report}");
        join(tellers);
        drop(system);
        ledger.settle();
    });
}

#[test]
fn each_thread_that_closes_a_system_waits_until_it_is_closed_also_while_its_timer_thread_does() {
    check(4_000, || {
        let system = Arc::new(builder().threads(1).build().unwrap());
        let begun = Arc::new(AtomicBool::new(false));
        let (weak, begins) = (Arc::downgrade(&system), Arc::clone(&begun));
        let closes = lars_scheduler::Task::new(move || {
            begins.store(true, Ordering::SeqCst);
            if let Some(system) = weak.upgrade() {
                // It does not wait for itself.
                let _ = system.close_within(Duration::MAX);
            }
        });
        let _ = system.scheduler().timers().schedule_once(TICK, closes.inline()).unwrap();
        advance(TICK);
        while !begun.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let other = {
            let system = Arc::clone(&system);
            thread::spawn(move || system.close_within(Duration::MAX))
        };
        let reports = [system.close_within(Duration::MAX), other.join().unwrap()];
        for report in reports {
            assert!(report.is_complete(), "{report}");
        }
    });
}

#[test]
fn a_periodic_send_ends_with_its_actor_or_by_a_cancel_and_leaves_no_thread_behind() {
    /// Counts nothing: what is sent has no token.
    struct Ticked;
    impl Actor for Ticked {
        type Message = u32;

        fn receive(&mut self, _: u32, _: &mut Context<Self>) {}
    }
    check(3_000, || {
        let system = system();
        let actor = system.spawn("ticked", || Ticked).unwrap();
        let scheduler = system.scheduler();
        let one = scheduler.schedule_at_fixed_rate(TICK, TICK, &actor, 1).unwrap();
        scheduler.schedule_with_fixed_delay(TICK, TICK, &actor, 2).unwrap();
        let canceller = thread::spawn(move || {
            let won = one.cancel();
            assert!(!one.cancel());
            won
        });
        for _ in 0..2 {
            advance(TICK);
        }
        actor.stop();
        let _ = canceller.join().unwrap();
        advance(TICK);
        system.close().unwrap();
    });
}

#[test]
fn a_future_that_is_woken_while_its_system_ends_is_polled_or_dropped() {
    /// Pipes a future that is never ready, and leaves its waker.
    struct Pipes(Arc<()>, Arc<Mutex<Option<Waker>>>);

    impl Actor for Pipes {
        type Message = ();

        fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
            let (held, wakers) = (Arc::clone(&self.0), Arc::clone(&self.1));
            let future = std::future::poll_fn(move |context| {
                let _ = &held;
                *wakers.lock() = Some(context.waker().clone());
                Poll::Pending
            });
            ctx.pipe_to_self(future, |()| ());
        }
    }
    check(4_000, || {
        let system = system();
        let (held, wakers) = (Arc::new(()), Arc::new(Mutex::new(None)));
        let (inside, given) = (Arc::clone(&held), Arc::clone(&wakers));
        let actor = system.spawn("pipes", move || Pipes(inside, given)).unwrap();
        actor.tell(()).unwrap();
        let left = Arc::clone(&wakers);
        let waking = thread::spawn(move || {
            for _ in 0..2 {
                let waker: Option<Waker> = wakers.lock().take();
                waker.into_iter().for_each(Waker::wake);
                thread::yield_now();
            }
        });
        system.close().unwrap();
        waking.join().unwrap();
        drop((system, actor));
        // A waker that was not used keeps the future.
        let unused = left.lock().take();
        drop(unused);
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

/// Runs twice.
struct Twice {
    begun: AtomicBool,
    token: Token,
}

impl Activate for Twice {
    fn activate(self: Arc<Self>) -> bool {
        let again = !self.begun.swap(true, Ordering::SeqCst);
        if !again {
            self.token.run();
        }
        again
    }
}

fn schedule_while_threads_end(threads: usize) {
    let ledger = Ledger::new();
    let task = || {
        let token = ledger.token();
        ledger.accepted(token.number);
        Arc::new(Twice { begun: AtomicBool::new(false), token }) as Task
    };
    let dispatcher =
        Dispatcher::Pool(Pool::start("shuttle", threads, &OnThreadStart::default()).unwrap());
    let (before, [first, second]) = (task(), [task(), task()]);
    let scheduling = {
        let dispatcher = dispatcher.clone();
        thread::spawn(move || {
            dispatcher.schedule(first);
            dispatcher.schedule(second);
        })
    };
    dispatcher.schedule(before);
    dispatcher.end();
    dispatcher.wait_ended(None);
    scheduling.join().unwrap();
    assert_eq!(ledger.ran(0), 1, "it was scheduled before the end");
    // Nothing is left in a queue, which the dispatcher would keep.
    ledger.settle_dropped();
    drop(dispatcher);
}

#[test]
fn what_is_scheduled_while_a_thread_ends_runs_to_its_end_or_is_dropped() {
    check(4_000, || schedule_while_threads_end(1));
}

#[test]
fn what_is_scheduled_while_threads_end_runs_to_its_end_or_is_dropped() {
    check(4_000, || schedule_while_threads_end(2));
}
