//! Game time is virtual time that each frame advances. It can be paused, slowed down or sped up,
//! and a recorded game replays exactly.
//!
//! ```sh
//! cargo run --release -p examples --example game_loop
//! ```
//!
//! A tower shoots every 400 ms of game time, and a spell ends after two seconds. The game runs at
//! 60 frames a second, with a pause and a stretch of slow motion. The same input gives the same
//! log, whatever the machine does.

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use examples::checks::{Problem, verify};
use lars_scheduler::LightArrayRevolverScheduler;

const FRAME: Duration = Duration::from_nanos(16_666_667);
const RELOAD: Duration = Duration::from_millis(400);
const SPELL: Duration = Duration::from_secs(2);

const SHOT: &str = "the tower shoots";
const END: &str = "the spell ends";

/// What a player did in a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Input {
    Plays,
    Pauses,
    /// A quarter of the speed.
    SlowMotion,
}

fn main() -> Result<(), Problem> {
    // The recorded input: a second of play, a pause, slow motion, and normal speed again.
    let inputs: Vec<_> =
        [(60, Input::Plays), (600, Input::Pauses), (120, Input::SlowMotion), (60, Input::Plays)]
            .into_iter()
            .flat_map(|(frames, input)| std::iter::repeat_n(input, frames))
            .collect();

    let log = play(&inputs)?;
    for (at, what) in &log {
        println!("{:>6.1} ms  {what}", at.as_secs_f64() * 1e3);
    }
    println!();

    let times = |event| log.iter().filter(move |(_, what)| *what == event).map(|(at, _)| *at);
    let reloads = (1..=6).map(|shot| shot * RELOAD);
    verify(&[
        ("the tower shot every 400 ms of game time, and not during the pause", {
            times(SHOT).eq(reloads)
        }),
        ("the spell ended after two seconds, to the nanosecond", times(END).eq([SPELL])),
        ("a replay of the same input gave the same log", play(&inputs)? == log),
    ])?;
    Ok(())
}

/// Plays the whole game and returns what happened when, in game time.
fn play(inputs: &[Input]) -> Result<Vec<(Duration, &'static str)>, Box<dyn Error>> {
    let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    let (events, log) = mpsc::channel();
    let start = time.now();
    let note = |what| {
        let (clock, events) = (time.handle(), events.clone());
        // A task sees its exact deadline, even in the middle of a frame.
        move || events.send((clock.now() - start, what)).expect("the game is still played")
    };
    let tower = time.schedule_at_fixed_rate(RELOAD, RELOAD, note(SHOT))?;
    time.schedule_once(SPELL, note(END))?;
    for input in inputs {
        // A real loop waits for the screen here, and draws after this.
        match input {
            Input::Plays => time.advance(FRAME),
            Input::SlowMotion => time.advance(FRAME / 4),
            Input::Pauses => 0, // the world stands still, and costs nothing
        };
    }
    tower.cancel();
    Ok(log.try_iter().collect())
}
