//! Whose a file is: one process's at a time, by whatever name it is reached.
//!
//! Two things say so. `<file>.lock` is locked as long as the file is open, so a second owner is
//! refused before it touches anything. And each opening adds one to the epoch in the file, which
//! each transaction reads: whoever lost the lock, because somebody removed the lock file, finds
//! another epoch there and does nothing any more.
//!
//! On Unix the lock is one of the process (`fcntl`), and not of the open file (`flock`): a process
//! that forks does not leave it to a child that outlives it. Such locks do not exclude within a
//! process, and closing any handle of the lock file releases them. So [`HELD`] is asked first, and
//! a lock file that this process holds is not opened again.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::open::io_error;
use crate::error::StartError;
use crate::sync::Mutex;
use crate::time::Timestamp;

/// How many links lead to a file at most: as many as Linux follows.
const MAX_LINKS: usize = 40;

/// The lock files that this process holds, each with the process that took it: a child that was
/// forked has a copy of this, and not the locks.
static HELD: Mutex<BTreeMap<PathBuf, u32>> = Mutex::new(BTreeMap::new());

/// A file that this process owns.
#[derive(Debug)]
pub(super) struct OwnedFile {
    /// Without links, and absolute: SQLite takes some relative names for something else.
    path: PathBuf,
    /// The files, of which each is to stay what it was: the database, and its log once it is open.
    kept: Vec<(PathBuf, Identity)>,
    /// Gone before `HELD` forgets it.
    lock: Option<File>,
}

impl OwnedFile {
    /// Makes the file, if it is not there, and becomes its owner.
    pub(super) fn take(path: &Path) -> Result<Self, StartError> {
        check_name(path)?;
        let found = create(path).map_err(|error| io_error(path, &error))?;
        Self::lock(path, found)
    }

    /// Becomes the owner of a file that is there.
    pub(super) fn take_existing(path: &Path) -> Result<Self, StartError> {
        check_name(path)?;
        let found = std::fs::canonicalize(path).map_err(|error| io_error(path, &error))?;
        Self::lock(path, found)
    }

