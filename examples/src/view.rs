//! The live view of the long examples: in their terminal, or over a socket.

#[cfg(not(feature = "top"))]
mod absent;

use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use clap::Args;
#[cfg(feature = "top")]
use lars_top::{Live, Server, serve};
#[cfg(feature = "top")]
pub use lars_top::{Probe, SlowLog};

#[cfg(not(feature = "top"))]
use self::absent::{Live, Server, serve};
#[cfg(not(feature = "top"))]
pub use self::absent::{Probe, SlowLog};

/// How an example is watched.
#[derive(Debug, Clone, Args)]
pub struct ViewOptions {
    /// Show the live view instead of a line a second; q ends it.
    #[arg(long)]
    pub live: bool,

    /// Let `lars-top PATH` show the live view from another terminal.
    #[arg(long, value_name = "PATH")]
    pub serve: Option<PathBuf>,
}

/// The views that are open.
#[derive(Debug)]
pub struct Views {
    live: Option<Arc<Live>>,
    _server: Option<Server>,
}

/// Says whether a view has the terminal, so that lines must wait.
#[derive(Debug, Clone)]
pub struct Terminal(Weak<Live>);

impl ViewOptions {
    /// Opens the views that were asked for.
    pub fn open(&self, probe: Probe) -> Result<Views, Box<dyn Error>> {
        let server = match &self.serve {
            Some(path) => Some(serve(path, probe.clone())?),
            None => None,
        };
        let live = if self.live { Some(Arc::new(Live::start(probe)?)) } else { None };
        Ok(Views { live, _server: server })
    }
}

impl Views {
    /// The terminal, for the code that prints lines.
    pub fn terminal(&self) -> Terminal {
        Terminal(self.live.as_ref().map(Arc::downgrade).unwrap_or_default())
    }

    /// Gives the terminal back.
    pub fn close(&self) -> Result<(), Box<dyn Error>> {
        Ok(self.live.as_ref().map_or(Ok(()), |live| live.close())?)
    }
}

impl Terminal {
    /// Whether lines can be printed.
    pub fn is_free(&self) -> bool {
        self.0.upgrade().is_none_or(|live| !live.is_open())
    }
}
