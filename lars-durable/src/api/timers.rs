//! The calls about timers that exist.

use std::fmt;
use std::time::Duration;

use lars_scheduler::late::Lateness;

use super::answers::Cancel;
use super::inspection::{Inspection, Parked, RunsPage, RunsQuery, TimerInfo};
use super::which::Which;
use crate::engine::Answer;
use crate::error::Error;
#[cfg(feature = "sqlite")]
use crate::error::TransactionError;
use crate::model::{self, When};
use crate::runtime::{Shared, Submitted, promise};
#[cfg(feature = "sqlite")]
use crate::store::UserFile;
use crate::store::{StoreError, Write, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

/// Schedules, cancels, moves and shows timers of one group. Cheap to clone, `Send` and `Sync`.
///
/// Every call returns at once, with a [`Submitted`]. Calls of one thread take effect in their
/// order. (Where an SQL transaction holds a key, calls for it wait, and others overtake them.)
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_durable::schedule::Cancel;
/// use lars_durable::{Durable, Payload};
/// use std::time::Duration;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct PaymentDue { order: u64 }
/// impl Payload for PaymentDue { const NAME: &'static str = "payment-due"; }
///
/// let durable = Durable::in_memory().start()?; // without handlers: it runs no timers
/// let timers = durable.timers();
/// let day = Duration::from_secs(86_400);
/// timers.schedule_once(day, PaymentDue { order: 17 }).key("payment/17").submit().wait()?;
/// assert!(timers.reset("payment/17", 2 * day).wait()?); // one more day to pay
/// assert_eq!(timers.cancel("payment/17").wait()?, Cancel::Prevented); // paid
/// assert_eq!(timers.cancel("payment/17").wait()?, Cancel::NotFound);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Timers {
    shared: Arc<Shared>,
}

