//! Timers where there is neither a clock nor a thread: in a browser, or any other host of
//! `wasm32-unknown-unknown`.
//!
//! - Here: a game. The host says with each frame how much time has passed.
//! - `page`: a web page. The host's own timers turn the scheduler.
//! - `systems`: debounce, futures, queues and actors in virtual time.
//!
//! `run.mjs` runs all of it with Node, and checks what ran. `ci/browser.sh` opens `page.html` in
//! Chromium.
//!
//! ```text
//! cargo build --release --target wasm32-unknown-unknown --manifest-path examples/wasm/Cargo.toml
//! node examples/wasm/run.mjs examples/wasm/target/wasm32-unknown-unknown/release/wasm.wasm
//! ```

mod page;
mod systems;

use std::cell::Cell;
use std::time::Duration;

use lars_scheduler::{LightArrayRevolverScheduler, VirtualTime};
use mini_actor::test_kit::TestKit;
use mini_actor::{Actor, Context};

thread_local! {
    static GAME: Cell<Option<Game>> = const { Cell::new(None) };
    /// How often the timers below have fired.
    static FIRED: [Cell<u32>; 3] = const { [const { Cell::new(0) }; 3] };
}

struct Game {
    time: VirtualTime,
    actors: TestKit,
}

struct Tower;

impl Actor for Tower {
    type Message = ();

    fn receive(&mut self, (): (), _ctx: &mut Context<Self>) {
        count(2);
    }
}

fn count(timer: usize) {
    FIRED.with(|fired| fired[timer].set(fired[timer].get() + 1));
}

/// Starts the game: a spell after 50 ms, a tower that shoots every 20, and one that is an actor.
/// Returns 1, or 0 if something was refused.
#[unsafe(no_mangle)]
pub extern "C" fn start() -> u32 {
    let begin = || -> Result<Game, Box<dyn std::error::Error>> {
        let ms = Duration::from_millis;
        let time = LightArrayRevolverScheduler::builder().build_virtual()?;
        let _ = time.schedule_once(ms(50), || count(0))?;
        let _ = time.schedule_at_fixed_rate(ms(20), ms(20), || count(1))?;
        let actors = TestKit::new("game")?;
        let tower = actors.spawn("tower", || Tower)?;
        let _ = actors.scheduler().schedule_at_fixed_rate(ms(20), ms(20), &tower, ())?;
        Ok(Game { time, actors })
    };
    let game = begin().ok();
    let is_there = game.is_some();
    GAME.set(game);
    is_there.into()
}

/// Lets `milliseconds` pass. Returns how many timers are pending then.
#[unsafe(no_mangle)]
pub extern "C" fn frame(milliseconds: f64) -> u32 {
    let Some(game) = GAME.take() else { return 0 };
    let passed = Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default();
    game.time.advance(passed);
    game.actors.advance(passed);
    let pending = game.time.pending();
    GAME.set(Some(game));
    pending as u32
}

/// How often a timer has fired: 0 is the spell, 1 the tower, 2 the actor.
#[unsafe(no_mangle)]
pub extern "C" fn fired(timer: u32) -> u32 {
    FIRED.with(|fired| fired.get(timer as usize).map_or(0, Cell::get))
}

/// Ends the game. Returns how many timers `close` ended.
#[unsafe(no_mangle)]
pub extern "C" fn end() -> u32 {
    let Some(game) = GAME.take() else { return 0 };
    game.time.close().map_or(0, |report| (report.ran + report.repeats_ended) as u32)
}
