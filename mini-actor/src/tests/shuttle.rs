//! Shuttles: whole systems of actors, with their threads and their scheduler, in many random
//! schedules.
//!
//! Run with `ci/shuttle.sh`. As in lars-scheduler: time is moved by the model, each message has its
//! token and in the end one fate, and a thread that does not end, or a wake-up that is lost, is a
//! deadlock.

mod asking;
mod closing;
mod ending;
mod messages;
mod watching;

use std::time::Duration;

use lars_base::sync::{Ledger, Token, thread};

use crate::system::builder::Builder;
use crate::{Actor, ActorRef, ActorSystem, Context};

const TICK: Duration = Duration::from_millis(1);

/// Two threads, and a turn after every other message.
fn builder() -> Builder {
    ActorSystem::builder("shuttle").threads(2).throughput(2).on_dead_letter(|letter| {
        if let Some(letter) = letter.message.downcast_ref::<Letter>() {
            letter.0.buried();
        }
    })
}

fn system() -> ActorSystem {
    builder().build().unwrap()
}

fn join<T>(threads: Vec<thread::JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// A message that counts its fate.
#[derive(Debug)]
struct Letter(Token);

/// Receives.
struct Reader;

impl Actor for Reader {
    type Message = Letter;

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        letter.0.run();
    }
}

/// Sends a letter, and says whether it was accepted.
fn tell(ledger: &Ledger, to: &ActorRef<Letter>) -> bool {
    let letter = Letter(ledger.token());
    let number = letter.0.number;
    let told = to.tell(letter);
    match &told {
        Ok(()) => ledger.accepted(number),
        Err(_) => ledger.refused(number),
    }
    told.is_ok()
}
