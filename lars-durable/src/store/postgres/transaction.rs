//! One transaction: its clock, its requests in their order, its commit.
//!
//! Round trips are what a transaction costs. So requests that one statement can serve go together,
//! and two statements that need nothing of each other are sent before the first is answered. The
//! order of the requests stays what it was as far as anybody can see.
//!
//! The isolation is `READ COMMITTED`: each statement sees what was committed before it began. A
//! verb that decides by what it has read locks it first, or has an index that refuses what is wrong
//! by then.

use std::collections::BTreeSet;
use std::ops::Range;

use futures::future::join;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::errors::Failure;
use super::floor::{Floor, Floors};
use super::session::Session;
use super::values::Id;
use crate::model::{Old, TimerId, Which};
use crate::store::{History, Reply, Request, Subject, Write, Written};
use crate::time::Timestamp;

pub(super) type Result<T> = std::result::Result<T, Failure>;

const KNOWN_BATCH: &str = "SELECT 1 FROM lars.batch WHERE writer = $1 AND token = $2";

const STORE_BATCH: &str = "INSERT INTO lars.batch (writer, token, at) VALUES ($1, $2, $3)";

/// Within bounds, because below them there may be dead rows without end.
const FORGET_BATCHES: &str =
    "DELETE FROM lars.batch WHERE writer = $1 AND token >= $2 AND token < $3";

/// How many batches of a writer are forgotten at a time.
const KEPT_BATCHES: i64 = 256;

/// As much as the sequence grows by: see `sql/1.sql`.
const BLOCK: i64 = 1_024;

const DRAW: &str = "SELECT pg_catalog.nextval('lars.timer_id')
       FROM pg_catalog.generate_series(1, $1::bigint)";

/// By the index `used_key_until`, which no other condition fits. A transaction of a user holds the
/// key of a run that it ends.
const FORGET: &str = "WITH gone AS (
       DELETE FROM lars.used_key WHERE grp = $1 AND key = ANY (ARRAY(
              SELECT key FROM lars.used_key WHERE grp = $1 COLLATE \"POSIX\" AND until <= $2
                 AND until >= $4 ORDER BY until LIMIT $3 FOR UPDATE SKIP LOCKED))
       RETURNING until)
     SELECT pg_catalog.count(*), pg_catalog.max(until) FROM gone";

/// A transaction that has begun. It ends with [`commit`](Self::commit), or is rolled back with its
/// session's next word.
///
/// The verbs are in the modules below, one for each kind of request. A verb sends its statements
/// itself, and fails with the whole transaction: nothing here is half done.
pub(super) struct Transaction<'a> {
    session: &'a Session,
    pub(super) group: &'a str,
    /// Whether other nodes are notified of what they would find out later.
    pub(super) notifies: bool,
    /// What the server's clock showed at the beginning: every date of the transaction counts from
    /// it.
    pub(super) clock: Timestamp,
    /// The last batch of calls of this session that is known to be committed.
    last_batch: Option<(u128, i64)>,
    /// The writes were carried out before.
    pub(super) repeats: bool,
    /// Leaves alone what other transactions hold.
    pub(super) around_locks: bool,
    /// What was left alone, because another transaction held it: later calls about it leave it
    /// alone too, even if it is free by then, so that they stay in their order.
    left_alone: BTreeSet<Subject>,
}

impl<'a> Transaction<'a> {
    /// Begins it, and asks for the time. The session must not be in a transaction.
    pub(super) async fn begin(
        session: &'a Session,
        group: &'a str,
        notifies: bool,
        last_batch: Option<(u128, i64)>,
        around_locks: bool,
    ) -> Result<Self> {
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
        let mut begun = Self::begin_with(begin, session, group).await?;
        (begun.notifies, begun.last_batch, begun.around_locks) =
            (notifies, last_batch, around_locks);
        Ok(begun)
    }

    /// One in which the server refuses every write.
    pub(super) async fn begin_look(session: &'a Session, group: &'a str) -> Result<Self> {
        Self::begin_with("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY", session, group).await
    }

    async fn begin_with(begin: &str, session: &'a Session, group: &'a str) -> Result<Self> {
        session.set_committing(false);
        // Both are sent before the first is answered.
        let clock = session.query("SELECT lars.clock(), pg_catalog.pg_backend_pid()", &[]);
        let (begun, clock) = join(session.execute(begin), clock).await;
        begun.map_err(|error| Failure::at_begin(&error))?;
        let row = &clock?[0];
        if row.get::<_, i32>(1) != session.pid() {
            return Err(Failure::pooler());
        }
        let clock = row.get(0);
        Ok(Self {
            session,
            group,
            notifies: false,
            clock,
            last_batch: None,
            repeats: false,
            around_locks: false,
            left_alone: BTreeSet::new(),
        })
    }

