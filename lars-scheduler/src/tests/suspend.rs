//! A machine that is suspended, as the option `count_suspend` sees it: the clock has jumped, and no
//! sleep has ended earlier for that.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::api::handle::Handle;
use crate::sync::real_now;
use crate::{LightArrayRevolverScheduler, MissedTickBehavior, Periodic};

const HOUR: Duration = Duration::from_secs(3_600);
/// Far less than that, and more than any machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

fn suspend(timers: &Handle, hours: u32) {
    timers.core().clock.suspend((hours * HOUR).as_nanos() as u64);
}

fn notes(sender: &Sender<u32>, number: u32) -> impl FnMut() + Send + use<> {
    let sender = sender.clone();
    move || {
        let _ = sender.send(number);
    }
}

#[test]
fn what_came_due_in_a_suspend_fires_although_the_threads_sleep_did_not_count_it() {
    let builder = LightArrayRevolverScheduler::builder().count_suspend(true);
    let scheduler = builder.build().unwrap();
    let (sender, ran) = channel();
    let first = scheduler.schedule_once(HOUR, notes(&sender, 1)).unwrap();
    let second = scheduler.schedule_once(9 * HOUR, notes(&sender, 2)).unwrap();
    assert!(second.remaining().unwrap() > 8 * HOUR);
    // So that the thread sleeps, as in a suspend it does.
    while !scheduler.core().sleep.stays_asleep() {
        crate::sync::yield_now();
    }
    std::thread::sleep(Duration::from_millis(20));
    suspend(&scheduler, 2);
    assert_eq!(ran.recv_timeout(PATIENCE), Ok(1));
    assert!(!first.cancel());
    assert!(second.remaining().unwrap() < 7 * HOUR);
    assert!(second.cancel());
}

#[test]
fn an_event_loop_is_told_to_look_again_within_a_second_while_something_is_pending() {
    let builder = LightArrayRevolverScheduler::builder().count_suspend(true);
    let mut timers = builder.build_driver(|| ()).unwrap();
    assert_eq!(timers.turn(real_now()), None);
    let (sender, ran) = channel();
    let _ = timers.schedule_once(HOUR, notes(&sender, 1)).unwrap();
    let next = timers.turn(real_now()).unwrap();
    assert!(next <= real_now() + Duration::from_secs(1));
    assert_eq!(ran.try_iter().count(), 0);
    suspend(&timers.handle(), 2);
    assert_eq!(timers.turn(real_now()), None);
    assert_eq!(ran.try_iter().count(), 1);
}

#[test]
fn a_fixed_rate_does_after_a_suspend_what_its_missed_ticks_say() {
    let builder = LightArrayRevolverScheduler::builder().count_suspend(true);
    let mut timers = builder.build_driver(|| ()).unwrap();
    let (sender, ran) = channel();
    let rate = |number, missed| {
        let run = Periodic::new(notes(&sender, number)).missed_ticks(missed);
        let period = HOUR * 9 / 10;
        timers.schedule_at_fixed_rate(period, period, run).unwrap()
    };
    let _all = rate(1, MissedTickBehavior::Burst);
    let _one = rate(2, MissedTickBehavior::Skip);
    suspend(&timers.handle(), 4);
    while timers.turn(real_now()).is_some_and(|next| next <= real_now()) {}
    let mut runs: Vec<u32> = ran.try_iter().collect();
    runs.sort_unstable();
    assert_eq!(runs, [1, 1, 1, 1, 2]);
}

#[test]
fn an_instant_that_has_not_come_is_waited_for_after_a_suspend_too() {
    let builder = LightArrayRevolverScheduler::builder().count_suspend(true);
    let mut timers = builder.build_driver(|| ()).unwrap();
    suspend(&timers.handle(), 2);
    let (sender, ran) = channel();
    let later = real_now() + HOUR;
    let timer = timers.schedule_at(later, notes(&sender, 1)).unwrap();
    timers.turn(real_now());
    assert_eq!(ran.try_iter().count(), 0);
    assert!(timer.remaining().unwrap() > HOUR / 2);
    // Given before a suspend, it has passed earlier.
    suspend(&timers.handle(), 2);
    timers.turn(real_now());
    assert_eq!(ran.try_iter().count(), 1);
}
