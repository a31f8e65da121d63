//! Actors of a process that is killed: each shows its fences to others.

use std::time::Duration;

use mini_actor::{ActorSystem, Context};

use super::super::history::Event;
use super::Log;
use crate::actors::{DurableActor, DurableContext, Hosted, Kind};
use crate::{Builder, Payload, Timers};

/// How many there are.
const NAMES: u64 = 3;

#[derive(serde::Serialize, serde::Deserialize)]
struct Show;

impl Payload for Show {
    const NAME: &'static str = "shows";
}

struct Shows {
    name: u64,
    log: Log,
}

impl DurableActor for Shows {
    type Reminder = Show;
    type Message = Show;

    fn receive(&mut self, _: Show, ctx: &mut Context<Hosted<Self>>) {
        let fence = ctx.delivery().expect("it is durable").fence;
        self.log.note(Event::Shown { name: self.name, fence });
        if fastrand::u8(..20) == 0 {
            ctx.stop();
        }
    }
}

pub(super) fn hosted(builder: Builder, log: &Log) -> Builder {
    let log = log.clone();
    let kind = Kind::new(move |name| Shows { name: name.parse().unwrap(), log: log.clone() });
    let system = ActorSystem::new("shows").unwrap();
    let builder = builder.actors(&system, kind);
    // As long as the process lives.
    std::mem::forget(system);
    builder
}

/// Tells them something again and again, on a thread of its own.
pub(super) fn told_for_ever(timers: &Timers, seed: u64) {
    let (timers, mut rng) = (timers.clone(), fastrand::Rng::with_seed(seed));
    std::thread::spawn(move || {
        loop {
            let told = timers.tell(&format!("shows/{}", rng.u64(..NAMES)), Show).submit().wait();
            if told.is_err() {
                return;
            }
            std::thread::sleep(Duration::from_micros(rng.u64(0..4_000)));
        }
    });
}