    /// One reply for each request, in their order.
    pub(super) async fn carry_out(
        &mut self,
        requests: &[Request],
        floors: &mut Floors,
    ) -> Result<Vec<Reply>> {
        floors.lower(self.clock);
        let mut replies = Vec::with_capacity(requests.len());
        while let Some(first) = requests.get(replies.len()) {
            let rest = &requests[replies.len()..];
            match first {
                // Consecutive ones are one statement.
                Request::Load { .. } => replies.extend(self.load(rest).await?),
                Request::Write(write) if is_by_key(write) && !self.repeats => {
                    let writes: Vec<&Write> = rest.iter().map_while(by_key).collect();
                    let (now, left) = self.divide(&writes);
                    let written = self.write_by_key(&now).await?;
                    replies.extend(self.answers(&writes, &left, written));
                }
                Request::Write(write) if is_by_id(write) && !self.repeats => {
                    let writes: Vec<&Write> = rest.iter().map_while(by_id).collect();
                    let (now, left) = self.divide(&writes);
                    let written = self.write_by_id(&now).await?;
                    replies.extend(self.answers(&writes, &left, written));
                }
                Request::Write(write) => {
                    let (now, left) = self.divide(&[write]);
                    let written = match now.first() {
                        Some(write) => vec![self.write_or_leave(write).await?],
                        None => Vec::new(),
                    };
                    replies.extend(self.answers(&[write], &left, written));
                }
                Request::Batch { writer, token, history }
                    if self.follows(*writer, *token) && self.is_history(*history) =>
                {
                    let writes: Vec<&Write> = rest[1..].iter().map_while(by_key).collect();
                    // Both are sent before the first is answered.
                    let stored = self.store_batch(*writer, *token);
                    let (stored, written) = join(stored, self.write_by_key(&writes)).await;
                    stored?;
                    self.last_batch = Some((*writer, *token));
                    replies.push(Reply::Batched);
                    let left = vec![false; writes.len()];
                    replies.extend(self.answers(&writes, &left, written?));
                }
                alone => replies.push(self.carry_out_one(alone, floors).await?),
            }
        }
        Ok(replies)
    }

