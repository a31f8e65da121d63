//! The protocol: lines of text, and the buffers that they come and go through.
//!
//! ```text
//! client  PING 7                 a request
//! server  PONG 7                 its answer
//! server  BEAT 3                 the third heartbeat
//! server  BYE | BYE idle | ...   the last line, with the reason
//! ```
//!
//! A client hangs up by closing its sending half. It then reads on until the server has closed too,
//! so nothing that was sent is lost, and both sides can compare their counts.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

/// Longer than any line of the protocol.
const MAX_LINE: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    Ping(u64),
    Pong(u64),
    Beat(u64),
    Bye(Farewell),
}

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// The client has hung up.
    Done,
    /// No request came for too long.
    Idle,
    /// The server goes.
    Shutdown,
}

impl Line {
    fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, rest) {
            ("PING", number) => number.parse().ok().map(Self::Ping),
            ("PONG", number) => number.parse().ok().map(Self::Pong),
            ("BEAT", number) => number.parse().ok().map(Self::Beat),
            ("BYE", "") => Some(Self::Bye(Farewell::Done)),
            ("BYE", "idle") => Some(Self::Bye(Farewell::Idle)),
            ("BYE", "shutdown") => Some(Self::Bye(Farewell::Shutdown)),
            _ => None,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ping(number) => write!(f, "PING {number}"),
            Self::Pong(number) => write!(f, "PONG {number}"),
            Self::Beat(number) => write!(f, "BEAT {number}"),
            Self::Bye(Farewell::Done) => f.write_str("BYE"),
            Self::Bye(Farewell::Idle) => f.write_str("BYE idle"),
            Self::Bye(Farewell::Shutdown) => f.write_str("BYE shutdown"),
        }
    }
}

/// What a read has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Some bytes; there may be more.
    Some,
    /// Nothing for now: there will be an event.
    NothingYet,
    /// The other side has closed its sending half.
    TheEnd,
}

/// A line that is not of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine(pub String);

/// Bytes received, until they make a line.
#[derive(Debug, Default)]
pub struct Incoming {
    bytes: Vec<u8>,
}

impl Incoming {
    /// Reads once. To be called until nothing is left, with the lines taken out each time, so that
    /// no sender can fill more than a chunk of memory.
    pub fn receive(&mut self, source: &mut impl Read) -> io::Result<Received> {
        let mut chunk = [0; 4096];
        loop {
            return match source.read(&mut chunk) {
                Ok(0) => Ok(Received::TheEnd),
                Ok(read) => {
                    self.bytes.extend_from_slice(&chunk[..read]);
                    Ok(Received::Some)
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::NothingYet),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Takes out the next line, if it is complete.
    pub fn next_line(&mut self) -> Option<Result<Line, BadLine>> {
        let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') else {
            let too_long = self.bytes.len() > MAX_LINE;
            return too_long.then(|| Err(self.bad(MAX_LINE)));
        };
        let parsed = Line::parse(&self.bytes[..end]).ok_or_else(|| self.bad(end));
        self.bytes.drain(..=end);
        Some(parsed)
    }

    fn bad(&self, end: usize) -> BadLine {
        BadLine(String::from_utf8_lossy(&self.bytes[..end.min(MAX_LINE)]).into_owned())
    }
}

/// Bytes to send, as far as the other side has not taken them.
#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
}

impl Outgoing {
    pub fn push(&mut self, line: Line) {
        writeln!(self.bytes, "{line}").expect("a vector takes everything");
    }

    /// Sends as much as can be sent now; an event tells when there is room for the rest.
    pub fn send(&mut self, sink: &mut impl Write) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == self.bytes.len() {
                break Ok(());
            }
            match sink.write(&self.bytes[sent..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(written) => sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.bytes.drain(..sent);
        result
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}
