//! What goes over the socket: one JSON value a line. The viewer asks once, the program answers with
//! a snapshot again and again.

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::snapshot::{Snapshot, VERSION};

/// The shortest and the longest time between two snapshots.
pub(crate) const EVERY: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(60));
/// The most bytes of a request, and of an answer.
pub(crate) const LONGEST_REQUEST: usize = 1024;
pub(crate) const LONGEST_ANSWER: usize = 8 << 20;

/// What a viewer asks for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The version of the snapshots that it reads.
    pub(crate) version: u32,
    /// Milliseconds between two of them.
    pub(crate) every: u64,
}

/// What a program answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Snapshot(Box<Snapshot>),
    /// Why there will be none.
    Refused(String),
}

impl Request {
    pub(crate) fn new(every: Duration) -> Self {
        Self { version: VERSION, every: every.as_millis() as u64 }
    }

    /// How often the viewer gets a snapshot, or why it gets none.
    pub(crate) fn accept(&self) -> Result<Duration, String> {
        if self.version != VERSION {
            return Err(format!(
                "it makes snapshots of version {VERSION}, and this viewer reads version {}",
                self.version
            ));
        }
        Ok(Duration::from_millis(self.every).clamp(EVERY.0, EVERY.1))
    }
}

/// One line of JSON.
pub(crate) fn line_of(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Puts lines together from what comes in.
#[derive(Debug)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// How many of them are known to hold no end of a line.
    searched: usize,
    longest: usize,
}

impl Lines {
    pub(crate) fn new(longest: usize) -> Self {
        Self { bytes: Vec::new(), searched: 0, longest }
    }

    /// The next line, without its end. What came before an error is kept: a read that timed out can
    /// be tried again.
    pub(crate) fn next(&mut self, source: &mut impl Read) -> io::Result<Vec<u8>> {
        loop {
            let end = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let rest = self.bytes.split_off(self.searched + end + 1);
                let mut line = std::mem::replace(&mut self.bytes, rest);
                line.pop();
                self.searched = 0;
                return Ok(line);
            }
            self.searched = self.bytes.len();
            if self.bytes.len() > self.longest {
                let text = format!("a line of more than {} bytes", self.longest);
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
            let mut buffer = [0; 4096];
            match source.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.bytes.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_whatever_pieces_they_come_in() {
        struct Bytes<'a>(&'a [u8]);
        impl Read for Bytes<'_> {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let Some((first, rest)) = self.0.split_first() else {
                    return Err(ErrorKind::WouldBlock.into());
                };
                (into[0], self.0) = (*first, rest);
                Ok(1)
            }
        }
        let mut lines = Lines::new(10);
        let error = lines.next(&mut Bytes(b"one")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let mut rest: &[u8] = b" line\n\nthird\n and an end";
        assert_eq!(lines.next(&mut rest).unwrap(), b"one line");
        assert_eq!(lines.next(&mut rest).unwrap(), b"");
        assert_eq!(lines.next(&mut rest).unwrap(), b"third");
        let error = lines.next(&mut rest).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        let error = Lines::new(10).next(&mut &b"x"[..]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}