    /// Those of these calls that are carried out now; and which ones are left alone, because an
    /// earlier one was that is about the same.
    fn divide<'w>(&mut self, writes: &[&'w Write]) -> (Vec<&'w Write>, Vec<bool>) {
        if self.left_alone.is_empty() {
            return (writes.to_vec(), vec![false; writes.len()]);
        }
        let (mut now, mut left) = (Vec::new(), Vec::with_capacity(writes.len()));
        for write in writes {
            let subjects = write.subjects();
            let is_left = subjects.iter().any(|subject| self.left_alone.contains(subject));
            if is_left {
                self.left_alone.extend(subjects);
            } else {
                now.push(*write);
            }
            left.push(is_left);
        }
        (now, left)
    }

    /// One reply for each of these calls, of which those that were not `left` did this.
    fn answers(&mut self, writes: &[&Write], left: &[bool], written: Vec<Written>) -> Vec<Reply> {
        let mut written = written.into_iter();
        let mut replies = Vec::with_capacity(writes.len());
        for (write, left) in writes.iter().zip(left) {
            let did = match left {
                true => Written::Held,
                false => written.next().expect("each call has an answer"),
            };
            if did == Written::Held {
                self.left_alone.extend(write.subjects());
            }
            replies.push(Reply::Written(did));
        }
        replies
    }

    /// What goes with no other.
    async fn carry_out_one(&mut self, request: &Request, floors: &mut Floors) -> Result<Reply> {
        Ok(match request {
            Request::Load { .. } | Request::Write(_) => unreachable!("they go together"),
            Request::Keep(keep) => self.keep(keep).await?,
            Request::Batch { writer, token, history } => {
                self.batch(*writer, *token, *history).await?;
                Reply::Batched
            }
            Request::Ids { count } => {
                let history = self.session.history();
                Reply::Ids { blocks: self.draw(*count).await?, history }
            }
            Request::Read { ids, letters } => Reply::Loaded(self.read(ids, letters).await?),
            Request::Start { node, lead, starts } => self.start(*node, *lead, starts).await?,
            Request::Finish(finishes) => Reply::Finished(self.finish(finishes).await?),
            Request::PutOff { timers, least, most } => {
                Reply::PutOff(self.put_off(timers, *least, *most).await?)
            }
            Request::Park { timers, before, reason } => {
                Reply::Parked(self.park(timers, *before, reason).await?)
            }
            Request::Record(runs) => {
                self.record(runs, &mut floors.run).await?;
                Reply::Recorded
            }
            Request::Prune { old, kept, limit } => Reply::Pruned(match old {
                Old::Parked => self.prune(*kept, *limit, &mut floors.parked).await?,
                Old::Runs => self.prune_runs(*kept, *limit, &mut floors.run).await?,
            }),
            Request::Forget { limit } => {
                Reply::Forgotten(self.forget(*limit, &mut floors.used_key).await?)
            }
        })
    }

    /// Returns the last batch of calls that this session knows to be committed. While this is under
    /// way, and if it fails, the session says that it is committing.
    pub(super) async fn commit(self) -> Result<Option<(u128, i64)>> {
        #[cfg(test)]
        crate::failpoint::may_die("before-commit");
        self.session.set_committing(true);
        self.session.execute("COMMIT").await?;
        self.session.set_committing(false);
        #[cfg(test)]
        crate::failpoint::may_die("after-commit");
        Ok(self.last_batch)
    }

    pub(super) fn session(&self) -> &'a Session {
        self.session
    }

    pub(super) async fn query(
        &self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        Ok(self.session.query(sql, parameters).await?)
    }

    /// At least `count` identities that nobody else has.
    pub(super) async fn draw(&self, count: i64) -> Result<Vec<Range<TimerId>>> {
        let blocks = (count + BLOCK - 1) / BLOCK;
        let drawn = self.query(DRAW, &[&blocks]).await?;
        let blocks = drawn.iter().map(|row| row.get(0)).map(|first: TimerId| first..first + BLOCK);
        Ok(blocks.collect())
    }

    /// Whether identities of this history are their owners' own.
    fn is_history(&self, history: Option<History>) -> bool {
        history.is_none_or(|history| history == self.session.history())
    }

    /// Whether this batch is not the last one of its writer, whose outcome is known here.
    fn follows(&self, writer: u128, token: i64) -> bool {
        self.last_batch.is_some_and(|(of, last)| of == writer && last != token)
    }

    /// A batch of which the table has to be asked.
    async fn batch(&mut self, writer: u128, token: i64, history: Option<History>) -> Result<()> {
        self.repeats = !self.query(KNOWN_BATCH, &[&Id(writer), &token]).await?.is_empty();
        if !self.repeats {
            // What was carried out before had its identities: they were drawn before that.
            if !self.is_history(history) {
                return Err(Failure::other_history());
            }
            self.store_batch(writer, token).await?;
        }
        self.last_batch = Some((writer, token));
        Ok(())
    }

    /// From here on this batch is the last one of its writer. What became of those before is known.
    async fn store_batch(&self, writer: u128, token: i64) -> Result<()> {
        self.query(STORE_BATCH, &[&Id(writer), &token, &self.clock]).await?;
        if token % KEPT_BATCHES == 0 {
            // Some may be left that failed to be forgotten.
            let first = token.saturating_sub(4 * KEPT_BATCHES);
            self.query(FORGET_BATCHES, &[&Id(writer), &first, &token]).await?;
        }
        Ok(())
    }

    /// Keys whose time is over.
    async fn forget(&self, limit: usize, floor: &mut Floor) -> Result<usize> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let begin = floor.begin(self.clock);
        let row = &self.query(FORGET, &[&self.group, &self.clock, &limit, &begin]).await?[0];
        floor.raise(row.get(1), self.clock);
        Ok(usize::try_from(row.get::<_, i64>(0)).unwrap_or(0))
    }
}

fn by_key(request: &Request) -> Option<&Write> {
    match request {
        Request::Write(write) if is_by_key(write) => Some(write),
        _ => None,
    }
}

/// What is decided together, by the keys that are there.
fn is_by_key(write: &Write) -> bool {
    match write.asked() {
        Write::Schedule(_) | Write::Remove { .. } => true,
        Write::Cancel { which } | Write::Reset { which, .. } => matches!(which, Which::Key(_)),
        _ => false,
    }
}

fn by_id(request: &Request) -> Option<&Write> {
    match request {
        Request::Write(write) if is_by_id(write) => Some(write),
        _ => None,
    }
}

/// What is decided together, by identity.
fn is_by_id(write: &Write) -> bool {
    match write {
        Write::EndSeries { .. } => true,
        Write::Cancel { which } | Write::Reset { which, .. } => matches!(which, Which::Id(_)),
        _ => false,
    }
}
