//! The gate of a lane: its owner, the driver that visits, and what other threads send.

use std::time::Duration;

use loom::thread;

use super::{Token, check, drive, scheduler, scheduler_waking};
use crate::api::pending::StopFuture;
use crate::engine::driver::Next;
use crate::engine::gate::Gate;
use crate::sync::{Arc, Parker, UnsafeCell, heavy_fence, take_slot};

const NOW: Duration = Duration::ZERO;
const SOON: Duration = Duration::from_nanos(3);
const LATER: Duration = Duration::from_nanos(9);

/// What lies behind a gate: loom reports two threads that touch it at a time.
struct Guarded {
    gate: Gate,
    value: UnsafeCell<u32>,
}

// SAFETY: only the party behind the gate touches the value. The model fails if that does not hold.
unsafe impl Sync for Guarded {}
// SAFETY: nothing in it is tied to a thread.
unsafe impl Send for Guarded {}

impl Guarded {
    fn add(&self) {
        // SAFETY: the caller is behind the gate, where there is one party at a time.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }
}

#[test]
fn owner_and_visitor_are_never_behind_the_gate_together_and_see_what_the_other_did() {
    check(3, || {
        let guarded = Arc::new(Guarded { gate: Gate::new(), value: UnsafeCell::new(0) });
        let owner = {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || {
                let mut entered = 0;
                for _ in 0..2 {
                    if guarded.gate.enter() {
                        guarded.add();
                        guarded.gate.leave();
                        entered += 1;
                    }
                }
                entered
            })
        };
        guarded.gate.knock();
        assert!(heavy_fence());
        let mut visits = 0;
        // Like the driver, it leaves the flag set and looks again later.
        for _ in 0..2 {
            if guarded.gate.is_free() {
                guarded.add();
                visits += 1;
                break;
            }
            thread::yield_now();
        }
        guarded.gate.open();
        let entered = owner.join().unwrap();
        assert!(guarded.gate.enter(), "nobody is inside any more");
        // SAFETY: this thread has entered the gate, where there is one party at a time.
        guarded.value.with(|value| assert_eq!(unsafe { *value }, entered + visits));
        guarded.gate.leave();
    });
}

#[test]
fn what_an_owner_schedules_and_cancels_beside_a_visit_has_one_fate() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        let owner = {
            let handle = handle.clone();
            thread::spawn(move || {
                take_slot(0);
                let (due, due_fate) = Token::new();
                drop(handle.schedule_once(NOW, move || due.run()).unwrap());
                let (token, fate) = Token::new();
                let timer = handle.schedule_once(LATER, move || token.run()).unwrap();
                assert!(timer.cancel());
                drop(timer);
                (due_fate, fate)
            })
        };
        let _ = driver.take_in();
        let _ = driver.turn(0);
        let (due, cancelled) = owner.join().unwrap();
        while due.runs() == 0 {
            let _ = driver.take_in();
            let _ = driver.turn(0);
        }
        let _ = driver.turn(9);
        assert_eq!((due.runs(), due.drops()), (1, 1));
        assert_eq!((cancelled.runs(), cancelled.drops()), (0, 1));
        assert_eq!(handle.metrics().pending, 0);
    });
}

#[test]
fn of_an_owner_s_cancel_another_thread_s_and_the_fire_exactly_one_wins() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let (token, fate) = Token::new();
        let timer = Arc::new(handle.schedule_once(NOW, move || token.run()).unwrap());
        let other = {
            let timer = Arc::clone(&timer);
            thread::spawn(move || usize::from(timer.cancel()))
        };
        let driving = thread::spawn(move || {
            let _ = driver.turn(0);
            driver
        });
        let here = usize::from(timer.cancel());
        let there = other.join().unwrap();
        let mut driver = driving.join().unwrap();
        drop(timer);
        let _ = driver.turn(0);
        let _ = driver.turn(0);
        assert_eq!(here + there + fate.runs(), 1);
        assert_eq!(fate.drops(), 1);
        assert_eq!(handle.metrics().pending, 0);
    });
}

#[test]
fn a_local_timer_that_another_thread_cancels_is_unlinked_and_its_entry_used_again() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let timer = handle.schedule_once(SOON, || ()).unwrap();
        let canceller = thread::spawn(move || timer.cancel());
        // The driver may find it cancelled in the wheel or in the due list.
        let _ = driver.turn(5);
        let _ = canceller.join().unwrap();
        // The owner finds it on the stack, and passes it on if the driver has had it.
        drop(handle.schedule_once(LATER, || ()));
        let _ = driver.turn(5);
        let _ = driver.turn(5);
        let memory = handle.metrics().timer_memory;
        drop(handle.schedule_once(LATER, || ()));
        assert_eq!(handle.metrics().timer_memory, memory);
    });
}

