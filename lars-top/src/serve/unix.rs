//! Serving over a Unix socket.
//!
//! One thread accepts, and each viewer has a thread of its own. A viewer that does not read blocks
//! only its own thread, and only until a write times out. One that leaves ends it at once.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder, Permissions};
use std::hash::BuildHasher;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::offset_of;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::sockaddr_un;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::ServeError;
use crate::probe::Probe;
use crate::sync::now;
use crate::wire::{Answer, LONGEST_REQUEST, Lines, Request, line_of};

/// How many viewers there may be at the same time.
const MOST: usize = 8;
/// How long a viewer may take to ask, and to read what is written.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many bytes the path of a socket may have. (It ends with a NUL.)
const LONGEST_PATH: usize = size_of::<sockaddr_un>() - offset_of!(sockaddr_un, sun_path) - 1;

/// A socket for viewers. Dropping it disconnects them, and removes the socket's file.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    /// Device and number of the file, so that only that is removed.
    file: (u64, u64),
    /// Closed to end the thread.
    waker: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// Opens a socket at `path`, over which `lars-top PATH` shows what the probe sees.
///
/// Only the program's own user can connect: the file has the permissions 0600 from the beginning. A
/// file that a program has left behind is replaced. Up to eight viewers may be connected. One that
/// does not ask or does not read is disconnected after five seconds, and holds up no other. Without
/// viewers no snapshots are taken.
///
/// Dropping the server closes the socket.
///
/// # Errors
///
/// [`ServeError`] names the path and says what is wrong with it: another program listens on it, it
/// is not a socket, its directory does not exist, it is too long. On platforms without Unix sockets
/// always [`ServeError::Unavailable`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_top::{Probe, serve};
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let path = std::env::temp_dir().join(format!("my-server-{}.lars", std::process::id()));
/// let server = serve(&path, Probe::new(scheduler.handle()))?; // $ lars-top PATH
/// assert_eq!(server.path(), path);
/// drop(server);
/// assert!(!path.exists());
/// # Ok(()) }
/// ```
pub fn serve(path: impl AsRef<Path>, probe: Probe) -> Result<Server, ServeError> {
    let path = path.as_ref().to_owned();
    let failed = |doing| {
        let path = path.clone();
        move |source| ServeError::Io { path, doing, source }
    };
    let listener = bind(&path)?;
    let file = fs::symlink_metadata(&path).map_err(failed("looking at the new socket"))?;
    let file = (file.dev(), file.ino());
    let (waker, woken) = UnixStream::pair().map_err(failed("making a pair of sockets"))?;
    listener.set_nonblocking(true).map_err(failed("setting up the socket"))?;
    let accept = Accept { listener, woken, probe, viewers: Vec::new() };
    // From here on the file is removed when something fails.
    let mut server = Server { path: path.clone(), file, waker: Some(waker), thread: None };
    let thread = thread::Builder::new().name("lars-top".to_owned()).spawn(move || accept.run());
    server.thread = Some(thread.map_err(failed("starting a thread"))?);
    Ok(server)
}

