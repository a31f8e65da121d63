//! A run, as its handler sees it.

#[cfg(feature = "postgres")]
use std::convert::Infallible;
use std::fmt;
use std::time::{Duration, SystemTime};

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::error::TransactionError;
#[cfg(feature = "sqlite")]
use crate::model::Fence;
use crate::model::Row;
use crate::runtime::{CancelToken, Lease, Shared, Signal};
#[cfg(feature = "postgres")]
use crate::store::completion;
use crate::sync::Arc;
use crate::time::{Mono, Timestamp};

/// A run of a timer that is due.
///
/// A handler may see the same timer again: after a failure, and when the process died before the
/// end of the run was recorded. [`fence`](Self::fence) tells the runs apart, and grows with each.
///
/// # Examples
///
/// ```
/// use lars_durable::{Fired, Payload};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct PaymentDue { order: u64 }
/// impl Payload for PaymentDue { const NAME: &'static str = "payment-due"; }
///
/// /// The provider ignores a second request with the same key.
/// fn charge(due: &Fired<PaymentDue>) -> Result<(), std::io::Error> {
///     let (order, key) = (due.payload().order, due.idempotency_key());
///     println!("POST /charges order={order}&idempotency_key={key} (attempt {})", due.attempt());
///     Ok(()) // an error is retried, by the handler's backoff
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let durable = lars_durable::Durable::in_memory().handle(charge).start()?;
/// # durable.close()?;
/// # Ok(()) }
/// ```
pub struct Fired<P> {
    payload: P,
    row: Arc<Row>,
    fence: u64,
    began: Timestamp,
    /// The same by the clock that nobody sets.
    began_here: Mono,
    limit: Option<Duration>,
    lease: Lease,
    /// Its row is gone.
    deleted: bool,
    shared: Arc<Shared>,
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    signal: Arc<Signal>,
    cancellation: CancelToken,
}

impl<P> Fired<P> {
    pub(super) fn new(
        payload: P,
        row: Arc<Row>,
        fence: u64,
        limit: Option<Duration>,
        (lease, deleted): (Lease, bool),
        (shared, signal): (Arc<Shared>, Arc<Signal>),
    ) -> Self {
        let (began, began_here) = (shared.gate.store_now(), shared.gate.now());
        Self {
            payload,
            row,
            fence,
            began,
            began_here,
            limit,
            lease,
            deleted,
            shared,
            #[cfg(any(feature = "postgres", feature = "sqlite"))]
            signal: Arc::clone(&signal),
            cancellation: CancelToken::new(signal),
        }
    }

    /// Whether it may begin at this moment.
    pub(super) fn may_begin(&self) -> bool {
        self.shared.gate.opens(self.row.deadline, self.deleted, &self.lease)
    }

    /// Acknowledges the run in the handler's own transaction in PostgreSQL. What the handler writes
    /// to the same database and the end of the run are committed together, or not at all. That is
    /// effectively once.
    ///
    /// `execute` gets a statement with two parameters, `$1` and `$2`, both `bigint`. It executes
    /// the statement in the transaction, with any driver, and returns how many rows that changed.
    /// For a repeat the statement plans the next run. After this call, commit, and return.
    ///
    /// Whether the timer is done is then decided by that transaction alone, whatever the handler
    /// returns: once the handler has returned, the node looks at the timer's row. If the
    /// transaction was committed, the timer is done, even if the handler failed because the answer
    /// to its commit was lost. If it was rolled back, the run has failed, and is retried. If it is
    /// still open, it holds the row, and the node waits for its end.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; roll the transaction back. [`Stale`](TransactionError::Stale) means
    /// that another run has begun, with a greater fence, or that the timer is gone. An
    /// [at-most-once](super::Handler::at_most_once) handler always gets it, because its timers are
    /// deleted before they run.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lars_durable::{Fired, Payload};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Payment { order: i64 }
    /// impl Payload for Payment { const NAME: &'static str = "payment"; }
    ///
    /// async fn pay(
    ///     due: Fired<Payment>,
    ///     client: &mut tokio_postgres::Client,
    /// ) -> Result<(), Box<dyn std::error::Error>> {
    ///     let transaction = client.transaction().await?;
    ///     let paid = "UPDATE orders SET paid = true WHERE id = $1";
    ///     transaction.execute(paid, &[&due.payload().order]).await?;
    ///     let (statement, [id, fence]) = due.completion()?;
    ///     if transaction.execute(&statement, &[&id, &fence]).await? == 0 {
    ///         return Err("another run has begun".into());     // dropped: rolled back
    ///     }
    ///     transaction.commit().await?;
    ///     Ok(())
    /// }
    /// ```
    #[cfg(feature = "postgres")]
    pub fn complete_in<E>(
        &self,
        execute: impl FnOnce(&str, [i64; 2]) -> Result<u64, E>,
    ) -> Result<(), TransactionError<E>> {
        let (statement, parameters) = self.completion().map_err(|error| match error {
            TransactionError::Failed(never) => match never {},
            _ => TransactionError::OtherStore,
        })?;
        match execute(&statement, parameters)? {
            0 => {
                // Nothing was recorded: the run ends as the handler says, if it may end at all.
                self.signal.acknowledge(false);
                Err(TransactionError::Stale)
            }
            _ => Ok(()),
        }
    }

