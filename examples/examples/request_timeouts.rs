//! Questions under load, to actors of which some are slow: answers in time are received, late ones
//! are not waited for, and every question is accounted for.
//!
//! ```text
//! cargo run --release -p examples --example request_timeouts
//! ```
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use examples::checks::{Problem, verify};
use mini_actor::{Actor, ActorSystem, AskError, Context, Reply};

const SERVERS: usize = 20;
/// Every fifth server is slow.
const SLOW: usize = 5;
const QUESTIONS: usize = 50_000;
const TIMEOUT: Duration = Duration::from_millis(50);
/// How long a slow server takes for an answer.
const DELAY: Duration = Duration::from_millis(150);

enum Message {
    Question(u64, Reply<u64>),
    /// The answer of a slow server is ready.
    Ready(u64, Reply<u64>),
}

/// Squares numbers; a slow one takes its time, but does not block anybody.
struct Server {
    slow: bool,
    asked: u64,
}

impl Actor for Server {
    type Message = Message;

    fn receive(&mut self, message: Message, ctx: &mut Context<Self>) {
        match message {
            Message::Question(number, reply) if self.slow => {
                self.asked += 1;
                let ready = Message::Ready(number, reply);
                // If it is refused, at a limit of the scheduler's, the reply goes with the message,
                // and the asker is told.
                let _ = ctx.timers().start_single(self.asked, DELAY, ready);
            }
            Message::Question(number, reply) | Message::Ready(number, reply) => {
                reply.send(number * number);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Account {
    answered: usize,
    timed_out: usize,
    wrong: usize,
    early: usize,
}

fn main() -> Result<(), Problem> {
    let system = ActorSystem::new("servers")?;
    let servers = (0..SERVERS)
        .map(|number| {
            let slow = number % SLOW == 0;
            system.spawn(&format!("server-{number}"), move || Server { slow, asked: 0 })
        })
        .collect::<Result<Vec<_>, _>>()?;
    println!(
        "{QUESTIONS} questions to {SERVERS} servers, of which {} take {DELAY:?}; \
         the limit is {TIMEOUT:?}.",
        SERVERS / SLOW
    );

    // All at once: nobody waits for an answer before the next question is asked.
    let began = Instant::now();
    let asked: Vec<_> = (0..QUESTIONS)
        .map(|number| {
            let at = Instant::now();
            let make = |reply| Message::Question(number as u64, reply);
            (number, at, servers[number % SERVERS].ask(make, TIMEOUT))
        })
        .collect();
    println!("Asked in {:.1?}; {} timeouts are pending.", began.elapsed(), {
        system.scheduler().timers().pending()
    });

    let mut account = Account::default();
    for (number, at, ask) in asked {
        let square = (number * number) as u64;
        match ask.wait() {
            Ok(answer) if answer == square => account.answered += 1,
            Err(AskError::Timeout(_)) => {
                account.timed_out += 1;
                account.early += usize::from(at.elapsed() < TIMEOUT);
            }
            _ => account.wrong += 1,
        }
    }
    let Account { answered, timed_out, wrong, early } = account;
    println!(
        "All settled after {:.1?}: {answered} answered, {timed_out} timed out; wrong: {wrong}, \
         early: {early}.",
        began.elapsed()
    );

    // Every question that timed out is answered late. Those answers are dead letters. (On a busy
    // machine some of the fast servers are late, too.)
    let late = account.timed_out as u64;
    let give_up = Instant::now() + Duration::from_secs(30);
    while system.metrics().dead_letters < late && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(10));
    }
    let timers = system.scheduler().timers().metrics();
    let report = system.close()?;
    println!("Closed: {report}\n");

    verify(&[
        ("every question has one end", account.answered + account.timed_out == QUESTIONS),
        ("no answer is wrong", account.wrong == 0),
        ("no timeout is early", account.early == 0),
        ("the slow servers are not waited for", account.timed_out >= QUESTIONS / SLOW),
        ("late answers are dead letters", report.dead_letters == late),
        // An answer cancels its timeout, unless that is firing at the same moment.
        ("every timer fired or was cancelled", timers.scheduled == timers.fired + timers.cancelled),
        ("no timer is left", timers.pending == 0),
    ])?;
    Ok(())
}
