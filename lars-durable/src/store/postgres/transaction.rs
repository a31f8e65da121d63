//! One transaction: its clock, its requests in their order, its commit.

use futures::future::join;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::errors::Failure;
use super::session::Session;
use super::values::Id;
use crate::store::{Reply, Request, Write};
use crate::time::Timestamp;

pub(super) type Result<T> = std::result::Result<T, Failure>;

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
}

impl<'a> Transaction<'a> {
    pub(super) async fn begin(
        session: &'a Session,
        group: &'a str,
        notifies: bool,
        last_batch: Option<(u128, i64)>,
        around_locks: bool,
    ) -> Result<Self> {
        session.set_committing(false);
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
        // Both are sent before the first is answered.
        let clock = session.query("SELECT lars.clock(), pg_catalog.pg_backend_pid()", &[]);
        let (begun, clock) = join(session.execute(begin), clock).await;
        begun.map_err(|error| Failure::at_begin(&error))?;
        let row = &clock?[0];
        if row.get::<_, i32>(1) != session.pid() {
            return Err(Failure::pooler());
        }
        let clock = row.get(0);
        let repeats = false;
        Ok(Self { session, group, notifies, clock, last_batch, repeats, around_locks })
    }

    pub(super) async fn carry_out(&mut self, requests: &[Request]) -> Result<Vec<Reply>> {
        let mut replies = Vec::with_capacity(requests.len());
        while let Some(first) = requests.get(replies.len()) {
            let rest = &requests[replies.len()..];
            match first {
                // Consecutive ones are one statement.
                Request::Load { .. } => {
                    let loads: Vec<&Request> = rest
                        .iter()
                        .take_while(|request| matches!(request, Request::Load { .. }))
                        .collect();
                    replies.extend(self.load(&loads).await?);
                }
                Request::Write(write) if is_by_key(write) && !self.repeats => {
                    let writes: Vec<&Write> = rest.iter().map_while(by_key).collect();
                    let written = self.write_by_key(&writes).await?;
                    replies.extend(written.into_iter().map(Reply::Written));
                }
                Request::Write(write) => replies.push(Reply::Written(self.write(write).await?)),
                Request::Keep(keep) => replies.push(self.keep(keep).await?),
                Request::Batch { writer, token } if self.follows(*writer, *token) => {
                    let writes: Vec<&Write> = rest[1..].iter().map_while(by_key).collect();
                    // Both are sent before the first is answered.
                    let stored = self.store_batch(*writer, *token);
                    let (stored, written) = join(stored, self.write_by_key(&writes)).await;
                    stored?;
                    self.last_batch = Some((*writer, *token));
                    replies.push(Reply::Done);
                    replies.extend(written?.into_iter().map(Reply::Written));
                }
                Request::Batch { writer, token } => {
                    self.batch(*writer, *token).await?;
                    replies.push(Reply::Done);
                }
                Request::Ids { count } => {
                    let row = self.query("SELECT lars.draw($1)", &[count]).await?;
                    replies.push(Reply::Ids { first: row[0].get(0), count: *count });
                }
                Request::Read { ids } => replies.push(Reply::Loaded(self.read(ids).await?)),
                Request::Start { node, lead, starts } => {
                    replies.push(self.start(*node, *lead, starts).await?);
                }
                Request::Finish(finishes) => {
                    replies.push(Reply::Finished(self.finish(finishes).await?));
                }
                Request::PutOff { ids, least, most } => {
                    replies.push(Reply::PutOff(self.put_off(ids, *least, *most).await?));
                }
                Request::Park { ids, before, reason } => {
                    replies.push(Reply::Parked(self.park(ids, *before, reason).await?));
                }
                Request::Forget => {
                    self.forget().await?;
                    replies.push(Reply::Done);
                }
            }
        }
        Ok(replies)
    }

    /// Returns the last batch of calls that this session knows to be committed.
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

    /// Whether this batch is not the last one of its writer, whose outcome is known here.
    fn follows(&self, writer: u128, token: i64) -> bool {
        self.last_batch.is_some_and(|(of, last)| of == writer && last != token)
    }

    /// A batch of which the table has to be asked.
    async fn batch(&mut self, writer: u128, token: i64) -> Result<()> {
        let sql = "SELECT token FROM lars.batch WHERE writer = $1";
        let rows = self.query(sql, &[&Id(writer)]).await?;
        self.repeats = rows.first().is_some_and(|row| row.get::<_, i64>(0) == token);
        if !self.repeats {
            self.store_batch(writer, token).await?;
        }
        self.last_batch = Some((writer, token));
        Ok(())
    }

    async fn store_batch(&self, writer: u128, token: i64) -> Result<()> {
        let sql = "INSERT INTO lars.batch (writer, token, at) VALUES ($1, $2, $3)
                   ON CONFLICT (writer) DO UPDATE SET token = EXCLUDED.token, at = EXCLUDED.at";
        self.query(sql, &[&Id(writer), &token, &self.clock]).await?;
        Ok(())
    }

    async fn forget(&self) -> Result<()> {
        let sql = "DELETE FROM lars.used_key WHERE grp = $1 AND until <= $2";
        self.query(sql, &[&self.group, &self.clock]).await?;
        Ok(())
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
    #[cfg(feature = "actors")]
    if matches!(write, Write::Remove { .. }) {
        return true;
    }
    matches!(write, Write::Schedule(_) | Write::Cancel { .. } | Write::Reset { .. })
}