    /// The statement of [`complete_in`](Self::complete_in) and its parameters, for drivers whose
    /// calls are awaited. If it changes no row, roll the transaction back and fail. From this call
    /// on the run counts as acknowledged only if the row says so: ask for the statement only to
    /// execute it.
    ///
    /// # Errors
    ///
    /// [`TransactionError::OtherStore`].
    #[cfg(feature = "postgres")]
    pub fn completion(&self) -> Result<(String, [i64; 2]), TransactionError<Infallible>> {
        if self.shared.gate.local_store_now().is_some() {
            return Err(TransactionError::OtherStore);
        }
        let statement = completion(&self.row, self.shared.gate.store_now());
        self.signal.acknowledge(true);
        Ok((statement, [self.row.id, self.fence.cast_signed()]))
    }

    /// Acknowledges the run in the handler's own transaction in the file of the node. What the
    /// handler writes to the file and the end of the run are committed together, or not at all.
    /// That is effectively once.
    ///
    /// For a repeat it plans the next run. After this call, commit, and return. Whether the timer
    /// is done is then decided by that transaction alone, whatever the handler returns: if it was
    /// rolled back, the run has failed, and is retried.
    ///
    /// Until the handler commits, nobody else can write to the file. So begin late, and do not wait
    /// for a call of [`Timers`](crate::Timers) in between: that would wait for the handler.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; roll the transaction back. [`Stale`](TransactionError::Stale) means
    /// that another run has begun, with a greater fence, or that the timer is gone. An
    /// [at-most-once](super::Handler::at_most_once) handler always gets it, because its timers are
    /// deleted before they run.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lars_durable::{Fired, Payload};
    /// use rusqlite::{Connection, TransactionBehavior};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Payment { order: i64 }
    /// impl Payload for Payment { const NAME: &'static str = "payment"; }
    ///
    /// fn pay(due: &Fired<Payment>) -> Result<(), Box<dyn std::error::Error>> {
    ///     let mut connection = Connection::open("shop.db")?;   // the file of the node
    ///     let behavior = TransactionBehavior::Immediate;
    ///     let transaction = connection.transaction_with_behavior(behavior)?;
    ///     transaction.execute("UPDATE orders SET paid = 1 WHERE id = ?1", [due.payload().order])?;
    ///     due.complete_in_file(&transaction)?;                 // an error rolls back
    ///     Ok(transaction.commit()?)
    /// }
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn complete_in_file(
        &self,
        transaction: &rusqlite::Transaction<'_>,
    ) -> Result<(), TransactionError<rusqlite::Error>> {
        let file = self.shared.file.as_ref().ok_or(TransactionError::OtherStore)?;
        let fence = Fence(self.fence.cast_signed());
        file.complete(transaction, &self.row, fence, self.shared.gate.store_now())?;
        self.signal.acknowledge(true);
        Ok(())
    }

    /// What the timer carries.
    pub fn payload(&self) -> &P {
        &self.payload
    }

    /// The timer's key.
    pub fn key(&self) -> Option<&str> {
        self.row.key.as_deref()
    }

    /// The identity of this run, for whatever has to happen once: the idempotency key of a
    /// payment, the primary key of a row, the message id of a mail. The same for each attempt, also
    /// if the timer is moved or cancelled in between, and the same for no other run: neither of
    /// this timer, nor of another file or database. At most 80 bytes of hexadecimal digits and `-`.
    ///
    /// A copy of a file or database has the identity of the original. After you have restored a
    /// backup, [declare that](super::Durable::declare_restored).
    pub fn idempotency_key(&self) -> String {
        self.row.idempotency_key()
    }

    /// The timer's number in its file or database: the same for all its runs, and not used again
    /// there. Others have the same numbers, so for the outside there is
    /// [`idempotency_key`](Self::idempotency_key).
    pub fn id(&self) -> u64 {
        self.row.id.unsigned_abs()
    }

