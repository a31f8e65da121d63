//! The pages as a value: what they show, who may see them, what may be changed.

use std::fmt;
use std::io;

use axum::Router;
use lars_durable::{Builder, Timers};
use lars_top::Probe;

use crate::guard::{Guard, secret};
use crate::routes;
use crate::shared::{Group, Program, Shared};
use crate::source::Source;
use crate::sync::Arc;
use crate::work::Work;

/// The shortest token, in bytes.
const SHORTEST_TOKEN: usize = 16;

/// What the pages show, and to whom. [`start`](Self::start) makes a router of it.
///
/// Without a token, the pages are for all who reach the server under an allowed name, and nothing
/// can be changed.
///
/// # Examples
///
/// In a service of your own, beside what it serves already:
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use axum::Router;
/// use lars_durable::Durable;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_web::{Console, Probe};
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let durable = Durable::in_memory().start()?;
/// let console = Console::new()
///     .program(Probe::new(scheduler.handle())) // or `Probe::of_system(&system)`
///     .group(durable.timers())
///     .start()?;
/// let service: Router = Router::new().nest_service("/timers", console);
/// # drop(service);
/// # Ok(()) }
/// ```
#[must_use = "it shows nothing until it is started"]
#[derive(Default)]
pub struct Console {
    probe: Option<Probe>,
    source: Option<Source>,
    about: String,
    hosts: Vec<String>,
    token: Option<String>,
    actions: bool,
}

/// Why there are no pages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsoleError {
    /// Neither a program nor a group is to be shown.
    #[error("there is nothing to show: a program or a group is needed")]
    Nothing,
    /// The token can be guessed.
    #[error("the token has {given} bytes, but it must have at least {least}")]
    ShortToken {
        /// Its length, without the spaces around it.
        given: usize,
        /// The least there may be.
        least: usize,
    },
    /// Everybody could change everything.
    #[error("actions need a token")]
    ActionsWithoutToken,
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] io::Error),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
}

impl Console {
    /// One that shows nothing yet, to this machine alone, and changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows a live scheduler, and its actors if the probe knows them.
    pub fn program(mut self, probe: Probe) -> Self {
        self.probe = Some(probe);
        self
    }

    /// Shows the group of a node in this program. A closed node is said to be closed.
    pub fn group(mut self, timers: Timers) -> Self {
        self.source = Some(Source::live(timers));
        self
    }

    /// Shows the group that this builder is for, from outside: see
    /// [`Builder::observe`](lars_durable::Builder::observe). It is called for each connection that
    /// is opened, and for each action, which starts a node without handlers and closes it. What is
    /// wrong is said on the pages.
    pub fn observe(mut self, builder: impl Fn() -> Builder + Send + Sync + 'static) -> Self {
        self.source = Some(Source::outside(builder));
        self
    }

    /// What is watched, for people: a title on each page. Never put a password in it.
    pub fn about(mut self, text: impl Into<String>) -> Self {
        self.about = text.into();
        self
    }

    /// Answers to this name, too, as `Host` names it, without the port. By default only `localhost`
    /// and its addresses are answered, so that no page elsewhere can read these by a name that
    /// leads here.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Asks for this token, at least 16 bytes, before anything is shown. See [`new_token`].
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Lets those who know the token change timers: cancel, move, retry, discard; and pause
    /// handlers.
    pub fn actions(mut self) -> Self {
        self.actions = true;
        self
    }

    /// Starts the threads that look, and returns the pages: for a server of their own, or to be
    /// nested in another router. The threads end when the router and its clones are gone.
    ///
    /// Nest them by [`Router::nest_service`]. [`Router::nest`] works, but leaves the address of the
    /// first page with a slash at its end to the outer router.
    ///
    /// # Errors
    ///
    /// [`ConsoleError`].
    pub fn start(self) -> Result<Router, ConsoleError> {
        let token = self.token.map(|token| token.trim().to_owned());
        if let Some(token) = token.as_ref().filter(|token| token.len() < SHORTEST_TOKEN) {
            let (given, least) = (token.len(), SHORTEST_TOKEN);
            return Err(ConsoleError::ShortToken { given, least });
        }
        if self.actions && token.is_none() {
            return Err(ConsoleError::ActionsWithoutToken);
        }
        if self.probe.is_none() && self.source.is_none() {
            return Err(ConsoleError::Nothing);
        }
        let guard = Guard::new(self.hosts, token, self.actions).map_err(random)?;
        let group = self.source.map(|source| Group::start(source, &guard)).transpose()?;
        let program = self.probe.map(Program::start).transpose()?;
        let (about, work) = (self.about, Work::new());
        Ok(routes::router(Arc::new(Shared { guard, about, group, program, work })))
    }
}

/// A token that nobody can guess.
///
/// # Errors
///
/// [`ConsoleError::Random`].
///
/// # Examples
///
/// ```
/// assert_ne!(lars_web::new_token()?, lars_web::new_token()?);
/// # Ok::<(), lars_web::ConsoleError>(())
/// ```
pub fn new_token() -> Result<String, ConsoleError> {
    secret().map_err(random)
}

fn random(error: getrandom::Error) -> ConsoleError {
    ConsoleError::Random(error.to_string())
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the token.
        f.debug_struct("Console")
            .field("about", &self.about)
            .field("hosts", &self.hosts)
            .field("actions", &self.actions)
            .finish_non_exhaustive()
    }
}
