//! A view in a terminal.

use std::io;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossterm::event::{self, Event};

use crate::app::{App, Flow, View};
use crate::connect;
use crate::probe::Probe;
use crate::screen::{Screen, check_terminal, key_came};
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
    run(App::new("the first snapshot"), &source::of_probe(probe)?, || false)
}

/// Shows the program that [serves](crate::serve) at `path` until the user leaves the view. It may
/// be started later, end, and be started again.
///
/// # Errors
///
/// If the standard output is no terminal, or the terminal cannot be written to. What is wrong with
/// the connection is shown in the view.
pub fn show_path(path: &Path) -> io::Result<()> {
    run(App::new(path.display().to_string()), &connect::source(path.to_owned())?, || false)
}

/// A view on a thread of its own, in the program that it shows.
///
/// It has the terminal until the user leaves it, or it is [closed](Self::close). What the program
/// prints meanwhile garbles the view until `Ctrl-L`; [`is_open`](Self::is_open) says when it should
/// be silent.
///
/// Whatever ends the program gives the terminal back first: [`exit`](std::process::exit), a panic,
/// `SIGHUP`, `SIGINT`, `SIGQUIT` or `SIGTERM`. (Not `abort` and `SIGKILL`; elsewhere than on Unix,
/// only a panic.) Signals that the program handles, now or later, stay its own.
///
/// A panic's message is printed to the terminal as if there were no view, which comes back after a
/// moment. A panic hook that the program sets later has to call the one before for that.
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
        let source = source::of_probe(probe)?;
        Self::open(App::new("the first snapshot"), source)
    }

    fn open<V: View + Send + 'static>(view: V, source: Source<V::News>) -> io::Result<Self> {
        check_terminal()?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let thread = thread::Builder::new().name("lars-top".to_owned()).spawn(move || {
            // Also if the view panics. It is the last to be dropped, after the terminal was given
            // back.
            let _closed = SetOnDrop(&shared.closed);
            let asked = || shared.close.load(Ordering::Relaxed);
            run(view, &source, asked)
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

/// Runs a view until its user leaves it, it is asked to close, or the terminal is gone. A signal
/// that ends the program does so after the terminal was given back.
pub(crate) fn run<V: View>(
    view: V,
    source: &Source<V::News>,
    asked_to_close: impl Fn() -> bool,
) -> io::Result<()> {
    let (screen, signals) = Screen::new()?;
    let result = run_until(screen, view, source, || asked_to_close() || signals.came());
    signals.obey();
    result
}

fn run_until<V: View>(
    mut screen: Screen,
    mut view: V,
    source: &Source<V::News>,
    end: impl Fn() -> bool,
) -> io::Result<()> {
    while !end() {
        source.news().for_each(|news| view.tell(news));
        screen.draw(|frame| view.draw(frame))?;
        if !key_came(FRAME)? {
            continue;
        }
        // All that have come, before the next frame.
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()? {
                match view.press(key) {
                    Flow::On => {}
                    Flow::Redraw => screen.clear()?,
                    Flow::Quit => return Ok(()),
                }
            }
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
#[allow(clippy::disallowed_methods)]
mod tests {
    use crossterm::event::KeyEvent;
    use ratatui::Frame;

    use super::*;
    use crate::tests_pty::Terminal;

    const VARIABLE: &str = "LARS_TOP_TEST_PROGRAM";

    struct Panics;

    impl View for Panics {
        type News = ();
        fn tell(&mut self, (): ()) {}
        fn press(&mut self, _: KeyEvent) -> Flow {
            Flow::On
        }
        fn draw(&self, _: &mut Frame<'_>) {
            panic!("the view cannot be drawn");
        }
    }

    /// Started by itself it does nothing; by the test below, it has a view that panics.
    #[test]
    fn a_program_for_other_tests_does_nothing_by_itself() {
        if std::env::var_os(VARIABLE).is_none() {
            return;
        }
        let source = Source::start(|outlet| while outlet.send(()) {}).unwrap();
        let live = Live::open(Panics, source).unwrap();
        while live.is_open() {
            thread::sleep(Duration::from_millis(5));
        }
        println!("the loop ended");
        println!("{}", live.close().unwrap_err());
    }

    #[test]
    fn a_view_that_panics_is_open_no_longer_and_its_message_is_read() {
        let own = std::env::current_exe().unwrap();
        let arguments = [
            "--exact",
            "terminal::tests::a_program_for_other_tests_does_nothing_by_itself",
            "--nocapture",
        ];
        let variables = [(VARIABLE, "panics"), ("RUST_BACKTRACE", "0")];
        let terminal = Terminal::start_with(own.to_str().unwrap(), &arguments, &variables);
        let (code, screen) = terminal.end();
        assert_eq!(code, 0, "{screen}");
        for text in ["the view cannot be drawn", "the loop ended", "the view panicked"] {
            assert!(screen.contains(text), "{text} is missing:\n{screen}");
        }
    }
}