impl Timers {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.shared.gate.store_now()
    }

    /// Prevents the run of a timer, which is named by its key or its [identity](Which), if it has
    /// not started. Starts are recorded 5 ms before the deadline, so from then on it is too late to
    /// cancel.
    ///
    /// The store decides, so it does not matter which node has the timer in memory: none starts it
    /// any more. Of a timer whose run has begun, [`Cancel::Running`] says what is prevented.
    pub fn cancel<'a>(&self, which: impl Into<Which<'a>>) -> Submitted<Cancel> {
        self.by_which(which.into(), |which| Write::Cancel { which }, |written| Cancel::of(&written))
    }

    /// The same in the user's own transaction in the file of the node. The answer holds once that
    /// has committed.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; roll the transaction back.
    ///
    /// # Examples
    ///
    /// ```
    /// use lars_durable::Timers;
    /// use rusqlite::{Connection, TransactionBehavior};
    ///
    /// fn paid(
    ///     order: i64,
    ///     connection: &mut Connection,
    ///     timers: &Timers,
    /// ) -> Result<(), Box<dyn std::error::Error>> {
    ///     let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    ///     transaction.execute("UPDATE orders SET paid = 1 WHERE id = ?1", [order])?;
    ///     timers.cancel_in_file(&format!("payment/{order}"), &transaction)?;
    ///     Ok(transaction.commit()?)
    /// }
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn cancel_in_file<'a>(
        &self,
        which: impl Into<Which<'a>>,
        transaction: &rusqlite::Transaction<'_>,
    ) -> Result<Cancel, TransactionError<rusqlite::Error>> {
        let which = which.into().checked().map_err(TransactionError::Refused)?;
        Ok(Cancel::of(&self.file()?.cancel(transaction, which, self.now())?))
    }

    /// The file of the node.
    #[cfg(feature = "sqlite")]
    pub(super) fn file(&self) -> Result<&UserFile, TransactionError<rusqlite::Error>> {
        self.shared.file.as_ref().ok_or(TransactionError::OtherStore)
    }

    /// The group of the node, if its timers are in PostgreSQL.
    #[cfg(feature = "postgres")]
    pub(super) fn group(&self) -> Option<&str> {
        self.shared.gate.local_store_now().is_none().then_some(&*self.shared.group)
    }

    /// Moves the deadline of a timer, which is named by its key or its [identity](Which), to
    /// `delay` from now; of a repeat, that of its next run. `false` if it has started, or if there
    /// is no such timer.
    ///
    /// Pushing a deadline out costs a write of one column, and wakes nobody. The node that has the
    /// timer in memory is told of one that is pulled in, as of a new timer.
    pub fn reset<'a>(&self, which: impl Into<Which<'a>>, delay: Duration) -> Submitted<bool> {
        let when = When::After(delay.into());
        self.by_which(
            which.into(),
            |which| Write::Reset { which, when },
            |written| matches!(written, Written::Reset { .. }),
        )
    }

    /// The same in the user's own transaction in the file of the node. The answer holds once that
    /// has committed; the node finds a deadline that is pulled in within a tenth of a second.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; roll the transaction back.
    ///
    /// # Examples
    ///
    /// ```
    /// use lars_durable::Timers;
    /// use rusqlite::{Connection, TransactionBehavior};
    /// use std::time::Duration;
    ///
    /// fn put_off(
    ///     order: i64,
    ///     connection: &mut Connection,
    ///     timers: &Timers,
    /// ) -> Result<(), Box<dyn std::error::Error>> {
    ///     let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    ///     transaction.execute("UPDATE orders SET reminded = 1 WHERE id = ?1", [order])?;
    ///     let week = Duration::from_secs(7 * 86_400);
    ///     if !timers.reset_in_file(&format!("payment/{order}"), week, &transaction)? {
    ///         return Err("it is too late".into()); // dropped: rolled back
    ///     }
    ///     Ok(transaction.commit()?)
    /// }
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn reset_in_file<'a>(
        &self,
        which: impl Into<Which<'a>>,
        delay: Duration,
        transaction: &rusqlite::Transaction<'_>,
    ) -> Result<bool, TransactionError<rusqlite::Error>> {
        let which = which.into().checked().map_err(TransactionError::Refused)?;
        let when = When::After(delay.into());
        let written = self.file()?.reset(transaction, which, when, self.now())?;
        Ok(matches!(written, Written::Reset { .. }))
    }

    /// The timer with this key or [identity](Which), if it waits or runs.
    pub fn get<'a>(&self, which: impl Into<Which<'a>>) -> Submitted<Option<TimerInfo>> {
        self.by_which(which.into(), |which| Write::Get { which }, TimerInfo::of_written)
    }

    /// Inspects the whole group; see [`Durable::inspect`](crate::Durable::inspect).
    pub fn inspect(&self) -> Submitted<Inspection> {
        let (promise, submitted) = promise();
        self.shared.look(move |look| {
            let unavailable = |error: StoreError| Error::Unavailable { reason: error.reason };
            promise.fill(look.map(Inspection::of).map_err(unavailable));
        });
        submitted
    }

    /// Why runs of this node began late; see [`Durable::lateness`](crate::Durable::lateness). It
    /// is known after the node has closed, too.
    pub fn lateness(&self) -> Lateness {
        self.shared.late_runs()
    }

    /// Starts no more timers of this handler, in the whole group, until it is resumed, even after a
    /// restart. Running ones go on. Other nodes follow within a third of the lease.
    pub fn pause(&self, handler: &str) -> Submitted<()> {
        self.set_paused(handler, true)
    }

    /// Starts timers of this handler again; those that became due meanwhile start at once, in
    /// order.
    pub fn resume(&self, handler: &str) -> Submitted<()> {
        self.set_paused(handler, false)
    }

    fn set_paused(&self, handler: &str, paused: bool) -> Submitted<()> {
        self.write(Write::Pause { handler: handler.into(), paused }, |_| ())
    }

    /// The timer with this identity, if it was given up. [`list`](Self::list) shows all that were.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_durable::Durable;
    /// use lars_durable::query::{Query, State};
    ///
    /// let durable = Durable::in_memory().start()?;
    /// let timers = durable.timers();
    /// let page = timers.list(&Query::new().states([State::Parked]).handler("invoice")).wait()?;
    /// assert!(page.timers.is_empty()); // nothing was given up
    /// assert_eq!(timers.get_parked(17).wait()?, None);
    /// # Ok(()) }
    /// ```
    pub fn get_parked(&self, id: u64) -> Submitted<Option<Parked>> {
        self.write(Parked::get(id), move |written| Parked::of_written(written, id))
    }

    /// A page of runs that are over, the last one first, if nodes
    /// [remember](crate::Builder::history) them.
    ///
    /// # Examples
    ///
    /// Why the last runs of a handler have failed:
    ///
    /// ```
    /// use lars_durable::inspection::RunsQuery;
    /// use lars_durable::{Error, Timers};
    ///
    /// fn failures(timers: &Timers, handler: &str) -> Result<Vec<String>, Error> {
    ///     let page = timers.runs(RunsQuery::new().handler(handler)).wait()?;
    ///     Ok(page.runs.into_iter().filter_map(|run| run.error).collect())
    /// }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let durable = lars_durable::Durable::in_memory().start()?;
    /// # assert!(failures(&durable.timers(), "invoice")?.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn runs(&self, query: RunsQuery) -> Submitted<RunsPage> {
        self.write(query.to_write(), |written| RunsPage::of(query, written))
    }

    /// Lets a parked timer run again, now, with a full set of attempts. `false` if it is not
    /// parked.
    ///
    /// # Errors
    ///
    /// [`Refused::KeyTaken`](crate::Refused::KeyTaken) if another timer has its key by now.
    pub fn retry_parked(&self, id: u64) -> Submitted<bool> {
        let id = i64::try_from(id).unwrap_or(0);
        self.write(Write::RetryParked { id }, |written| matches!(written, Written::Placed(_)))
    }

    /// Deletes a parked timer. `false` if it is not parked.
    pub fn discard_parked(&self, id: u64) -> Submitted<bool> {
        let id = i64::try_from(id).unwrap_or(0);
        self.write(Write::DiscardParked { id }, |written| written == Written::Applied)
    }

    fn by_which<T: Send + 'static>(
        &self,
        which: Which<'_>,
        write: impl FnOnce(model::Which) -> Write,
        read: impl FnOnce(Answer) -> T + Send + 'static,
    ) -> Submitted<T> {
        match which.checked() {
            Ok(which) => self.write(write(which), read),
            Err(refused) => Submitted::ready(Err(refused.into())),
        }
    }

    pub(super) fn write<T: Send + 'static>(
        &self,
        write: Write,
        read: impl FnOnce(Answer) -> T + Send + 'static,
    ) -> Submitted<T> {
        let (promise, submitted) = promise();
        self.shared.call(write, move |answer: Result<Answer, Error>| {
            promise.fill(answer.map(read));
        });
        submitted
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").finish_non_exhaustive()
    }
}
