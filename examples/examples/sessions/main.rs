//! A server of sessions, and its clients.
//!
//! The server speaks TCP on the loopback device, with one thread for all input and output. Every
//! connection is a session, an actor with two timers: an idle timeout, which each request moves,
//! and a heartbeat at a fixed rate, which writes a line to the client. All timers are on the one
//! scheduler of the actor system.
//!
//! The clients are on a thread of their own. Most of them send requests, get answers and hang up in
//! the end; some fall silent in the middle. Those, and no others, must be timed out. Both sides
//! keep count, and at the end everything has to add up, down to the last timer.
//!
//! ```text
//! cargo run --release -p examples --example sessions -- --help
//! ```
//!
//! `--features top` before `--example` adds the live view (`-- --live`).
#![allow(clippy::disallowed_methods)]

mod clients;
mod counts;
mod machine;
mod options;
mod progress;
mod protocol;
mod random;
mod report;
mod server;
mod session;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use examples::checks::{Problem, ensure};
use examples::view::{Probe, SlowLog};
use mini_actor::ActorSystem;

use crate::counts::Counts;
use crate::options::Options;
use crate::report::Run;
use crate::server::Server;

fn main() -> Result<(), Problem> {
    let options = Options::parse();
    if let Err(problem) = options.check().and_then(|()| machine::check_file_limit(&options)) {
        Options::command().error(ErrorKind::ValueValidation, problem).exit();
    }
    let options = &options;
    let began = Instant::now();
    let counts = Arc::new(Counts::default());
    let slow = SlowLog::new();
    let on_slow = slow.hook();
    let system = ActorSystem::builder("sessions")
        .tick_duration(options.tick)
        .scheduler(|scheduler| scheduler.on_slow(on_slow))
        .build()?;
    let server = Server::start(system.system(), options, &counts)?;
    let views = options.view.open(Probe::of_system(&system).named("sessions").slow_log(&slow))?;
    println!("{options}\nThe server listens on {}.", server.address());
    progress::start(&system, &counts, views.terminal())?;

    let clients = {
        let (options, address, terminal) = (options.clone(), server.address(), views.terminal());
        thread::Builder::new()
            .name("clients".to_owned())
            .spawn(move || clients::run(address, &options, &terminal))?
    };
    let observed = clients.join().map_err(|_| "the clients' thread panicked")??;

    views.close()?;

    // Every client has seen the end of its connection, so the sessions are over and the server has
    // nobody left to talk to.
    server.stop()?;
    let before = system.scheduler().timers().metrics();
    let sessions = Run { options, counts: &counts, observed: &observed, took: began.elapsed() };
    sessions.print(&before);

    let closing = Instant::now();
    let closed = system.close()?;
    println!("Closed in {:.1?}: {closed}\n", closing.elapsed().max(Duration::from_micros(1)));
    let after = system.scheduler().timers().metrics();
    let adds_up = sessions.account(&after, &closed, &system.metrics());
    Ok(ensure(adds_up, "the account does not add up")?)
}
