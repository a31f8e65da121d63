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
use crate::source::{self, Source};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};

/// The longest time between two frames, and until a key has its effect.
const FRAME: Duration = Duration::from_millis(50);

/// Shows a probe in this terminal until the user leaves the view.
///
/// # Errors
///
/// If the standard output is no terminal, or the terminal cannot be written to.
pub fn show(probe: Probe) -> io::Result<()> {
    let app = App::new("the first snapshot");
    run(app, &source::of_probe(probe)?, &AtomicBool::new(false))
}

/// Shows the program that [serves](crate::serve) at `path` until the user leaves the view. It may
/// be started later, end, and be started again.
///
/// # Errors
///
/// If the standard output is no terminal, or the terminal cannot be written to. What is wrong with
/// the connection is shown in the view.
pub fn show_path(path: &Path) -> io::Result<()> {
    let app = App::new(path.display().to_string());
    run(app, &connect::source(path.to_owned())?, &AtomicBool::new(false))
}

/// A view on a thread of its own, in the program that it shows.
///
/// It has the terminal until the user leaves it, or it is [closed](Self::close). What the program
/// prints meanwhile garbles the view until `Ctrl-L`; [`is_open`](Self::is_open) says when it should
/// be silent.
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
            let result = run(App::new("the first snapshot"), &source, &shared.close);
            shared.closed.store(true, Ordering::Release);
            result
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

pub(crate) fn run<V: View>(
    mut view: V,
    source: &Source<V::News>,
    close: &AtomicBool,
) -> io::Result<()> {
    let mut screen = Screen::new()?;
    while !close.load(Ordering::Relaxed) {
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
