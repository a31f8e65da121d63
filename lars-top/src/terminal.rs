//! A view in a terminal.

use std::io::{self, IsTerminal, Stdout, stdout};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossterm::event::{self, Event};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use crate::app::{App, Flow, View};
use crate::connect;
use crate::probe::Probe;
use crate::signals::Signals;
use crate::source::{self, Source};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};

/// The longest time between two frames, and until a key has its effect.
const FRAME: Duration = Duration::from_millis(50);

/// Shows a probe in this terminal until the user leaves the view.
///
/// A signal that ends the program (`SIGHUP`, `SIGINT`, `SIGQUIT`, `SIGTERM`) does so after the
/// terminal was given back.
///
/// # Errors
///
/// If the standard output is no terminal, or the terminal cannot be written to.
pub fn show(probe: Probe) -> io::Result<()> {
    run_alone(App::new("the first snapshot"), &source::of_probe(probe)?)
}

/// Shows the program that [serves](crate::serve) at `path` until the user leaves the view. It may
/// be started later, end, and be started again.
///
/// # Errors
///
/// If the standard output is no terminal, or the terminal cannot be written to. What is wrong with
/// the connection is shown in the view.
pub fn show_path(path: &Path) -> io::Result<()> {
    run_alone(App::new(path.display().to_string()), &connect::source(path.to_owned())?)
}

/// A view on a thread of its own, in the program that it shows.
///
/// It has the terminal until the user leaves it, or it is [closed](Self::close). What the program
/// prints meanwhile garbles the view until `Ctrl-L`; [`is_open`](Self::is_open) says when it should
/// be silent. Signals are the program's own: one that ends it leaves the terminal as the view had
/// it, so handle `SIGTERM`, and close the view there.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_top::{Live, Probe};
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let live = Live::start(Probe::new(scheduler.handle()))?;
/// while live.is_open() {
///     std::thread::sleep(Duration::from_millis(100)); // the program's work
/// }
/// live.close()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Live {
    state: Arc<State>,
    thread: Mutex<Option<JoinHandle<io::Result<()>>>>,
}

#[derive(Debug, Default)]
struct State {
    /// Asked to close.
    close: AtomicBool,
    closed: AtomicBool,
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        // Release: see `is_open`.
        self.0.store(true, Ordering::Release);
    }
}

impl Live {
    /// Opens a view.
    ///
    /// # Errors
    ///
    /// If the standard output is no terminal.
    pub fn start(probe: Probe) -> io::Result<Self> {
        check_terminal()?;
        let source = source::of_probe(probe)?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let thread = thread::Builder::new().name("lars-top".to_owned()).spawn(move || {
            // Also if the view panics. It is the last to be dropped, after the terminal was given
            // back.
            let _closed = SetOnDrop(&shared.closed);
            let asked = || shared.close.load(Ordering::Relaxed);
            run(App::new("the first snapshot"), &source, asked)
        })?;
        Ok(Self { state, thread: Mutex::new(Some(thread)) })
    }

    /// Whether the view has the terminal.
    pub fn is_open(&self) -> bool {
        // Acquire: a thread that sees the end prints after the terminal was given back.
        !self.state.closed.load(Ordering::Acquire)
    }

    /// Closes the view, if the user has not, and gives the terminal back.
    ///
    /// # Errors
    ///
    /// What went wrong with the terminal meanwhile.
    pub fn close(&self) -> io::Result<()> {
        // Relaxed: nothing else is passed on by it.
        self.state.close.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.lock().take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the view panicked")))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// The terminal in its mode for views, until this is dropped. (No panic hook gives it back: the
/// watched program may contain panics, and the view goes on.)
struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    fn new() -> io::Result<Self> {
        check_terminal()?;
        enable_raw_mode()?;
        let screen = Self { terminal: Terminal::new(CrosstermBackend::new(stdout()))? };
        execute!(stdout(), EnterAlternateScreen)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(stdout(), LeaveAlternateScreen);
        let _ = self.terminal.show_cursor();
        let _ = disable_raw_mode();
    }
}

fn check_terminal() -> io::Result<()> {
    if stdout().is_terminal() && io::stdin().is_terminal() {
        return Ok(());
    }
    Err(io::Error::other("the view needs a terminal, but standard input or output is not one"))
}

/// Runs a view that is all that the program does.
pub(crate) fn run_alone<V: View>(view: V, source: &Source<V::News>) -> io::Result<()> {
    let signals = Signals::catch()?;
    let result = run(view, source, || signals.came());
    signals.obey();
    result
}

/// Runs a view until its user leaves it, it is asked to close, or the terminal is gone.
fn run<V: View>(
    mut view: V,
    source: &Source<V::News>,
    asked_to_close: impl Fn() -> bool,
) -> io::Result<()> {
    let mut screen = Screen::new()?;
    while !asked_to_close() {
        // A terminal that was closed would otherwise be asked for keys without a pause.
        check_terminal()?;
        source.news().for_each(|news| view.tell(news));
        screen.terminal.draw(|frame| view.draw(frame))?;
        if event::poll(FRAME)? {
            // All that have come, before the next frame.
            loop {
                if let Event::Key(key) = event::read()? {
                    match view.press(key) {
                        Flow::On => {}
                        Flow::Redraw => screen.terminal.clear()?,
                        Flow::Quit => return Ok(()),
                    }
                }
                if !event::poll(Duration::ZERO)? {
                    break;
                }
            }
        }
    }
    Ok(())
}