#[test]
fn what_another_thread_cancels_is_collected_by_the_owner_beside_the_driver_that_fires_it() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let (token, fate) = Token::new();
        let timer = handle.schedule_once(NOW, move || token.run()).unwrap();
        let block = handle.metrics().timer_memory;
        let canceller = thread::spawn(move || usize::from(timer.cancel()));
        let driving = thread::spawn(move || {
            let _ = driver.turn(0);
            driver
        });
        // With each call the owner looks at what was cancelled. It may be in the wheel, in the due
        // list, or on its way out of that.
        let schedule = || drop(handle.schedule_once(LATER, || ()).unwrap());
        schedule();
        let cancelled = canceller.join().unwrap();
        let mut driver = driving.join().unwrap();
        // (The driver may have left the gate shut, which keeps the owner out once.)
        for _ in 0..2 {
            schedule();
            let _ = driver.turn(0);
            let _ = driver.turn(0);
        }
        assert_eq!((cancelled + fate.runs(), fate.drops()), (1, 1));
        schedule();
        // Four of them wait, in two blocks of two: one of them is the first timer's.
        assert_eq!(handle.metrics().timer_memory, 2 * block);
        assert_eq!(handle.metrics().pending, 4);
    });
}

#[test]
fn what_is_cancelled_in_the_wheel_of_an_owner_that_does_not_come_is_collected_by_the_driver() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let timer = handle.schedule_once(LATER, || ()).unwrap();
        let canceller = {
            let handle = handle.clone();
            thread::spawn(move || {
                assert!(timer.cancel());
                drop(timer);
                // The first time it only sees how many timers the owner has scheduled.
                handle.core().have_collected();
                handle.core().have_collected();
            })
        };
        let _ = driver.turn(0);
        canceller.join().unwrap();
        let turn = driver.turn(0);
        assert_eq!(turn.next, Next::Idle, "there is nothing left in the wheel");
        assert_eq!(handle.metrics().pending, 0);
    });
}

#[test]
fn the_driver_takes_over_what_is_cancelled_from_an_owner_that_comes_too_rarely() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let schedule = || handle.schedule_once(LATER, || ()).unwrap();
        let burst: Vec<_> = (0..7).map(|_| schedule()).collect();
        let cancel = move || burst.iter().for_each(|timer| assert!(timer.cancel()));
        thread::spawn(cancel).join().unwrap();
        // With each call the owner collects two of the seven. At its second look the driver finds
        // it at the chain that it was at before.
        drop(schedule());
        driver.look_after_owners();
        drop(schedule());
        driver.look_after_owners();
        let owner = {
            let handle = handle.clone();
            thread::spawn(move || {
                take_slot(0);
                drop(handle.schedule_once(LATER, || ()).unwrap());
            })
        };
        let _ = driver.turn(0);
        owner.join().unwrap();
        // (The gate may have been shut to the driver, or the driver may have more to do.)
        let _ = driver.turn(0);
        let _ = driver.turn(0);
        let lane = handle.core().arena.lanes.lane(0);
        assert_eq!(lane.wheel().and_then(|wheel| wheel.uncollected()), None);
        assert_eq!(handle.metrics().pending, 3);
    });
}

#[test]
fn a_request_to_watch_an_owner_that_comes_while_the_driver_looks_is_kept() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let task = handle.schedule_once(LATER, || ()).unwrap();
        handle.core().arena.lanes.watch_owners();
        let canceller = {
            let handle = handle.clone();
            thread::spawn(move || {
                assert!(task.cancel());
                // The owner has scheduled since the last look at it, so it may still collect this.
                handle.core().have_collected();
            })
        };
        let _ = driver.turn(0);
        canceller.join().unwrap();
        let _ = driver.turn(0);
        assert!(handle.core().arena.lanes.take_watch_request());
    });
}

#[test]
fn a_sleeper_wakes_up_for_what_an_owner_puts_into_its_own_wheel() {
    check(2, || {
        let parker = Parker::new();
        let (handle, mut driver) = scheduler_waking(parker.unparker().clone(), None);
        let (token, fate) = Token::new();
        let owner = thread::spawn(move || {
            take_slot(0);
            // The second is due before the first, and so before the end of the sleep that the first
            // may have led to.
            drop(handle.schedule_once(LATER, || ()).unwrap());
            drop(handle.schedule_once(NOW, move || token.run()).unwrap());
        });
        drive(&mut driver, &parker, &fate);
        owner.join().unwrap();
    });
}

