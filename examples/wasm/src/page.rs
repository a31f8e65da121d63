//! A web page: a clock, a search field that waits until nobody types any more, and an actor. The
//! page's own `setTimeout` turns the scheduler, so nothing runs while nothing is due.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::time::Duration;

use lars_jobs::debounce::Debounce;
use lars_scheduler::LightArrayRevolverScheduler;
use lars_scheduler::browser::{self, BrowserScheduler, Host};
use mini_actor::{Actor, ActorSystem, Context};

/// What `host.mjs` has for this module.
mod host {
    #[link(wasm_import_module = "host")]
    unsafe extern "C" {
        /// `performance.now()`, in milliseconds.
        pub(super) safe fn now() -> f64;
        /// `Date.now()`, in milliseconds.
        pub(super) safe fn since_epoch() -> f64;
        /// `setTimeout`, which then calls `turn` with this number.
        pub(super) safe fn call_turn(milliseconds: f64, call: u32);
    }
}

fn milliseconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number / 1000.0).unwrap_or_default()
}

const HOST: Host = Host {
    now: || milliseconds(host::now()),
    since_epoch: || milliseconds(host::since_epoch()),
    call_turn: |delay, call| host::call_turn(delay.as_secs_f64() * 1000.0, call),
};

#[unsafe(no_mangle)]
pub extern "C" fn turn(call: u32) {
    browser::turn(call);
}

thread_local! {
    static PAGE: RefCell<Option<Page>> = const { RefCell::new(None) };
    static SHOWN: [Cell<u32>; 6] = const { [const { Cell::new(0) }; 6] };
}

const TICKS: usize = 0;
const SEARCHES: usize = 1;
const SEARCHED_FOR: usize = 2;
const HEARD: usize = 3;
const SILENT: usize = 4;
const EARLY: usize = 5;

fn show(number: usize, change: impl FnOnce(u32) -> u32) {
    SHOWN.with(|shown| shown[number].set(change(shown[number].get())));
}

/// Hears each search, and says when there was none for a second.
struct Librarian;

#[derive(Clone)]
enum Heard {
    Search,
    Silence,
}

impl Actor for Librarian {
    type Message = Heard;

    fn receive(&mut self, heard: Heard, ctx: &mut Context<Self>) {
        match heard {
            Heard::Search => {
                show(HEARD, |number| number + 1);
                // The same key: this one takes the place of the last.
                let second = Duration::from_secs(1);
                let _ = ctx.timers().start_single("silence", second, Heard::Silence);
            }
            Heard::Silence => show(SILENT, |number| number + 1),
        }
    }
}

struct Page {
    // In the order in which they are dropped.
    search: Debounce<u32>,
    actors: ActorSystem,
    timers: BrowserScheduler,
}

fn open() -> Result<Page, Box<dyn Error>> {
    let timers = LightArrayRevolverScheduler::builder().build_browser(HOST)?;
    let actors = ActorSystem::builder("page").build_turned(&timers)?;
    let librarian = actors.spawn("librarian", || Librarian)?;
    let tick = Duration::from_millis(100);
    let (begin, clock) = (timers.now(), timers.handle());
    let _ = timers.schedule_at_fixed_rate(tick, tick, move || {
        show(TICKS, |number| number + 1);
        let ticks = SHOWN.with(|shown| shown[TICKS].get());
        show(EARLY, |number| number + u32::from(clock.now() - begin < tick * ticks));
    })?;
    let search = Debounce::new(&timers, Duration::from_millis(200), move |length: u32| {
        show(SEARCHES, |number| number + 1);
        show(SEARCHED_FOR, |_| length);
        let _ = librarian.tell(Heard::Search);
    })?;
    Ok(Page { search, actors, timers })
}

/// Begins. Returns 1, or 0 if something was refused.
#[unsafe(no_mangle)]
pub extern "C" fn page_open() -> u32 {
    let page = open().ok();
    let is_open = page.is_some();
    PAGE.set(page);
    is_open.into()
}

/// Somebody types. Returns 1, or 0 if the search was refused.
#[unsafe(no_mangle)]
pub extern "C" fn page_typed(length: u32) -> u32 {
    PAGE.with_borrow(|page| page.as_ref().is_some_and(|it| it.search.call(length).is_ok())).into()
}

/// What the page shows: ticks, searches, the length that was searched for last, searches that the
/// actor has heard, its silences, and ticks that were early.
#[unsafe(no_mangle)]
pub extern "C" fn page_shows(number: u32) -> u32 {
    SHOWN.with(|shown| shown.get(number as usize).map_or(0, Cell::get))
}

/// Ends. Returns how many actors are left: 0.
#[unsafe(no_mangle)]
pub extern "C" fn page_close() -> u32 {
    let Some(page) = PAGE.take() else { return 0 };
    drop(page.search);
    let left = page.actors.close().map_or_else(|error| error.report.running.len(), |_| 0);
    drop(page.timers);
    left as u32
}
