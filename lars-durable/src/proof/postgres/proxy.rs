//! A TCP proxy that fails on demand: it holds everything back, is slow, or cuts connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

const PASS: u8 = 0;
const HOLD: u8 = 1;
const SLOW: u8 = 2;
const CUT: u8 = 3;
const LOSE: u8 = 4;

/// How a commit is asked for.
const COMMIT: &[u8] = b"COMMIT\0";

#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) port: u16,
    mode: Arc<AtomicU8>,
    /// Answers to commits since it loses some.
    commits: Arc<AtomicU32>,
}

impl Proxy {
    pub(super) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            mode: Arc::new(AtomicU8::new(PASS)),
            commits: Arc::default(),
        };
        let (mode, commits) = (Arc::clone(&proxy.mode), Arc::clone(&proxy.commits));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { continue };
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let committing = Arc::new(AtomicBool::new(false));
                for (from, to, asks) in [(&client, &server, true), (&server, &client, false)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (mode, committing) = (Arc::clone(&mode), Arc::clone(&committing));
                    let commits = Arc::clone(&commits);
                    std::thread::spawn(move || {
                        pump(from, to, &mode, asks, (&committing, &commits))
                    });
                }
            }
        });
        proxy
    }

    pub(super) fn pass(&self) {
        self.mode.store(PASS, Ordering::Relaxed);
    }

    /// Nothing comes through, and nothing is lost: it comes when the proxy passes again.
    pub(super) fn hold(&self) {
        self.mode.store(HOLD, Ordering::Relaxed);
    }

    pub(super) fn slow(&self) {
        self.mode.store(SLOW, Ordering::Relaxed);
    }

    /// Loses the answer to every third commit, and its connection with it.
    pub(super) fn lose(&self) {
        self.mode.store(LOSE, Ordering::Relaxed);
    }

    /// How many answers it has lost.
    pub(super) fn lost(&self) -> u32 {
        self.commits.load(Ordering::Relaxed) / 3
    }

    /// Ends all connections, and what comes while it cuts.
    pub(super) fn cut(&self) {
        self.mode.store(CUT, Ordering::Relaxed);
    }
}

fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    mode: &AtomicU8,
    asks: bool,
    (committing, commits): (&AtomicBool, &AtomicU32),
) {
    let _ = from.set_read_timeout(Some(Duration::from_millis(20)));
    let mut buffer = [0; 16_384];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(_) => break,
        };
        loop {
            match mode.load(Ordering::Relaxed) {
                HOLD => std::thread::sleep(Duration::from_millis(5)),
                SLOW => {
                    std::thread::sleep(Duration::from_millis(if count > 0 { 60 } else { 0 }));
                    break;
                }
                _ => break,
            }
        }
        if asks {
            let asked = buffer[..count].windows(COMMIT.len()).any(|some| some == COMMIT);
            committing.fetch_or(asked, Ordering::Relaxed);
        } else if count > 0
            && mode.load(Ordering::Relaxed) == LOSE
            && committing.swap(false, Ordering::Relaxed)
            && commits.fetch_add(1, Ordering::Relaxed) % 3 == 2
        {
            // The server has committed, and nobody hears of it.
            break;
        }
        if mode.load(Ordering::Relaxed) == CUT || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(std::net::Shutdown::Both), to.shutdown(std::net::Shutdown::Both));
}
