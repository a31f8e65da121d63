//! The view in the program that it shows: whatever ends that program, the terminal is as it was,
//! and what a panic says is read.
//!
//! The programs are this one, started once more on a pseudo-terminal.
#![cfg(unix)]
#![allow(missing_docs, clippy::disallowed_methods)]

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lars_scheduler::LightArrayRevolverScheduler;
use lars_top::{Live, Probe};
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGTERM, SIGUSR1};

use crate::pty::Terminal;
use crate::terminal::SIGNALS;

const VARIABLE: &str = "LARS_TOP_TEST_PROGRAM";
/// How a started test is called.
const ARGUMENTS: [&str; 3] =
    ["--exact", "live::a_program_for_other_tests_does_nothing_by_itself", "--nocapture"];

fn start(program: &str) -> Terminal {
    let own = std::env::current_exe().unwrap();
    Terminal::start_with(
        own.to_str().unwrap(),
        &ARGUMENTS,
        &[(VARIABLE, program), ("RUST_BACKTRACE", "0")],
    )
}

/// Started by itself it does nothing.
#[test]
fn a_program_for_other_tests_does_nothing_by_itself() {
    match std::env::var(VARIABLE).as_deref() {
        Err(_) => {}
        Ok("keeper") => keeper(),
        Ok(program) => watched(program),
    }
}

fn flag(signal: i32) -> Arc<AtomicBool> {
    let flag = Arc::default();
    signal_hook::flag::register(signal, Arc::clone(&flag)).unwrap();
    flag
}

/// A program with a view, which does what it is for when `SIGUSR1` comes.
fn watched(program: &str) {
    let asked = flag(SIGUSR1);
    let earlier = (program == "handles earlier").then(|| flag(SIGTERM));
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let live = Live::start(Probe::new(scheduler.handle())).unwrap();
    let later = (program == "handles later").then(|| flag(SIGTERM));
    let term = earlier.or(later).unwrap_or_default();
    while live.is_open() {
        thread::sleep(Duration::from_millis(5));
        if term.load(Ordering::Relaxed) {
            println!("the program handles it");
            exit(5);
        }
        if !asked.swap(false, Ordering::Relaxed) {
            continue;
        }
        match program {
            "exits" => exit(3),
            "panics" => panic!("the reactor is empty"),
            "contains" => drop(thread::spawn(|| panic!("one of many workers")).join()),
            "opens two" => {
                let second = Live::start(Probe::new(scheduler.handle())).unwrap();
                while second.is_open() {
                    thread::sleep(Duration::from_millis(5));
                }
                let error = second.close().unwrap_err();
                live.close().unwrap();
                println!("{error}");
            }
            other => unreachable!("{other}"),
        }
    }
    exit(0);
}

#[test]
fn a_signal_gives_the_terminal_of_a_watched_program_back_and_ends_it() {
    for (signal, name) in SIGNALS {
        let terminal = start("waits");
        terminal.shows("q quit");
        terminal.signal(signal);
        assert_eq!(terminal.end_by_signal().0.as_deref(), Some(name));
    }
}

#[test]
fn a_signal_that_the_program_handles_is_left_to_it() {
    for program in ["handles earlier", "handles later"] {
        let terminal = start(program);
        terminal.shows("q quit");
        terminal.signal(Signal::SIGTERM);
        let (code, _) = terminal.end();
        assert_eq!(code, 5, "{program}");
    }
}

#[test]
fn a_program_that_exits_gives_the_terminal_back() {
    let terminal = start("exits");
    terminal.shows("q quit");
    terminal.signal(Signal::SIGUSR1);
    assert_eq!(terminal.end().0, 3);
}

#[test]
fn what_a_panic_says_that_ends_the_program_is_on_the_screen_after_it() {
    let terminal = start("panics");
    terminal.shows("q quit");
    terminal.signal(Signal::SIGUSR1);
    let (code, screen) = terminal.end();
    assert!(code == 101 && screen.contains("the reactor is empty"), "{code}:\n{screen}");
}

#[test]
fn after_a_contained_panic_the_view_comes_back_and_the_message_stays_before_it() {
    let mut terminal = start("contains");
    terminal.shows("q quit");
    terminal.signal(Signal::SIGUSR1);
    terminal.shows("one of many workers");
    assert!(!terminal.is_alternate());
    terminal.shows("q quit");
    assert!(terminal.is_alternate());
    terminal.press("q");
    let (code, screen) = terminal.end();
    assert!(code == 0 && screen.contains("one of many workers"), "{code}:\n{screen}");
}

#[test]
fn a_second_view_of_a_process_is_refused_and_the_first_goes_on() {
    let terminal = start("opens two");
    terminal.shows("q quit");
    terminal.signal(Signal::SIGUSR1);
    let (code, screen) = terminal.end();
    let said = "another view of this process has the terminal";
    assert!(code == 0 && screen.contains(said), "{code}:\n{screen}");
}

/// Starts a view that ignores the hang-up, and ends when its own input does: then the terminal is
/// gone.
fn keeper() {
    let path = std::env::var("LARS_TOP_TEST_PATH").unwrap();
    let ignoring = "trap '' HUP; exec \"$0\" \"$1\"";
    let view = env!("CARGO_BIN_EXE_lars-top");
    let _terminal = Terminal::start("sh", &["-c", ignoring, view, &path]);
    let _ = std::io::stdin().read(&mut [0]);
    exit(0);
}

#[test]
fn a_view_whose_terminal_is_gone_ends() {
    let path = std::env::temp_dir().join(format!("lars-top-gone-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let mut keeper = Command::new(std::env::current_exe().unwrap())
        .args(ARGUMENTS)
        .env(VARIABLE, "keeper")
        .env("LARS_TOP_TEST_PATH", &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    keeper.stdin.take().unwrap().flush().unwrap();
    keeper.wait().unwrap();
    // That the connection ends is all that can be seen of it.
    connection.read_to_end(&mut Vec::new()).unwrap();
    std::fs::remove_file(&path).unwrap();
}
