//! The program in a real terminal, with keys: it is started on a pseudo-terminal whose output a
//! terminal emulator understands.
#![cfg(unix)]
#![allow(missing_docs, clippy::disallowed_methods)]

use crate::pty;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use lars_scheduler::{LightArrayRevolverScheduler, Task};
use lars_top::{Probe, Server, serve};
use nix::sys::signal::Signal;
use pty::Terminal;

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) const SIGNALS: [(Signal, &str); 4] = [
    (Signal::SIGTERM, "Terminated"),
    (Signal::SIGHUP, "Hangup"),
    (Signal::SIGINT, "Interrupt"),
    (Signal::SIGQUIT, "Quit"),
];

fn start(arguments: &[&str]) -> Terminal {
    Terminal::start(env!("CARGO_BIN_EXE_lars-top"), arguments)
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
    let mut terminal = start(&[path.to_str().unwrap()]);
    terminal.shows_all(["idle timeout", "gateway", "Lateness, ", "q quit"]);

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

    let others = [
        ("4", "None so far"),
        ("5", "`Builder::explain_late`"),
        ("6", "not given a system"),
        ("7", "Executor"),
    ];
    for (key, title) in others {
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
    let mut terminal = start(&[path.to_str().unwrap()]);
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
    let mut terminal = start(&[path.to_str().unwrap()]);
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
    let mut terminal = start(&[path.to_str().unwrap()]);
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
    let (code, screen) = start(&[]).end();
    assert!(code == 2 && screen.contains("one path is expected, and 0 were given"), "{screen}");
    let (code, screen) = start(&["--follow"]).end();
    assert!(code == 2 && screen.contains("there is no option --follow"), "{screen}");
    let (code, screen) = start(&["--help"]).end();
    assert!(code == 0 && screen.contains("Usage: lars-top PATH"), "{screen}");
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_lars-top"));
    let output = program.arg("/nowhere").stdin(std::process::Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("needs a terminal"), "{text}");
}

#[test]
fn a_signal_gives_the_terminal_back_and_then_ends_the_program() {
    for (signal, name) in SIGNALS {
        let path = socket(name);
        let terminal = start(&[path.to_str().unwrap()]);
        terminal.shows("there is no such socket");
        terminal.signal(signal);
        let (ended, screen) = terminal.end_by_signal();
        assert_eq!(ended.as_deref(), Some(name));
        assert!(!screen.contains("no such socket"), "{screen}");
    }
}
