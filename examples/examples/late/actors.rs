//! What makes the messages of timers late.

use std::error::Error;
use std::thread;
use std::time::Duration;

use lars_scheduler::late::Cause;
use mini_actor::{Actor, ActorRef, ActorSystem, Context};

use crate::faults::{BOUND, Fault, Injected, LASTS, sleeps};

pub(crate) const ALL: [Fault; 4] = [
    Fault::alone("busy actor", "the actor sleeps in a message", &[Cause::ActorBusy], || {
        to_busy(|sleeper, _| sleeper.tell(LASTS).is_ok())
    }),
    Fault::alone(
        "full mailbox",
        "sixty messages stand before a timer's",
        &[Cause::MessagesBefore],
        full_mailbox,
    ),
    Fault::alone(
        "busy dispatcher",
        "another actor has the only thread",
        &[Cause::DispatcherBusy],
        || to_busy(|_, other| other.tell(LASTS).is_ok()),
    ),
    Fault::alone(
        "late timer",
        "an inline task sleeps before the timers of an actor",
        &[Cause::Timer],
        late_timer,
    ),
];

/// Sleeps for as long as each message says.
struct Sleeper;

impl Actor for Sleeper {
    type Message = Duration;

    fn receive(&mut self, time: Duration, _: &mut Context<Self>) {
        thread::sleep(time);
    }
}

fn system() -> Result<(ActorSystem, ActorRef<Duration>), Box<dyn Error>> {
    let system = ActorSystem::builder("late").threads(1).explain_late(BOUND).build()?;
    let sleeper = system.spawn("sleeper", || Sleeper)?;
    Ok((system, sleeper))
}

/// A message for each of the next milliseconds, on which the actor does not sleep.
fn beats(system: &ActorSystem, to: &ActorRef<Duration>) -> Result<(), Box<dyn Error>> {
    for ms in 1..=40 {
        let _ = system.scheduler().schedule_once(Duration::from_millis(ms), to, Duration::ZERO)?;
    }
    Ok(())
}

/// Waits until all has been received, and says what was late.
fn at_the_end(system: &ActorSystem) -> Injected {
    while system.scheduler().timers().metrics().pending > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(3 * LASTS);
    Ok(Some(system.lateness().into()))
}

/// Beats to an actor while something keeps it, or its thread, busy.
fn to_busy(keep_busy: fn(&ActorRef<Duration>, &ActorRef<Duration>) -> bool) -> Injected {
    let (system, sleeper) = system()?;
    let other = system.spawn("resizer", || Sleeper)?;
    beats(&system, &sleeper)?;
    if !keep_busy(&sleeper, &other) {
        return Err("the actors have stopped".into());
    }
    at_the_end(&system)
}

fn full_mailbox() -> Injected {
    let (system, sleeper) = system()?;
    for _ in 0..60 {
        sleeper.tell(Duration::from_millis(1))?;
    }
    beats(&system, &sleeper)?;
    at_the_end(&system)
}

fn late_timer() -> Injected {
    let (system, sleeper) = system()?;
    beats(&system, &sleeper)?;
    let timers = system.scheduler().timers();
    let _ = timers.schedule_once(Duration::ZERO, sleeps("sync_prices", LASTS).inline())?;
    at_the_end(&system)
}
