//! The client, and what it expects.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use examples::checks::Problem;

use crate::Checks;

/// How long something may take, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Checks everything, and has the process told to end.
pub fn checks(address: SocketAddr) -> Result<Checks, Problem> {
    let found = requests(address);
    if found.is_err() {
        terminate()?;
    }
    found
}

fn requests(address: SocketAddr) -> Result<Checks, Problem> {
    let ask = |method, path| ask(address, method, path);
    until(|| Ok(ask("GET", "/readyz")?.0 == 200))?;
    let alive = ask("GET", "/livez")?;
    let never = ask("GET", "/never")?;
    let orders = [ask("POST", "/orders/17")?.0, ask("POST", "/orders/18")?.0];
    until(|| Ok(ask("GET", "/orders/17")?.1 == "reminded"))?;
    let metrics = ask("GET", "/metrics")?.1;
    let shown = ["lars_scheduler_", "lars_durable_"].iter().all(|it| metrics.contains(it));

    let last = thread::spawn(move || self::ask(address, "GET", "/last"));
    until(|| Ok(ask("GET", "/metrics")?.1.contains("shop_last_requests 1")))?;
    terminate()?;
    let last = last.join().map_err(|_| "the last request panicked")??;
    Ok(vec![
        ("it is alive", alive.0 == 200),
        ("a request that takes too long is answered with 504", never.0 == 504),
        ("an order is accepted when its reminder is stored", orders == [202, 202]),
        ("the metrics of all timers are there", shown),
        ("a request that was under way at SIGTERM is answered", last.0 == 200),
        ("and from then on it is not ready", last.1 == "leaving"),
    ])
}

fn terminate() -> Result<(), Problem> {
    let own = std::process::id().to_string();
    let sent = Command::new("kill").args(["-TERM", &own]).status()?;
    if sent.success() { Ok(()) } else { Err("no signal could be sent".into()) }
}

/// The status and the body.
fn ask(address: SocketAddr, method: &str, path: &str) -> Result<(u16, String), Problem> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("{method} {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no end of the headers")?;
    let status = head.split(' ').nth(1).ok_or("no status")?;
    Ok((status.parse()?, body.to_owned()))
}

fn until(mut holds: impl FnMut() -> Result<bool, Problem>) -> Result<(), Problem> {
    let begin = Instant::now();
    while !holds()? {
        if begin.elapsed() > PATIENCE {
            return Err("what was waited for does not happen".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