    fn lock(given: &Path, path: PathBuf) -> Result<Self, StartError> {
        let failed = |error| io_error(given, &error);
        let database = std::fs::metadata(&path).map_err(failed)?;
        if let Some(names) = names_of(&database).filter(|names| *names > 1) {
            let reason = format!(
                "the file has {names} names (hard links), and SQLite would keep a log for each of \
                 them: remove all but one"
            );
            return Err(StartError::Open { path: given.into(), reason });
        }
        let kept = Identity::of(&database).map(|identity| (path.clone(), identity));
        let lock_path = beside(&path, ".lock");
        let mut held = HELD.lock();
        if held.get(&lock_path) == Some(&std::process::id()) {
            let owner = format!("process {}", std::process::id());
            return Err(StartError::Owned { path: given.into(), owner });
        }
        let lock = lock_file(given, &lock_path)?;
        held.insert(lock_path, std::process::id());
        Ok(Self { path, kept: kept.into_iter().collect(), lock: Some(lock) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What the file is, if that can be known.
    pub(super) fn identity(&self) -> Option<Identity> {
        self.kept.first().map(|(_, identity)| identity.clone())
    }

    /// Where SQLite's log is.
    pub(super) fn log(&self) -> PathBuf {
        log_of(&self.path)
    }

    /// From now on SQLite's log must stay, too.
    pub(super) fn keep_log(&mut self) {
        let log = self.log();
        if let Some(identity) = std::fs::metadata(&log).ok().and_then(|log| Identity::of(&log)) {
            self.kept.push((log, identity));
        }
    }

    /// Whether what is written still goes to where somebody will read it.
    pub(super) fn is_there(&self) -> bool {
        self.kept.iter().all(|(path, identity)| {
            let now = std::fs::metadata(path).ok().and_then(|now| Identity::of(&now));
            now.as_ref() == Some(identity)
        })
    }
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        self.lock = None;
        held.remove(&beside(&self.path, ".lock"));
    }
}

/// Who owns a file, as others see it.
pub(super) struct Holder {
    /// What it wrote into the lock file, such as `process 17`.
    pub(super) name: String,
    pub(super) since: Option<Timestamp>,
}

/// Who owns the file at this path, which has no links. Nobody does as far as is known where the
/// system does not tell who holds a lock.
pub(super) fn holder(path: &Path) -> Option<Holder> {
    let lock_path = beside(path, ".lock");
    // Held meanwhile: what is opened here must be closed before this process may lock it.
    let held = HELD.lock();
    let here = held.get(&lock_path) == Some(&std::process::id());
    let since = std::fs::metadata(&lock_path).ok()?.modified().ok().map(Timestamp::from_system);
    if here {
        return Some(Holder { name: format!("process {}", std::process::id()), since });
    }
    let mut file = File::open(&lock_path).ok()?;
    if !is_locked(&file) {
        return None;
    }
    let mut name = String::new();
    let _ = file.read_to_string(&mut name);
    Some(Holder { name: name.trim().to_owned(), since })
}

/// Where SQLite's log of the file at this path is.
pub(super) fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// Names that SQLite would take for something else than a file.
pub(super) fn check_name(path: &Path) -> Result<(), StartError> {
    let name = path.to_string_lossy();
    let instead = if name.is_empty() || name == ":memory:" {
        "it names no file; `Durable::in_memory` keeps timers in memory"
    } else if name.starts_with("file:") {
        "it is a URI; give the path of the file"
    } else {
        return Ok(());
    };
    Err(StartError::Setting { name: "path", given: format!("{name:?}"), limit: instead })
}

/// Makes an empty file that others cannot read, if there is none; returns where it is. A file that
/// is there is not opened: closing it again would release what locks SQLite has on it in this
/// process.
fn create(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..MAX_LINKS {
        match private().create_new(true).write(true).open(&place) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match std::fs::canonicalize(&place) {
            // A link to a file that is not there yet.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let target = std::fs::read_link(&place)?;
                place = place.parent().unwrap_or(Path::new("")).join(target);
            }
            found => return found,
        }
    }
    Err(io::Error::other("too many links lead to it"))
}

/// Opens files with permissions for their user only, if it makes them.
fn private() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "the mode is Unix's"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Locks `<path>.lock`, which the system releases when the process ends, however it ends.
fn lock_file(path: &Path, lock_path: &Path) -> Result<File, StartError> {
    loop {
        let file = private().create(true).truncate(false).read(true).write(true).open(lock_path);
        let mut file = file.map_err(|error| io_error(path, &error))?;
        if !try_lock(&file).map_err(|error| io_error(path, &error))? {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            return Err(StartError::Owned { path: path.into(), owner: owner.trim().into() });
        }
        // Somebody may have removed it before it was locked.
        let locked = file.metadata().ok().and_then(|it| Identity::of(&it));
        let named = std::fs::metadata(lock_path).ok().and_then(|it| Identity::of(&it));
        if locked != named {
            continue;
        }
        // For people, and for the error above; nothing depends on it.
        let _ = file.set_len(0).and_then(|()| file.rewind());
        let _ = write!(file, "process {}", std::process::id());
        return Ok(file);
    }
}

/// `false` if another process has locked it.
#[cfg(unix)]
fn try_lock(file: &File) -> io::Result<bool> {
    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc::{F_WRLCK, flock};

    // SAFETY: a structure of numbers. Zeros mean all of the file.
    let mut whole: flock = unsafe { std::mem::zeroed() };
    whole.l_type = F_WRLCK as _;
    match fcntl(file, FcntlArg::F_SETLK(&whole)) {
        Ok(_) => Ok(true),
        Err(Errno::EACCES | Errno::EAGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether another process has locked it.
#[cfg(unix)]
fn is_locked(file: &File) -> bool {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc::{F_RDLCK, F_UNLCK, flock};

    // SAFETY: a structure of numbers. Zeros mean all of the file.
    let mut whole: flock = unsafe { std::mem::zeroed() };
    whole.l_type = F_RDLCK as _;
    fcntl(file, FcntlArg::F_GETLK(&mut whole)).is_ok() && i32::from(whole.l_type) != F_UNLCK
}

#[cfg(not(unix))]
fn is_locked(_: &File) -> bool {
    false
}

#[cfg(not(unix))]
fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(std::fs::TryLockError::WouldBlock) => Ok(false),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What a file is, whatever it is called. Elsewhere than on Unix, an open file cannot be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    pub(super) fn of(file: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        Some(Self { device: file.dev(), inode: file.ino() })
    }

    #[cfg(not(unix))]
    pub(super) fn of(_: &Metadata) -> Option<Self> {
        None
    }
}

/// How many names a file has, if that can be known.
#[cfg(unix)]
fn names_of(file: &Metadata) -> Option<u64> {
    Some(std::os::unix::fs::MetadataExt::nlink(file))
}

#[cfg(not(unix))]
fn names_of(_: &Metadata) -> Option<u64> {
    None
}