impl Server {
    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // First the file: connections from now on find nothing there.
        let ours = fs::symlink_metadata(&self.path);
        if ours.is_ok_and(|now| (now.dev(), now.ino()) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
        self.waker = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Binds a socket that has its permissions before anybody can find it: in a directory that only
/// this user can enter. From there it is linked to its path, which fails if something is there.
fn bind(path: &Path) -> Result<UnixListener, ServeError> {
    let failed = |doing| {
        let path = path.to_owned();
        move |source| ServeError::Io { path, doing, source }
    };
    check_length(path, path)?;
    // A NUL, for example.
    SocketAddr::from_pathname(path).map_err(failed("using it as the path of a socket"))?;
    let private = private_directory(path).map_err(failed("making a directory beside it"))?;
    clear(path, &private)?;
    let inside = private.0.join("s");
    check_length(path, &inside)?;
    let listener = UnixListener::bind(&inside).map_err(failed("opening a socket"))?;
    fs::set_permissions(&inside, Permissions::from_mode(0o600))
        .map_err(failed("setting its permissions"))?;
    match fs::hard_link(&inside, path) {
        Ok(()) => Ok(listener),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(ServeError::InUse { path: path.to_owned() })
        }
        Err(error) => Err(failed("giving the socket its name")(error)),
    }
}

/// Whether a socket can have this path, which is `path` or one beside it.
fn check_length(path: &Path, needed: &Path) -> Result<(), ServeError> {
    let (bytes, most) = (needed.as_os_str().as_bytes().len(), LONGEST_PATH);
    if bytes > most {
        return Err(ServeError::TooLong { path: path.to_owned(), bytes, most });
    }
    Ok(())
}

/// Removes a socket on which nobody listens any more.
fn clear(path: &Path, private: &Private) -> Result<(), ServeError> {
    let named = || path.to_owned();
    let failed = |doing| move |source| ServeError::Io { path: named(), doing, source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("looking at it")(error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(ServeError::NotASocket { path: named() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("trying it")(error)),
        Ok(_) => return Err(ServeError::InUse { path: named() }),
    }
    // Another program may just have replaced it: what is taken away is tried once more.
    let aside = private.0.join("o");
    match fs::rename(path, &aside) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        moved => moved.map_err(failed("moving it away"))?,
    }
    if UnixStream::connect(&aside).is_err() {
        return Ok(());
    }
    fs::hard_link(&aside, path).map_err(failed("putting it back"))?;
    Err(ServeError::InUse { path: named() })
}

/// How the names of private directories begin, or as much of it as there is space for.
const PREFIX: &str = ".lars-top-";
/// How many characters drawn by lot follow, if there is space.
const DRAWN: usize = 10;
/// How often a name is drawn. In a directory for everybody, others can take all short names.
const DRAWS: usize = 1_000;

/// Removed with what is in it when it is dropped.
struct Private(PathBuf);

impl Drop for Private {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn private_directory(path: &Path) -> io::Result<Private> {
    let parent = path.parent().unwrap_or(Path::new(""));
    // What is left beside the parent, a separator, and `/s` in it.
    let room = LONGEST_PATH.saturating_sub(parent.join("n/s").as_os_str().len() - 1);
    let length = room.clamp(2, PREFIX.len() + DRAWN);
    let drawn = DRAWN.min(length - 1);
    let prefix = &PREFIX[..length - drawn];
    for _ in 0..DRAWS {
        let directory = parent.join(format!("{prefix}{}", draw(drawn)));
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(Private(directory)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// So many letters and digits that nobody knows before.
fn draw(characters: usize) -> String {
    let mut number = RandomState::new().hash_one(0);
    let digit = |_| {
        let digit = char::from_digit((number % 36) as u32, 36);
        number /= 36;
        digit.unwrap_or('0')
    };
    (0..characters).map(digit).collect()
}

/// The thread that accepts.
struct Accept {
    listener: UnixListener,
    /// Readable at the end.
    woken: UnixStream,
    probe: Probe,
    /// With a second hold on each socket, to shut it down at the end.
    viewers: Vec<(UnixStream, JoinHandle<()>)>,
}

impl Drop for Accept {
    fn drop(&mut self) {
        for (socket, thread) in self.viewers.drain(..) {
            // Whatever the thread is doing, a write, a read or a pause: it returns.
            let _ = socket.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }
}

impl Accept {
    fn run(mut self) {
        loop {
            let mut both = [
                PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.woken.as_fd(), PollFlags::POLLIN),
            ];
            let polled = poll(&mut both, PollTimeout::NONE);
            if both[1].any().unwrap_or(true) {
                return;
            }
            match polled.map_err(io::Error::from).and_then(|_| self.listener.accept()) {
                Ok((socket, _)) => self.add(socket),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Too many open files, perhaps. It may be better in a moment.
                Err(_) => {
                    let mut end = [PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
                    let _ = poll(&mut end, 100_u8);
                }
            }
        }
    }

    /// Starts a thread for a viewer. If that fails, the viewer sees that the connection ends.
    fn add(&mut self, mut socket: UnixStream) {
        let timeouts =
            socket.set_nonblocking(false).and_then(|()| socket.set_write_timeout(Some(PATIENCE)));
        let Ok(second) = timeouts.and_then(|()| socket.try_clone()) else { return };
        self.viewers.retain(|(_, thread)| !thread.is_finished());
        if self.viewers.len() >= MOST {
            let full = format!("it has {MOST} viewers already, which is the limit");
            // It fits into the socket's buffer, which is empty.
            let _ = socket.write_all(&line_of(&Answer::Refused(full)));
            return;
        }
        let probe = self.probe.clone();
        let thread = thread::Builder::new().name("lars-top-viewer".to_owned());
        let show = move || {
            let socket = Closing(socket);
            // An error ends the connection.
            let _ = show(&socket.0, &probe);
        };
        if let Ok(thread) = thread.spawn(show) {
            self.viewers.push((second, thread));
        }
    }
}

/// The connection ends with this, also by a panic, although there is a second hold on the socket.
struct Closing(UnixStream);

impl Drop for Closing {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Reads from a socket until a time, whatever pieces come.
struct Until<'a>(&'a UnixStream, Instant);

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.1.saturating_duration_since(now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.0.set_read_timeout(Some(left))?;
        self.0.read(into)
    }
}

/// Serves one viewer, until it leaves or does not read.
fn show(mut socket: &UnixStream, probe: &Probe) -> io::Result<()> {
    let request = Lines::new(LONGEST_REQUEST).next(&mut Until(socket, now() + PATIENCE))?;
    let accepted = serde_json::from_slice::<Request>(&request)
        .map_err(|error| format!("it does not understand the request: {error}"))
        .and_then(|request| request.accept());
    let every = match accepted {
        Ok(every) => every,
        Err(refused) => return socket.write_all(&line_of(&Answer::Refused(refused))),
    };
    loop {
        socket.write_all(&line_of(&Answer::Snapshot(Box::new(probe.snapshot()))))?;
        if has_left(socket, every)? {
            return Ok(());
        }
    }
}

/// Waits for so long, or until the viewer has left, or the socket was shut down here.
fn has_left(socket: &UnixStream, wait: Duration) -> io::Result<bool> {
    let until = now() + wait;
    loop {
        let left = until.saturating_duration_since(now());
        if left.is_zero() {
            return Ok(false);
        }
        // No event but the end of the connection, which is always told. A viewer may have ended
        // its own side: it has nothing more to say.
        let mut end = [PollFd::new(socket.as_fd(), PollFlags::empty())];
        // In whole milliseconds: not less than what is left.
        let left = PollTimeout::try_from(left + Duration::from_millis(1));
        match poll(&mut end, left.unwrap_or(PollTimeout::MAX)) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_sees_the_end_when_the_thread_that_shows_panics() {
        let (socket, mut viewer) = UnixStream::pair().unwrap();
        let second = socket.try_clone().unwrap();
        let show = move || {
            let _socket = Closing(socket);
            panic!("expected by this test");
        };
        assert!(thread::spawn(show).join().is_err());
        assert_eq!(viewer.read(&mut [0]).unwrap(), 0);
        drop(second);
    }

    #[test]
    fn a_viewer_that_leaves_is_not_waited_for_and_one_that_only_listens_stays() {
        let (socket, viewer) = UnixStream::pair().unwrap();
        viewer.shutdown(Shutdown::Write).unwrap();
        assert!(!has_left(&socket, Duration::from_millis(5)).unwrap());
        let waits = thread::spawn(move || has_left(&socket, Duration::from_secs(86_400)));
        drop(viewer);
        assert!(waits.join().unwrap().unwrap());
    }

    #[test]
    fn a_request_that_comes_in_pieces_has_as_long_as_one_that_comes_at_once() {
        let (socket, mut viewer) = UnixStream::pair().unwrap();
        viewer.write_all(b"{").unwrap();
        let error = Until(&socket, now()).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        // Each piece comes in time, and there is no end of them.
        let trickle = thread::spawn(move || {
            while viewer.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        });
        let mut source = Until(&socket, now() + Duration::from_millis(50));
        let error = Lines::new(usize::MAX).next(&mut source).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        drop(socket);
        trickle.join().unwrap();
    }
}
