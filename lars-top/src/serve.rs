//! The watched program's side of the socket.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub use self::unavailable::{Server, serve};
#[cfg(unix)]
pub use self::unix::{Server, serve};

/// Why a socket could not be opened for viewers.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another program serves at this path.
    #[error("{} is in use: a program listens on it", path.display())]
    InUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// Something at this path is not a socket. It is left alone.
    #[error("{} exists and is not a socket; it is left as it is", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The path does not fit into the address of a socket.
    #[error(
        "{}: a socket here needs a path of {bytes} bytes, but it must be at most {most} on this \
         platform",
        path.display()
    )]
    TooLong {
        /// The path of the socket.
        path: PathBuf,
        /// Its length, or that of `.0/s` beside it, where the socket is made.
        bytes: usize,
        /// The platform's limit.
        most: usize,
    },
    /// The platform has no Unix sockets that this crate could use. The view in the process itself
    /// works there, too.
    #[error("a view from outside needs Unix sockets, which are not available on this platform")]
    Unavailable,
    /// The system refused something.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The path of the socket.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

#[cfg(not(unix))]
mod unavailable {
    use std::path::Path;

    use super::ServeError;
    use crate::probe::Probe;

    /// A socket for viewers. There are none on this platform.
    #[derive(Debug)]
    pub struct Server(std::convert::Infallible);

    impl Server {
        /// The path of the socket.
        pub fn path(&self) -> &Path {
            match self.0 {}
        }
    }

    /// Opens a socket for viewers.
    ///
    /// # Errors
    ///
    /// Always [`ServeError::Unavailable`] on this platform.
    pub fn serve(_: impl AsRef<Path>, _: Probe) -> Result<Server, ServeError> {
        Err(ServeError::Unavailable)
    }
}
