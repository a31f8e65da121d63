//! The terminal in its mode for views, and that it is given back, whatever ends the view.
//!
//! A panic's message would be lost with the alternate screen, or garble the view. So the terminal
//! is the program's while a message is printed, and for a moment after it, because the panic may
//! end the program.

use std::cell::Cell;
use std::io::{self, IsTerminal, Stdout, stderr, stdin, stdout};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::panic;
use std::time::{Duration, Instant};

use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
#[cfg(unix)]
use nix::errno::Errno;
#[cfg(unix)]
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

use crate::signals::Signals;
use crate::sync::{Once, ReentrantMutex, now};

/// How long the terminal stays the program's after a panic's message.
const MOMENT: Duration = Duration::from_millis(700);
/// How long whoever wants the terminal back waits for a frame that is being written. (A terminal
/// that is stopped takes none.)
const PATIENCE: Duration = Duration::from_secs(1);

/// Whose the terminal is. Held by the view while it writes, and by whoever changes it. Reentrant:
/// the view may panic while it writes.
static OWNER: ReentrantMutex<Cell<Owner>> = ReentrantMutex::new(Cell::new(Owner::Program));

#[derive(Debug, Clone, Copy)]
enum Owner {
    /// There is no view.
    Program,
    View,
    /// There is a view, which waits until so many messages are printed, and a moment more.
    Lent {
        messages: usize,
        since: Instant,
    },
}

/// A view's hold on the terminal, until this is dropped. There is one in a process.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal. When the screen was dropped, the signals that came have to be obeyed.
    pub(crate) fn new() -> io::Result<(Self, Signals)> {
        check_terminal()?;
        prepare_for_ends();
        let owner = OWNER.lock();
        if !matches!(owner.get(), Owner::Program) {
            return Err(io::Error::other("another view of this process has the terminal"));
        }
        let screen = Self { terminal: Terminal::new(CrosstermBackend::new(stdout()))? };
        owner.set(Owner::View);
        let signals = Signals::catch()?;
        enter()?;
        Ok((screen, signals))
    }

    /// Draws a frame, unless the terminal is the program's just now.
    pub(crate) fn draw(&mut self, frame: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let owner = OWNER.lock();
        match owner.get() {
            Owner::View => {}
            Owner::Lent { messages: 0, since } if since.elapsed() >= MOMENT => {
                enter()?;
                owner.set(Owner::View);
                self.begin_anew()?;
            }
            Owner::Lent { .. } => return Ok(()),
            Owner::Program => return Err(io::Error::other("the program has ended")),
        }
        self.terminal.draw(frame).map(drop)
    }

    /// Everything is drawn anew with the next frame.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        let owner = OWNER.lock();
        if matches!(owner.get(), Owner::View) { self.begin_anew() } else { Ok(()) }
    }

    /// Not by `Terminal::clear`, which asks the terminal where its cursor is, and fails where that
    /// is not answered.
    fn begin_anew(&mut self) -> io::Result<()> {
        execute!(stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let owner = OWNER.lock();
        if matches!(owner.replace(Owner::Program), Owner::View) {
            leave();
        }
    }
}

/// Waits for a key, so long at most. The system is asked, because crossterm would read from a
/// terminal that is gone again and again, and never return.
#[cfg(unix)]
pub(crate) fn key_came(wait: Duration) -> io::Result<bool> {
    let input = stdin();
    let mut keys = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    match poll(&mut keys, PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)) {
        Ok(0) | Err(Errno::EINTR) => Ok(false),
        Ok(_) if keys[0].revents() == Some(PollFlags::POLLIN) => Ok(true),
        Ok(_) => Err(io::Error::other("the terminal is gone")),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
pub(crate) fn key_came(wait: Duration) -> io::Result<bool> {
    crossterm::event::poll(wait)
}

/// Fails if this is no terminal.
pub(crate) fn check_terminal() -> io::Result<()> {
    if stdout().is_terminal() && stdin().is_terminal() {
        return Ok(());
    }
    Err(io::Error::other("the view needs a terminal, but standard input or output is not one"))
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen)
}

fn leave() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// From now on messages of panics are printed where they can be read, and an exit gives the
/// terminal back.
fn prepare_for_ends() {
    static ONCE: Once = Once::new();
    // A thread that panics must not change the hook.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            let lent = stderr().is_terminal() && lend();
            before(about);
            if lent {
                end_loan();
            }
        }));
        #[cfg(unix)]
        at_exit();
    });
}

/// Gives the terminal to the program for a message, if a view has it.
fn lend() -> bool {
    let Some(owner) = OWNER.try_lock_for(PATIENCE) else { return false };
    let others = match owner.get() {
        Owner::Program => return false,
        Owner::View => {
            leave();
            0
        }
        Owner::Lent { messages, .. } => messages,
    };
    owner.set(Owner::Lent { messages: others + 1, since: now() });
    true
}

fn end_loan() {
    let Some(owner) = OWNER.try_lock_for(PATIENCE) else { return };
    // The hook may have ended the view.
    if let Owner::Lent { messages, .. } = owner.get() {
        owner.set(Owner::Lent { messages: messages.saturating_sub(1), since: now() });
    }
}

#[cfg(unix)]
fn at_exit() {
    extern "C" fn give_back() {
        let Some(owner) = OWNER.try_lock_for(PATIENCE) else { return };
        if matches!(owner.replace(Owner::Program), Owner::View) {
            leave();
        }
    }
    // SAFETY: `give_back` may be called from any thread, at any time, and does not unwind. If there
    // is no room for it, an exit leaves the terminal as the view had it.
    unsafe { nix::libc::atexit(give_back) };
}
