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

use examples::checks::Problem;
use lars_scheduler::LightArrayRevolverScheduler;

const FRAME: Duration = Duration::from_nanos(16_666_667);

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
    assert_eq!(log, play(&inputs)?, "a replay is exact");
    let spell = log.iter().find(|(_, what)| *what == "the spell ends").expect("it ends");
    assert_eq!(spell.0, Duration::from_secs(2), "to the nanosecond, in game time");
    let shots = log.iter().filter(|(_, what)| *what == "the tower shoots").count();
    assert_eq!(shots, 6, "after 0.4, 0.8, … 2.4 s; none during the pause");
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
    let reload = Duration::from_millis(400);
    let tower = time.schedule_at_fixed_rate(reload, reload, note("the tower shoots"))?;
    time.schedule_once(Duration::from_secs(2), note("the spell ends"))?;
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
