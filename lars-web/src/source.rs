//! Where a group of durable timers is looked at, and changed: by a node of this program, or from
//! outside.

use lars_durable::inspection::{Inspection, RunInfo, RunsQuery};
use lars_durable::query::{Found, Listing, Query, Step};
use lars_durable::{Builder, Durable, Error, Observer, Timers};
use lars_top::snapshot::Late;

use crate::sync::Arc;

/// A group. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Source(Arc<dyn Opens>);

/// Opens what a thread reads and changes a group by.
pub(crate) trait Opens: Send + Sync {
    /// Opens nothing yet: what is wrong is said by the first question.
    fn reader(&self) -> Box<dyn Reads>;

    /// A node by which timers are changed.
    fn hand(&self) -> Result<Hand, Trouble>;
}

/// Looks at a group. Calls block.
pub(crate) trait Reads: Send {
    fn inspect(&mut self) -> Result<Inspection, Trouble>;
    fn list(&mut self, query: &Query) -> Result<Listing, Trouble>;
    fn count(&mut self, query: &Query) -> Result<Step, Trouble>;
    /// The timer with this identity, whether it waits, runs or was given up.
    fn find(&mut self, id: u64) -> Result<Option<Found>, Trouble>;
    /// The last runs of that timer, if they are remembered.
    fn runs(&mut self, id: u64) -> Result<Vec<RunInfo>, Trouble>;
    /// Why runs began late, if it is a node that explains that. Only the node itself knows it.
    fn late(&self) -> Option<Late> {
        None
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// It was asked for what cannot be.
    #[error("{0}")]
    Refused(String),
    /// The store cannot be used now.
    #[error("{0}")]
    Away(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refused) => Self::Refused(refused.to_string()),
            error => Self::Away(error.to_string()),
        }
    }
}

/// A node by which timers are changed. One that was started for that is closed with it.
pub(crate) struct Hand {
    pub(crate) timers: Timers,
    _own: Option<Durable>,
}

impl Source {
    pub(crate) fn new(opens: impl Opens + 'static) -> Self {
        Self(Arc::new(opens))
    }

    /// The group of a node in this program.
    pub(crate) fn live(timers: Timers) -> Self {
        Self::new(Live(timers))
    }

    /// The group that this builder is for, without being a node.
    pub(crate) fn outside(builder: impl Fn() -> Builder + Send + Sync + 'static) -> Self {
        Self::new(Outside(Arc::new(builder)))
    }

    pub(crate) fn reader(&self) -> Box<dyn Reads> {
        self.0.reader()
    }

    pub(crate) fn hand(&self) -> Result<Hand, Trouble> {
        self.0.hand()
    }
}

#[derive(Clone)]
struct Live(Timers);

impl Opens for Live {
    fn reader(&self) -> Box<dyn Reads> {
        Box::new(self.clone())
    }

    fn hand(&self) -> Result<Hand, Trouble> {
        Ok(Hand { timers: self.0.clone(), _own: None })
    }
}

impl Reads for Live {
    fn inspect(&mut self) -> Result<Inspection, Trouble> {
        Ok(self.0.inspect().wait()?)
    }

    fn list(&mut self, query: &Query) -> Result<Listing, Trouble> {
        Ok(self.0.list(query).wait()?)
    }

    fn count(&mut self, query: &Query) -> Result<Step, Trouble> {
        Ok(self.0.count(query).wait()?)
    }

    fn find(&mut self, id: u64) -> Result<Option<Found>, Trouble> {
        if let Some(timer) = self.0.get(id).wait()? {
            return Ok(Some(Found::Timer(timer)));
        }
        Ok(self.0.get_parked(id).wait()?.map(Found::Parked))
    }

    fn runs(&mut self, id: u64) -> Result<Vec<RunInfo>, Trouble> {
        Ok(self.0.runs(last(id)).wait()?.runs)
    }

    fn late(&self) -> Option<Late> {
        Late::of(&self.0.lateness())
    }
}

/// As many runs as a page shows.
fn last(id: u64) -> RunsQuery {
    RunsQuery::new().timer(id).limit(20)
}

struct Outside(Arc<dyn Fn() -> Builder + Send + Sync>);

struct Looks {
    builder: Arc<dyn Fn() -> Builder + Send + Sync>,
    /// Opened by the first question, and again after one that was not answered: then the schema,
    /// too, is looked at again.
    observer: Option<Observer>,
}

impl Looks {
    fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Observer) -> Result<T, Error>,
    ) -> Result<T, Trouble> {
        let observer = match &mut self.observer {
            Some(observer) => observer,
            none => none.insert(open(&*self.builder)?),
        };
        let answer = ask(observer).map_err(Trouble::from);
        if let Err(Trouble::Away(_)) = answer {
            self.observer = None;
        }
        answer
    }
}

fn open(builder: &dyn Fn() -> Builder) -> Result<Observer, Trouble> {
    builder().observe().map_err(|error| Trouble::Away(error.to_string()))
}

impl Opens for Outside {
    fn reader(&self) -> Box<dyn Reads> {
        Box::new(Looks { builder: Arc::clone(&self.0), observer: None })
    }

    fn hand(&self) -> Result<Hand, Trouble> {
        // A node would make what is not there: a schema, a group, a file.
        drop(open(&*self.0)?);
        let node = (self.0)().name("lars-web").start();
        let node = node.map_err(|error| Trouble::Away(error.to_string()))?;
        Ok(Hand { timers: node.timers(), _own: Some(node) })
    }
}

impl Reads for Looks {
    fn inspect(&mut self) -> Result<Inspection, Trouble> {
        self.ask(Observer::inspect)
    }

    fn list(&mut self, query: &Query) -> Result<Listing, Trouble> {
        self.ask(|observer| observer.list(query))
    }

    fn count(&mut self, query: &Query) -> Result<Step, Trouble> {
        self.ask(|observer| observer.count(query))
    }

    fn find(&mut self, id: u64) -> Result<Option<Found>, Trouble> {
        self.ask(|observer| {
            if let Some(timer) = observer.get(id)? {
                return Ok(Some(Found::Timer(timer)));
            }
            Ok(observer.get_parked(id)?.map(Found::Parked))
        })
    }

    fn runs(&mut self, id: u64) -> Result<Vec<RunInfo>, Trouble> {
        self.ask(|observer| Ok(observer.runs(last(id))?.runs))
    }
}
