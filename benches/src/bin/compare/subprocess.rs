//! One process per measurement: whatever one does to its heap, its threads or its clocks, the next
//! one starts afresh.

use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::options::Measure;
use crate::peer::Peer;
use crate::peers;
use crate::record::{Case, Outcome};

/// Starts this program again for one measurement and waits for its line.
pub(crate) fn measure(peer: &Peer, case: &Case, limit: Duration) -> Outcome {
    let failed = |problem: String| Outcome { problems: vec![problem], ..Outcome::default() };
    let myself = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => return failed(format!("cannot find this program: {error}")),
    };
    let workload = case.workload.to_string();
    let child = Command::new(myself)
        .args(["measure", "--peer", peer.name, "--workload", &workload])
        .args(["--producers", &case.producers.to_string(), "--n", &case.n.to_string()])
        .args(["--millis", &case.millis.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return failed(format!("cannot start a process: {error}")),
    };
    // Read on threads of their own, which sleep until the process closes its ends.
    let (sender, receiver) = mpsc::channel();
    let mut stdout = child.stdout.take().expect("it is piped");
    let mut stderr = child.stderr.take().expect("it is piped");
    let errors = thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text);
        let _ = sender.send(text);
    });
    let text = receiver.recv_timeout(limit);
    if text.is_err() {
        // It may have ended in this moment, which is as good.
        let _ = child.kill();
    }
    let status = child.wait();
    let errors = errors.join().unwrap_or_default();
    match (text, status) {
        (Err(_), _) => failed(format!("gave no result within {limit:?}")),
        (Ok(_), Err(error)) => failed(format!("cannot wait for the process: {error}")),
        (Ok(text), Ok(status)) => match serde_json::from_str(text.trim()) {
            Ok(outcome) if status.success() => outcome,
            _ => failed(format!("{status}: {}", errors.lines().next_back().unwrap_or_default())),
        },
    }
}

/// The other side of it: one measurement, one line.
pub(crate) fn answer(measure: &Measure) -> ExitCode {
    let wanted =
        |peer: &Peer| peer.name == measure.peer && peer.workloads.contains(&measure.workload);
    let Some(peer) = peers::all().into_iter().find(wanted) else {
        eprintln!("no peer {} is measured with {}", measure.peer, measure.workload);
        return ExitCode::FAILURE;
    };
    if measure.millis == 0 && measure.workload.lasts() {
        eprintln!("--millis is 0, but {} needs at least 1", measure.workload);
        return ExitCode::FAILURE;
    }
    let case = Case {
        workload: measure.workload,
        producers: measure.producers,
        n: measure.n,
        millis: measure.millis,
    };
    // A thread that fails must not leave the others waiting for it.
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{}", info.to_string().replace('\n', " "));
        std::process::exit(101);
    }));
    let outcome = (peer.measure)(&case);
    println!("{}", serde_json::to_string(&outcome).expect("figures have names"));
    // Whatever the peer still has running ends here.
    std::process::exit(0)
}
