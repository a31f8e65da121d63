//! One thread for sockets and timers: a mio event loop that turns the timers itself. There is no
//! timer thread, and no pool.
//!
//! ```sh
//! cargo run --release -p examples --example mio_loop
//! ```
//!
//! An echo server on the loopback interface disconnects every client from which it has read nothing
//! for 50 ms. Three clients on threads of their own talk to it, and one of them falls silent. (If
//! the machine stands still for so long, the others are disconnected as well, and connect again.)
#![allow(clippy::disallowed_methods)]

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use examples::checks::{Problem, verify};
use lars_scheduler::{Cancellable, LightArrayRevolverScheduler};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

const LISTENER: Token = Token(0);
/// No socket: the timers have to be turned earlier, or the program is over.
const WAKER: Token = Token(1);
const FIRST_CLIENT: usize = 2;
const IDLE: Duration = Duration::from_millis(50);

struct Connection {
    stream: TcpStream,
    /// Moved with each message.
    idle: Cancellable,
    heard: Instant,
}

fn main() -> Result<(), Problem> {
    let mut poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
    // The hook interrupts `poll`. It is called only if a timer is due before the loop wakes anyway.
    let hook = Arc::clone(&waker);
    let mut timers = LightArrayRevolverScheduler::builder()
        .build_driver(move || hook.wake().expect("the loop can be woken"))?;

    let mut listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let clients = start_clients(listener.local_addr()?, &waker);

    // Tasks run inside `turn`, on this thread. The loop borrows the connections, so tasks only
    // leave notes.
    let (idlers, silent) = mpsc::channel::<Token>();
    let mut connections = HashMap::<Token, Connection>::new();
    let mut next_token = FIRST_CLIENT;
    let (mut disconnected, mut early) = (0, 0);
    let mut events = Events::with_capacity(64);
    while !(clients.is_over() && connections.is_empty()) {
        let next = timers.turn(Instant::now());
        for token in silent.try_iter() {
            let gone = connections.remove(&token).expect("whoever hangs up cancels it");
            disconnected += 1;
            early += u32::from(gone.heard.elapsed() < IDLE);
        }
        let timeout = next.map(|next| next.saturating_duration_since(Instant::now()));
        match poll.poll(&mut events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            match event.token() {
                WAKER => {} // to turn, or to look whether all is over
                LISTENER => {
                    while let Ok((mut stream, _)) = listener.accept() {
                        let token = Token(next_token);
                        next_token += 1;
                        poll.registry().register(&mut stream, token, Interest::READABLE)?;
                        let idlers = idlers.clone();
                        let gone = move || idlers.send(token).expect("the loop is there");
                        let heard = Instant::now();
                        let idle = timers.schedule_once(IDLE, gone)?;
                        connections.insert(token, Connection { stream, idle, heard });
                    }
                }
                token => {
                    let Some(connection) = connections.get_mut(&token) else { continue };
                    if !echo(connection) {
                        let gone = connections.remove(&token).expect("it was there a line ago");
                        gone.idle.cancel();
                    }
                }
            }
        }
    }
    let echoed = clients.join();
    println!("{echoed} messages came back; silent for {IDLE:?} and disconnected: {disconnected}\n");
    verify(&[
        ("every message of three clients came back", echoed == 3 * 10),
        ("the client that fell silent was disconnected", disconnected >= 1),
        ("nobody was disconnected early", early == 0),
        ("no timer is left", timers.close()?.ran == 0),
    ])?;
    Ok(())
}

/// Sends back what has come, and moves the idle timeout. False at the end of the connection.
fn echo(connection: &mut Connection) -> bool {
    let mut buffer = [0; 64];
    loop {
        match connection.stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => {
                connection.heard = Instant::now();
                connection.idle.reset(IDLE);
                // (So few bytes always fit into the socket's buffer.)
                if connection.stream.write_all(&buffer[..count]).is_err() {
                    return false;
                }
            }
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// Three clients, and how many messages each of them got back.
struct Clients {
    threads: Vec<thread::JoinHandle<u32>>,
    ended: Arc<Mutex<usize>>,
}

impl Clients {
    fn is_over(&self) -> bool {
        *self.ended.lock().expect("no client panics") == self.threads.len()
    }

    fn join(self) -> u32 {
        self.threads.into_iter().map(|it| it.join().expect("no client panics")).sum()
    }
}

fn start_clients(address: SocketAddr, waker: &Arc<Waker>) -> Clients {
    let ended = Arc::new(Mutex::new(0));
    let threads = (0..3)
        .map(|number| {
            let (ended, waker) = (Arc::clone(&ended), Arc::clone(waker));
            thread::spawn(move || {
                let echoed = talk(address, number == 0).expect("the server answers");
                *ended.lock().expect("no client panics") += 1;
                waker.wake().expect("the loop is there");
                echoed
            })
        })
        .collect();
    Clients { threads, ended }
}

/// Ten messages; one that falls silent then waits until it is disconnected.
fn talk(address: SocketAddr, falls_silent: bool) -> io::Result<u32> {
    let mut echoed = 0;
    loop {
        let mut stream = std::net::TcpStream::connect(address)?;
        while echoed < 10 && says_hello(&mut stream).is_ok() {
            echoed += 1;
        }
        if echoed == 10 && falls_silent {
            let end = stream.read(&mut [0; 5]);
            assert!(end.is_err() || end.is_ok_and(|count| count == 0), "the server hangs up");
        }
        if echoed == 10 {
            return Ok(echoed);
        }
    }
}

fn says_hello(stream: &mut std::net::TcpStream) -> io::Result<()> {
    stream.write_all(b"hello")?;
    stream.read_exact(&mut [0; 5])
}
