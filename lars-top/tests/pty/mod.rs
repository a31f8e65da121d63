//! A program on a pseudo-terminal whose output a terminal emulator understands.
#![allow(dead_code, unreachable_pub, clippy::disallowed_methods)]

use std::io::{Read, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};

/// Longer than any machine stands still.
const LONG: Duration = Duration::from_secs(120);

/// What is on the screen, and whether there will be more.
struct Output {
    screen: Mutex<(vt100::Parser, bool)>,
    changed: Condvar,
}

pub struct Terminal {
    output: Arc<Output>,
    keys: Box<dyn Write + Send>,
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
}

impl Terminal {
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        Self::start_with(program, arguments, &[])
    }

    /// With these variables in its environment.
    pub fn start_with(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let size = PtySize { rows: 40, cols: 120, ..PtySize::default() };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        for (name, value) in variables {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let (mut reader, keys) =
            (pair.master.try_clone_reader().unwrap(), pair.master.take_writer().unwrap());
        let (rows, columns) = (size.rows.try_into().unwrap(), size.cols.try_into().unwrap());
        let output = Arc::new(Output {
            screen: Mutex::new((vt100::Parser::new(rows, columns, 0), false)),
            changed: Condvar::new(),
        });
        let shown = Arc::clone(&output);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of the program is an error on some systems.
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                shown.screen.lock().unwrap().0.process(&bytes[..read]);
                shown.changed.notify_all();
            }
            shown.screen.lock().unwrap().1 = true;
            shown.changed.notify_all();
        });
        Self { output, keys, master: pair.master, child }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until the screen is as it should be.
    pub fn until(&self, what: &str, good: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        let mut screen = self.output.screen.lock().unwrap();
        loop {
            let text = screen.0.screen().contents();
            if good(&text) {
                return;
            }
            assert!(!screen.1, "the program has ended, but {what} was expected:\n{text}");
            assert!(begin.elapsed() < LONG, "{what} did not come:\n{text}");
            screen = self.output.changed.wait_timeout(screen, LONG / 10).unwrap().0;
        }
    }

    pub fn shows(&self, text: &str) {
        self.shows_without(text, None);
    }

    pub fn shows_no(&self, text: &str) {
        self.until(&format!("a screen without {text}"), |screen| !screen.contains(text));
    }

    /// A frame comes piece by piece: what belongs together is waited for together.
    pub fn shows_all<const N: usize>(&self, texts: [&str; N]) {
        let all = |screen: &str| texts.iter().all(|text| screen.contains(text));
        self.until(&format!("{texts:?}"), all);
    }

    pub fn shows_without(&self, text: &str, without: Option<&str>) {
        let what = format!("{text} without {without:?}");
        let good = |screen: &str| {
            screen.contains(text) && without.is_none_or(|without| !screen.contains(without))
        };
        self.until(&what, good);
    }

    /// What is wrong with the modes of a terminal that no view has: `None` if nothing is.
    fn left_over(&self) -> Option<String> {
        let screen = self.output.screen.lock().unwrap();
        let screen = screen.0.screen();
        let modes = self.master.get_termios().map(|it| it.local_flags.bits());
        let wanted = nix::libc::ICANON | nix::libc::ECHO | nix::libc::ISIG;
        let raw = modes.is_none_or(|it| it & wanted != wanted);
        let left = [
            (screen.alternate_screen(), "the alternate screen"),
            (screen.hide_cursor(), "a hidden cursor"),
            (raw, "raw mode"),
        ];
        left.iter().find(|(is_left, _)| *is_left).map(|(_, what)| (*what).to_owned())
    }

    /// Whether the view's screen is shown.
    pub fn is_alternate(&self) -> bool {
        self.output.screen.lock().unwrap().0.screen().alternate_screen()
    }

    pub fn signal(&self, signal: Signal) {
        let process = self.child.process_id().unwrap().try_into().unwrap();
        kill(Pid::from_raw(process), signal).unwrap();
    }

    /// Waits for the end; returns the exit code and what is left on the screen.
    pub fn end(self) -> (u32, String) {
        let (status, screen) = self.ended();
        (status.exit_code(), screen)
    }

    /// The same, with the name of the signal that ended the program.
    pub fn end_by_signal(self) -> (Option<String>, String) {
        let (status, screen) = self.ended();
        (status.signal().map(str::to_owned), screen)
    }

    fn ended(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let begin = Instant::now();
        let mut screen = self.output.screen.lock().unwrap();
        while !screen.1 {
            assert!(begin.elapsed() < LONG, "the terminal stays open");
            screen = self.output.changed.wait_timeout(screen, LONG / 10).unwrap().0;
        }
        let contents = screen.0.screen().contents();
        drop(screen);
        assert_eq!(self.left_over(), None, "the program has left it behind:\n{contents}");
        (status, contents)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