    /// When the run was planned for, by the store's clock. The same for each attempt; later runs of
    /// a repeat count from it.
    pub fn due(&self) -> SystemTime {
        self.row.planned.to_system().unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// How long after its deadline the run began. (The deadline of a later attempt is the end of
    /// its pause.)
    pub fn lateness(&self) -> Duration {
        self.began.since(self.row.deadline)
    }

    /// The number of this attempt, from 1. An attempt that a crash interrupted counts.
    pub fn attempt(&self) -> u32 {
        self.row.attempt
    }

    /// The fencing token of this run: greater than that of every earlier run of this timer, in
    /// whatever process. If your store refuses a token smaller than one it has seen, the
    /// handler's writes happen effectively once.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Whether the run need not go on: its timer was cancelled, the node is closing, or its lease
    /// has ended. A handler that takes long asks now and then; [why](Self::cancellation) it is told
    /// says what to return.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// What says that the run need not go on, and why: for futures, which await it, and for others
    /// who work for the handler.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::future::{Either, select};
    /// use lars_durable::{CancelReason, Fired, Outcome, Payload};
    /// use std::pin::pin;
    /// use std::time::Duration;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Export { account: u64 }
    /// impl Payload for Export { const NAME: &'static str = "export"; }
    ///
    /// # async fn write_export(_: u64) {}
    /// async fn export(due: Fired<Export>) -> Outcome {
    ///     let export = pin!(write_export(due.payload().account));
    ///     let cancelled = pin!(due.cancellation().cancelled());
    ///     match select(export, cancelled).await {
    ///         Either::Left(((), _)) => Outcome::Done,
    ///         Either::Right((CancelReason::Closing, _)) => Outcome::Snooze(Duration::ZERO),
    ///         Either::Right(_) => Outcome::Done, // nobody wants it, or another node has it
    ///     }
    /// }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let durable = lars_durable::Durable::in_memory().handle_future(export).start()?;
    /// # durable.close()?;
    /// # Ok(()) }
    /// ```
    pub fn cancellation(&self) -> &CancelToken {
        &self.cancellation
    }

    /// Whether the lease under which this run began still holds, as far as this process knows.
    /// `false` means that another run of this timer may have begun; its fence is greater.
    pub fn is_current(&self) -> bool {
        self.lease.is_valid(self.shared.gate.now())
    }

    /// What is left of the handler's time limit; `None` without one. A closure is not interrupted
    /// when nothing is left; a future is dropped.
    pub fn remaining(&self) -> Option<Duration> {
        let ran = self.shared.gate.now() - self.began_here;
        self.limit.map(|limit| limit.saturating_sub(ran.to_duration()))
    }
}

impl<P: fmt::Debug> fmt::Debug for Fired<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fired")
            .field("id", &self.id())
            .field("key", &self.key())
            .field("attempt", &self.attempt())
            .field("fence", &self.fence)
            .field("payload", &self.payload)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "test-kit"))]
mod tests {
    use mini_actor::test_kit::TestKit;

    use super::*;
    use crate::api::{Builder, Handler, Payload};
    use crate::store::{FaultyStore, MemoryStore};
    use crate::sync::{AtomicI64, Mutex, Ordering};

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Note;

    impl Payload for Note {
        const NAME: &'static str = "note";
    }

    #[test]
    fn what_is_left_of_a_time_limit_does_not_follow_a_clock_that_is_set() {
        const MINUTE: Duration = Duration::from_secs(60);
        const HOUR: i64 = 3_600_000_000;
        let kit = TestKit::new("test").unwrap();
        let time = kit.scheduler().timers().clone();
        let clock = Arc::new(AtomicI64::new(1_700_000_000_000_000));
        let (here, there) = (Arc::clone(&clock), Arc::clone(&clock));
        let store = MemoryStore::new(64, Arc::new(move || Timestamp(here.load(Ordering::Relaxed))));
        let left = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&left);
        let run = move |due: &Fired<Note>| {
            for step in [HOUR, -2 * HOUR] {
                there.fetch_add(step, Ordering::Relaxed);
                seen.lock().push(due.remaining());
            }
        };
        let node = Builder::on(FaultyStore::new(store), time, 7);
        let node = node.handler(Handler::new(run).time_limit(MINUTE)).start().unwrap();
        node.timers().schedule_once(Duration::ZERO, Note).submit().wait().unwrap();
        kit.advance(MINUTE);
        assert_eq!(*left.lock(), [Some(MINUTE); 2]);
    }
}
