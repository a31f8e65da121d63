//! The viewer's side of the socket: connects, reads, and connects again.

use std::io;
use std::path::{Path, PathBuf};

use crate::source::{News, Outlet, Source};

/// Snapshots of the program that serves at `path`.
pub(crate) fn source(path: PathBuf) -> io::Result<Source<News>> {
    Source::start(move |outlet| follow(&path, &outlet))
}

/// Follows the program that serves at `path`, through restarts, as long as the view lasts.
#[cfg(unix)]
fn follow(path: &Path, outlet: &Outlet<News>) {
    loop {
        let trouble = unix::connection(path, outlet);
        if !outlet.send(News::Trouble(trouble)) {
            return;
        }
        outlet.pause(crate::source::EVERY);
    }
}

/// Says that there is nothing to connect to on this platform.
#[cfg(not(unix))]
fn follow(path: &Path, outlet: &Outlet<News>) {
    let trouble = crate::serve::ServeError::Unavailable;
    outlet.send(News::Trouble(format!("{}: {trouble}", path.display())));
}

#[cfg(unix)]
mod unix {
    use std::io::{self, ErrorKind, Write};
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::time::Duration;

    use crate::snapshot::VERSION;
    use crate::source::{EVERY, News, Outlet};
    use crate::sync::now;
    use crate::wire::{Answer, LONGEST_ANSWER, Lines, Request, line_of};

    /// After how long without an answer the view says so.
    const SILENCE: Duration = Duration::from_secs(3);
    /// How often a reader looks whether there still is a view.
    const GLANCE: Duration = Duration::from_millis(200);

    /// One connection from its beginning to its end. Returns why it ended, or did not begin.
    pub(super) fn connection(path: &Path, outlet: &Outlet<News>) -> String {
        match UnixStream::connect(path) {
            Ok(socket) => {
                let end = follow(socket, outlet);
                format!("{}: {end}", path.display())
            }
            Err(error) => format!("{}: {}", path.display(), why_not(path, &error)),
        }
    }

    /// What a user can do about it.
    fn why_not(path: &Path, error: &io::Error) -> String {
        match (error.kind(), std::fs::symlink_metadata(path)) {
            (ErrorKind::NotFound, _) => "there is no such socket. Does the program run, and call \
                 `lars_top::serve` with this path?"
                .to_owned(),
            (_, Ok(file)) if !file.file_type().is_socket() => {
                "this is not a socket. It takes the path that a program passes to `lars_top::serve`"
                    .to_owned()
            }
            (ErrorKind::ConnectionRefused, _) => {
                "nobody listens: the program that made this socket has ended".to_owned()
            }
            (ErrorKind::PermissionDenied, _) => {
                "permission denied: it belongs to another user. Run this as the program's user"
                    .to_owned()
            }
            _ => error.to_string(),
        }
    }

    fn follow(mut socket: UnixStream, outlet: &Outlet<News>) -> String {
        let timeouts = socket
            .set_read_timeout(Some(GLANCE))
            .and_then(|()| socket.set_write_timeout(Some(SILENCE)));
        if let Err(error) = timeouts {
            return format!("the connection cannot be set up: {error}");
        }
        // If that fails, the program may have said why before it closed the connection.
        let _ = socket.write_all(&line_of(&Request::new(EVERY)));
        let mut lines = Lines::new(LONGEST_ANSWER);
        let mut heard = now();
        while !outlet.has_ended() {
            match lines.next(&mut socket) {
                Ok(line) => match serde_json::from_slice(&line) {
                    Ok(Answer::Snapshot(snapshot)) if snapshot.version == VERSION => {
                        heard = now();
                        outlet.send(News::Snapshot(snapshot));
                    }
                    Ok(Answer::Refused(why)) => return format!("the program refuses: {why}"),
                    Ok(Answer::Snapshot(snapshot)) => return other_version(snapshot.version),
                    Err(error) => return unreadable(&line, &error),
                },
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if heard.elapsed() > SILENCE {
                        let silence = heard.elapsed().as_secs();
                        let text = format!("no answer for {silence} s: is the program stopped?");
                        outlet.send(News::Trouble(text));
                    }
                }
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return "the program has closed the connection".to_owned();
                }
                Err(error) => return format!("the connection ended: {error}"),
            }
        }
        String::new()
    }

    fn other_version(theirs: u32) -> String {
        format!(
            "the program makes snapshots of version {theirs}, and this viewer reads version \
             {VERSION}. Use the `lars-top` of the program's release"
        )
    }

    /// It may be a snapshot of another version, which has other fields.
    fn unreadable(line: &[u8], error: &serde_json::Error) -> String {
        let answer = serde_json::from_slice::<serde_json::Value>(line).ok();
        let version = answer.as_ref().and_then(|answer| answer.get("snapshot")?.get("version"));
        match version.and_then(serde_json::Value::as_u64) {
            Some(version) if version != u64::from(VERSION) => other_version(version as u32),
            _ => format!("what listens there does not send snapshots: {error}"),
        }
    }
}
