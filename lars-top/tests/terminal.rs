//! The program in a real terminal, with keys: it is started on a pseudo-terminal whose output a
//! terminal emulator understands.
#![cfg(unix)]
#![allow(missing_docs, clippy::disallowed_methods)]

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lars_scheduler::{LightArrayRevolverScheduler, Task};
use lars_top::{Probe, Server, serve};
use portable_pty::{Child, CommandBuilder, PtySize, native_pty_system};

/// Longer than any machine stands still.
const LONG: Duration = Duration::from_secs(120);
const HOUR: Duration = Duration::from_secs(3600);

/// What is on the screen, and whether there will be more.
struct Output {
    screen: Mutex<(vt100::Parser, bool)>,
    changed: Condvar,
}

struct Terminal {
    output: Arc<Output>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
}

impl Terminal {
    fn start(arguments: &[&str]) -> Self {
        let size = PtySize { rows: 40, cols: 120, ..PtySize::default() };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_lars-top"));
        command.args(arguments);
        command.env("TERM", "xterm-256color");
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
            let _master = pair.master;
            let mut bytes = [0; 4096];
            // The end of the program is an error on some systems.
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                shown.screen.lock().unwrap().0.process(&bytes[..read]);
                shown.changed.notify_all();
            }
            shown.screen.lock().unwrap().1 = true;
            shown.changed.notify_all();
        });
        Self { output, keys, child }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until the screen is as it should be.
    fn until(&self, what: &str, good: impl Fn(&str) -> bool) {
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

    fn shows(&self, text: &str) {
        self.shows_without(text, None);
    }

    fn shows_no(&self, text: &str) {
        self.until(&format!("a screen without {text}"), |screen| !screen.contains(text));
    }

    /// A frame comes piece by piece: what belongs together is waited for together.
    fn shows_all<const N: usize>(&self, texts: [&str; N]) {
        let all = |screen: &str| texts.iter().all(|text| screen.contains(text));
        self.until(&format!("{texts:?}"), all);
    }

    fn shows_without(&self, text: &str, without: Option<&str>) {
        let what = format!("{text} without {without:?}");
        let good = |screen: &str| {
            screen.contains(text) && without.is_none_or(|without| !screen.contains(without))
        };
        self.until(&what, good);
    }

    /// Waits for the end; returns the exit code and what is left on the screen.
    fn end(mut self) -> (u32, String) {
        let code = self.child.wait().unwrap().exit_code();
        let begin = Instant::now();
        let mut screen = self.output.screen.lock().unwrap();
        while !screen.1 {
            assert!(begin.elapsed() < LONG, "the terminal stays open");
            screen = self.output.changed.wait_timeout(screen, LONG / 10).unwrap().0;
        }
        (code, screen.0.screen().contents())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("lars-top-tty-{name}-{}", std::process::id()))
}

/// A program with timers of two names.
fn served(path: &PathBuf, program: &str) -> (LightArrayRevolverScheduler, Server) {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    for (name, count) in [("idle timeout", 700), ("heartbeat", 30)] {
        for _ in 0..count {
            scheduler.schedule_once(HOUR, Task::new(|| ()).named(name)).unwrap();
        }
    }
    let server = serve(path, Probe::new(scheduler.handle()).named(program)).unwrap();
    (scheduler, server)
}

#[test]
fn every_key_does_what_the_help_says() {
    let path = socket("keys");
    let (scheduler, _server) = served(&path, "gateway");
    let mut terminal = Terminal::start(&[path.to_str().unwrap()]);
    terminal.shows_all(["idle timeout", "gateway", "Lateness, last 10 s", "q quit"]);

    terminal.press("h");
    terminal.shows("quit the view; the program goes on");
    terminal.press("h");
    terminal.shows_no("quit the view");

    terminal.press("2");
    terminal.shows("How full its slots are");
    terminal.press("\t");
    terminal.shows_all(["730 pending", "by pending"]);
    terminal.press("s");
    terminal.shows("by first due");

    terminal.press("/heart");
    terminal.shows("filter: heart");
    terminal.press("\r");
    terminal.shows_all(["only “heart”", "heartbeat"]);
    terminal.shows_without("heartbeat", Some("idle timeout"));
    terminal.press("\x1b");
    terminal.shows("idle timeout");

    for (key, title) in [("4", "None so far"), ("5", "not given a system"), ("6", "Executor")] {
        terminal.press(key);
        terminal.shows(title);
    }

    // Paused: what is scheduled from now on is not seen until the view goes on. (That it is not
    // seen for a while needs no luck with the time: a snapshot that is left out is never shown.)
    terminal.press("3p");
    terminal.shows_all(["PAUSED", "730 pending"]);
    scheduler.schedule_once(HOUR, Task::new(|| ()).named("a late one")).unwrap();
    terminal.press("1");
    terminal.shows("Most pending");
    terminal.press("3");
    terminal.shows_without("730 pending", Some("a late one"));
    terminal.press("p");
    terminal.shows_all(["a late one", "731 pending"]);

    terminal.press("q");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0);
    // The terminal is as it was.
    assert!(!screen.contains("pending"), "{screen}");
}

#[test]
fn a_program_that_ends_is_missed_and_one_that_comes_back_is_found_again() {
    let path = socket("restart");
    let mut terminal = Terminal::start(&[path.to_str().unwrap()]);
    terminal.shows("there is no such socket");
    let (scheduler, server) = served(&path, "first-life");
    terminal.shows("first-life");
    drop((server, scheduler));
    terminal.shows("NO CONNECTION");
    // What it showed last is still there.
    terminal.shows("idle timeout");
    let (_scheduler, _server) = served(&path, "second-life");
    terminal.shows("second-life");
    terminal.shows_no("NO CONNECTION");
    terminal.press("\x03");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_path_that_is_no_socket_is_called_by_what_it_is() {
    let path = socket("file");
    std::fs::write(&path, "text").unwrap();
    let mut terminal = Terminal::start(&[path.to_str().unwrap()]);
    terminal.shows("this is not a socket");
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn another_language_and_another_version_are_named() {
    let path = socket("version");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let answers = thread::spawn(move || {
        for answer in ["hello\n", "{\"snapshot\":{\"version\":7,\"new\":[]}}\n"].iter().cycle() {
            let (mut socket, _) = listener.accept().unwrap();
            // Who connects and asks for nothing ends this.
            if socket.read_exact(&mut [0; 10]).is_err() {
                return;
            }
            let _ = socket.write_all(answer.as_bytes());
        }
    });
    let mut terminal = Terminal::start(&[path.to_str().unwrap()]);
    terminal.shows("does not send snapshots");
    terminal.shows("makes snapshots of version 7");
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
    drop(std::os::unix::net::UnixStream::connect(&path).unwrap());
    answers.join().unwrap();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn without_a_path_or_a_terminal_it_says_what_it_needs() {
    let (code, screen) = Terminal::start(&[]).end();
    assert!(code == 2 && screen.contains("one path is expected, and 0 were given"), "{screen}");
    let (code, screen) = Terminal::start(&["--help"]).end();
    assert!(code == 0 && screen.contains("Usage: lars-top PATH"), "{screen}");
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_lars-top"));
    let output = program.arg("/nowhere").stdin(std::process::Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("needs a terminal"), "{text}");
}