#[test]
fn a_sleeper_wakes_up_for_a_local_deadline_that_another_thread_moved_nearer() {
    check(2, || {
        let parker = Parker::new();
        let (handle, mut driver) = scheduler_waking(parker.unparker().clone(), None);
        let (token, fate) = Token::new();
        let owner = thread::spawn(move || {
            take_slot(0);
            handle.schedule_once(LATER, move || token.run()).unwrap()
        });
        let timer = owner.join().unwrap();
        let mover = thread::spawn(move || assert!(timer.reset(NOW)));
        drive(&mut driver, &parker, &fate);
        mover.join().unwrap();
    });
}

#[test]
fn an_owner_that_moves_a_deadline_nearer_beside_a_visit_is_heard() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        let owner = {
            let handle = handle.clone();
            thread::spawn(move || {
                take_slot(0);
                let (token, fate) = Token::new();
                let timer = handle.schedule_once(LATER, move || token.run()).unwrap();
                drop(handle.schedule_once(NOW, || ()).unwrap());
                assert!(timer.reset(SOON));
                fate
            })
        };
        let _ = driver.turn(0);
        let fate = owner.join().unwrap();
        for _ in 0..4 {
            let _ = driver.turn(5);
        }
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
        assert_eq!(handle.metrics().pending, 0);
    });
}

#[test]
fn an_owner_that_moves_a_deadline_nearer_is_heard_although_its_timer_found_the_gate_shut() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        drop(handle.schedule_once(NOW, || ()).unwrap());
        let driving = thread::spawn(move || {
            let _ = driver.turn(0);
            driver
        });
        let (token, fate) = Token::new();
        let timer = handle.schedule_once(LATER, move || token.run()).unwrap();
        assert!(timer.reset(SOON));
        let mut driver = driving.join().unwrap();
        for _ in 0..4 {
            let _ = driver.turn(5);
        }
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
    });
}

#[test]
fn what_finds_the_gate_shut_keeps_its_place_among_equal_deadlines() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let owner = {
            let (handle, order) = (handle.clone(), std::sync::Arc::clone(&order));
            thread::spawn(move || {
                take_slot(0);
                drop(handle.schedule_once(NOW, || ()).unwrap());
                for number in 0..3 {
                    let order = std::sync::Arc::clone(&order);
                    let push = move || order.lock().unwrap().push(number);
                    drop(handle.schedule_once(SOON, push).unwrap());
                }
            })
        };
        let _ = driver.turn(0);
        owner.join().unwrap();
        for _ in 0..6 {
            let _ = driver.turn(5);
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
    });
}

#[test]
fn what_an_owner_schedules_beside_a_stop_is_handed_back_or_refused() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        let owner = {
            let handle = handle.clone();
            thread::spawn(move || {
                take_slot(0);
                let mut accepted = 0;
                for _ in 0..2 {
                    accepted += usize::from(handle.schedule_once(LATER, || ()).is_ok());
                }
                accepted
            })
        };
        let stopping = StopFuture::new(handle.core().stop.request(true));
        driver.finish();
        let pending = stopping.wait().len();
        assert_eq!(owner.join().unwrap(), pending);
        assert_eq!(handle.metrics().pending, 0);
    });
}

#[test]
fn handles_that_owners_and_others_drop_as_the_scheduler_ends_leave_nothing_behind() {
    check(1, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let fired = handle.schedule_once(NOW, || ()).unwrap();
        let passed_on = handle.schedule_once(NOW, || ()).unwrap();
        let cancelled = handle.schedule_once(LATER, || ()).unwrap();
        assert!(cancelled.cancel());
        let driving = thread::spawn(move || {
            let _ = driver.turn(0);
            drop(driver);
        });
        let other = thread::spawn(move || drop(passed_on));
        drop(handle);
        drop(fired);
        drop(cancelled);
        driving.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn owner_and_driver_drain_to_one_mark_and_everything_runs_once() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let schedule = |delay| {
            let (token, fate) = Token::new();
            (handle.schedule_once(delay, move || token.run()).unwrap(), fate)
        };
        // Their carriers are more than either party takes at once.
        let (timers, mut fates): (Vec<_>, Vec<_>) = (0..3).map(|_| schedule(LATER)).unzip();
        let mover = thread::spawn(move || {
            assert!(timers.iter().all(|timer| timer.reset(SOON)));
            timers
        });
        let visitor = thread::spawn(move || {
            let _ = driver.take_in();
            let _ = driver.turn(0);
            driver
        });
        fates.push(schedule(SOON).1);
        let mut driver = visitor.join().unwrap();
        let timers = mover.join().unwrap();
        drop(timers);
        let _ = driver.take_in();
        for _ in 0..8 {
            let _ = driver.turn(3);
        }
        for fate in fates {
            assert_eq!((fate.runs(), fate.drops()), (1, 1));
        }
    });
}
