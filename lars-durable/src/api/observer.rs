//! Looks from outside.

use std::{fmt, mem, thread};

use super::inspection::{Inspection, Parked, RunsPage, RunsQuery, TimerInfo};
use super::query::{Listing, Query, Step};
use super::which::Which;
use crate::error::Error;
use crate::model::{Act, Glance, States};
use crate::store::{Outside, StoreError, Write, Written};

/// Looks at a group from outside, and writes nothing: it is no node, takes no lease, and neither
/// creates nor upgrades the schema.
///
/// In PostgreSQL the server holds it to that, because its transactions are read-only. It needs
/// `SELECT` on the tables of the schema `lars`, and sees a standby server, too. A file may have an
/// owner that runs, or none: then it is shown without a node, and its bucket is free.
///
/// [`Builder::observe`](crate::Builder::observe) makes one. Its calls block, and may be made on any
/// thread, also on one of an asynchronous runtime that may be blocked.
///
/// # Errors
///
/// All calls return [`Error::Unavailable`] if the store does not answer, in PostgreSQL within the
/// lease that the builder has (at least 5 s). The next call tries again, by a new connection. A
/// query that cannot be is [refused](Error::Refused).
pub struct Observer {
    /// Taken when this is dropped.
    store: Option<Box<dyn Outside>>,
    glance: Glance,
}

impl Observer {
    pub(super) fn new(store: impl Outside + 'static) -> Self {
        Self { store: Some(Box::new(store)), glance: Glance::default() }
    }

    /// What [`Durable::inspect`](crate::Durable::inspect) shows. The owner of a file shows nothing
    /// of what it counts: handlers have what is in the file, and no rates and no lateness.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub fn inspect(&mut self) -> Result<Inspection, Error> {
        let mut glance = mem::take(&mut self.glance);
        let look = self.ask(|store| glance.look(|limit| store.look(limit)));
        self.glance = glance;
        look.map(Inspection::of)
    }

    /// The timer with this key or [identity](Which), if it waits or runs; see
    /// [`Timers::get`](crate::Timers::get).
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Refused`].
    pub fn get<'a>(&mut self, which: impl Into<Which<'a>>) -> Result<Option<TimerInfo>, Error> {
        let which = which.into().checked()?;
        self.answer(&Write::Get { which }).map(TimerInfo::of_written)
    }

    /// The timer with this identity, if it was given up; see
    /// [`Timers::get_parked`](crate::Timers::get_parked).
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub fn get_parked(&mut self, id: u64) -> Result<Option<Parked>, Error> {
        let written = self.answer(&Parked::get(id))?;
        Ok(Parked::of_written(written, id))
    }

    /// A page of runs that are over; see [`Timers::runs`](crate::Timers::runs).
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub fn runs(&mut self, query: RunsQuery) -> Result<RunsPage, Error> {
        let written = self.answer(&query.to_write())?;
        Ok(RunsPage::of(query, written))
    }

    /// Counts timers, a step; see [`Timers::count`](crate::Timers::count).
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Refused`].
    pub fn count(&mut self, query: &Query) -> Result<Step, Error> {
        self.step("count", query, Act::Count).map(Step::of)
    }

    /// Shows timers, a page; see [`Timers::list`](crate::Timers::list).
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Refused`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("observed-{}.db", std::process::id()));
    /// use lars_durable::Durable;
    /// use lars_durable::query::{Query, State};
    ///
    /// let node = Durable::sqlite(&path).start()?; // as a rule in another process
    /// let mut observer = Durable::sqlite(&path).observe()?;
    /// let page = observer.list(&Query::new().states([State::Parked]))?;
    /// assert!(page.timers.is_empty() && page.next.is_none());
    /// # drop((node, observer));
    /// # for suffix in ["", ".lock"] {
    /// #     std::fs::remove_file(format!("{}{suffix}", path.display()))?;
    /// # }
    /// # Ok(()) }
    /// ```
    pub fn list(&mut self, query: &Query) -> Result<Listing, Error> {
        self.step("list", query, Act::List).map(Listing::of)
    }

    fn step(&mut self, call: &'static str, query: &Query, act: Act) -> Result<Written, Error> {
        let select = query.checked(call, States::ALL).map_err(Error::Refused)?;
        self.answer(&Write::Select { select, act })
    }

    fn answer(&mut self, question: &Write) -> Result<Written, Error> {
        self.ask(|store| store.answer(question))
    }

    fn ask<T: Send>(
        &mut self,
        ask: impl FnOnce(&mut dyn Outside) -> Result<T, StoreError> + Send,
    ) -> Result<T, Error> {
        let unavailable = |reason| Error::Unavailable { reason };
        let Some(store) = &mut self.store else {
            return Err(unavailable("a defect: the store is gone".to_owned()));
        };
        // The caller's thread may be one of a runtime, which must not turn another.
        let answer = thread::scope(|scope| scope.spawn(|| ask(store.as_mut())).join());
        match answer {
            Ok(answer) => answer.map_err(|error| unavailable(error.reason)),
            Err(_) => Err(unavailable("a defect: the look panicked".to_owned())),
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let store = self.store.take();
        // It says goodbye, by a runtime of its own.
        thread::scope(|scope| _ = scope.spawn(|| drop(store)).join());
    }
}
