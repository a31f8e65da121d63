//! A process that forks while a node runs, as servers do that make their workers that way.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::tempdir::Directory;
use crate::{Durable, Error, Refused};

const DIRECTORY: &str = "LARS_DURABLE_FORK_DIRECTORY";
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_forked_child_is_told_that_it_has_no_node_and_does_not_keep_the_file() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return be_the_parent(&PathBuf::from(directory));
    }
    let directory = Directory::new("fork");
    let name = "proof::fork::a_forked_child_is_told_that_it_has_no_node_and_does_not_keep_the_file";
    let status = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--test-threads=1"])
        .env(DIRECTORY, directory.path())
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    // The owner has exited, and its child lives.
    let said = std::fs::read_to_string(directory.path().join("said")).unwrap();
    let durable = Durable::sqlite(directory.file()).start();
    std::fs::write(directory.path().join("over"), "").unwrap();
    assert_eq!(said, "told");
    durable.unwrap().close().unwrap();
}

fn be_the_parent(directory: &Path) {
    let durable = Durable::sqlite(directory.join("timers.db")).start().unwrap();
    // The node has joined, and its thread sleeps.
    assert!(durable.timers().get("nobody").wait().unwrap().is_none());
    // SAFETY: the child allocates, for which the allocator holds its locks during the fork, and
    // uses what its only thread has made or what nobody held.
    match unsafe { nix::libc::fork() } {
        -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
        0 => be_the_child(directory, durable),
        _ => wait_for(&directory.join("said")),
    }
    // As a process dies: nothing is closed.
    std::process::exit(0);
}

fn be_the_child(directory: &Path, durable: Durable) -> ! {
    let called = durable.timers().get("nobody").wait_timeout(LONG);
    let looked = durable.inspect().wait_timeout(LONG);
    let told = matches!(called, Ok(Err(Error::Refused(Refused::Forked))))
        && matches!(looked, Ok(Err(Error::Unavailable { .. })));
    drop(durable);
    std::fs::write(directory.join("saying"), if told { "told" } else { "not told" }).unwrap();
    std::fs::rename(directory.join("saying"), directory.join("said")).unwrap();
    wait_for(&directory.join("over"));
    // SAFETY: ends the process, and nothing else.
    unsafe { nix::libc::_exit(0) }
}

/// Or for its folder to be removed, which may happen right after the file was made.
fn wait_for(path: &Path) {
    let pause = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    while !path.exists() && path.parent().is_some_and(Path::exists) && waited < LONG {
        std::thread::sleep(pause);
        waited += pause;
    }
}
