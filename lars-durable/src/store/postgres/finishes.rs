//! The end of runs, in SQL: a statement for each kind of end, whatever the size of the batch.
//!
//! Each statement names the fence, and changes a row only if it still has it. What no statement has
//! changed is [`Finished::Stale`]: that is what remains, and nobody asks for it.

use std::collections::HashMap;

use super::rows::{by_id, park_gone};
use super::transaction::{Result, Transaction};
use super::values::text;
use super::waves::waves;
use crate::model::{Finish, Finished, Then, TimerId};
use crate::time::{Micros, Timestamp};

/// What has become of each timer of a wave.
type Outcomes = HashMap<TimerId, Finished>;

/// The finishes of a wave by their kind: the columns of the statements.
#[derive(Default)]
struct Finishes {
    done: Done,
    next: Next,
    retry: Retry,
    back: Back,
    park: Park,
    park_run: ParkRun,
}

#[derive(Default)]
struct Done {
    ids: Vec<TimerId>,
    fences: Vec<i64>,
}

#[derive(Default)]
struct Next {
    ids: Vec<TimerId>,
    fences: Vec<i64>,
    dues: Vec<Timestamp>,
    planned: Vec<Timestamp>,
    /// Whether the run that is over counts as one.
    ran: Vec<bool>,
}

#[derive(Default)]
struct Retry {
    ids: Vec<TimerId>,
    fences: Vec<i64>,
    dues: Vec<Timestamp>,
    errors: Vec<String>,
}

#[derive(Default)]
struct Back {
    ids: Vec<TimerId>,
    fences: Vec<i64>,
    /// Not before this, nor before the deadline.
    earliest: Vec<Timestamp>,
    /// Now, if this node cannot run it.
    unknown_since: Vec<Option<Timestamp>>,
    ran: Vec<bool>,
}

impl Back {
    fn push(
        &mut self,
        (id, fence): (TimerId, i64),
        earliest: Timestamp,
        unknown_since: Option<Timestamp>,
        ran: bool,
    ) {
        self.ids.push(id);
        self.fences.push(fence);
        self.earliest.push(earliest);
        self.unknown_since.push(unknown_since);
        self.ran.push(ran);
    }
}

#[derive(Default)]
struct Park {
    ids: Vec<TimerId>,
    fences: Vec<i64>,
    reasons: Vec<String>,
}

/// A run that is parked, and how its series goes on.
#[derive(Default)]
struct ParkRun {
    reasons: Vec<String>,
    next: Next,
}

impl Finishes {
    fn of(finishes: &[&Finish], clock: Timestamp) -> Self {
        let mut sorted = Self::default();
        for Finish { id, fence, then } in finishes {
            let (id, fence) = (*id, fence.0);
            match &*then.by(clock) {
                Then::Done => sorted.done.push(id, fence),
                Then::Next { when, offset } => {
                    sorted.next.push((id, fence), when.by(clock), *offset, true);
                }
                Then::LeftOut { when, offset } => {
                    sorted.next.push((id, fence), when.by(clock), *offset, false);
                }
                Then::ParkRun { reason, when, offset } => {
                    sorted.park_run.reasons.push(text(reason).into_owned());
                    sorted.park_run.next.push((id, fence), when.by(clock), *offset, true);
                }
                Then::Retry { after, error } => {
                    sorted.retry.ids.push(id);
                    sorted.retry.fences.push(fence);
                    sorted.retry.dues.push(clock + *after);
                    sorted.retry.errors.push(text(error).into_owned());
                }
                Then::GiveBack { after, ran } => {
                    sorted.back.push((id, fence), clock + *after, None, *ran);
                }
                Then::PutOff { after } => {
                    sorted.back.push((id, fence), clock + *after, Some(clock), false);
                }
                Then::Park { reason } => {
                    sorted.park.ids.push(id);
                    sorted.park.fences.push(fence);
                    sorted.park.reasons.push(text(reason).into_owned());
                }
            }
        }
        sorted
    }
}

impl Next {
    fn push(&mut self, (id, fence): (TimerId, i64), planned: Timestamp, offset: Micros, ran: bool) {
        self.ids.push(id);
        self.fences.push(fence);
        self.dues.push(planned + offset);
        self.planned.push(planned);
        self.ran.push(ran);
    }
}

impl Done {
    fn push(&mut self, id: TimerId, fence: i64) {
        self.ids.push(id);
        self.fences.push(fence);
    }
}

impl Transaction<'_> {
    /// In the order of `finishes`.
    pub(super) async fn finish(&self, finishes: &[Finish]) -> Result<Vec<Finished>> {
        let mut all = Vec::with_capacity(finishes.len());
        for wave in waves(finishes, |finish| finish.id) {
            let mut outcomes = Outcomes::new();
            let mut open: Vec<&Finish> = wave.iter().collect();
            if self.around_locks {
                let ids: Vec<TimerId> = wave.iter().map(|finish| finish.id).collect();
                // In this order: one that is gone in between is no longer there.
                let free = self.not_held(&ids).await?;
                let there = self.there_are(&ids).await?;
                outcomes.extend(there.difference(&free).map(|id| (*id, Finished::Held)));
                open.retain(|finish| free.contains(&finish.id));
            }
            self.finish_wave(&open, &mut outcomes).await?;
            all.extend(
                wave.iter().map(|finish| outcomes.remove(&finish.id).unwrap_or(Finished::Stale)),
            );
        }
        Ok(all)
    }

    async fn finish_wave(&self, finishes: &[&Finish], outcomes: &mut Outcomes) -> Result<()> {
        let Finishes { mut done, next, retry, back, mut park, park_run } =
            Finishes::of(finishes, self.clock);
        self.go_on(&next, outcomes).await?;
        // The others are a series no longer.
        for (id, fence) in next.ids.iter().zip(&next.fences) {
            if !outcomes.contains_key(id) {
                done.push(*id, *fence);
            }
        }
        self.give_up_runs(park_run, &mut park, outcomes).await?;
        self.retry(&retry, outcomes).await?;
        self.give_back(&back, outcomes).await?;
        self.give_up(&park, outcomes).await?;
        self.end(&done, outcomes).await
    }
}

const GO_ON: &str = concat!(
    "UPDATE lars.timer t
        SET fence = NULL, planned_at = f.planned, due_at = f.due, deadline = f.due,
            attempt = 0, deaths = 0, last_error = NULL, unknown_since = NULL,
            run = t.run + f.ran::int
       FROM unnest($2::bigint[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::boolean[])
            AS f (id, fence, due, planned, ran)
      WHERE ",
    by_id!("f"),
    " AND t.fence = f.fence AND t.repeat IS NOT NULL
     RETURNING t.id, t.due_at",
);

impl Transaction<'_> {
    /// The next run of a series; nothing, if it was cancelled meanwhile.
    async fn go_on(&self, next: &Next, outcomes: &mut Outcomes) -> Result<()> {
        let Next { ids, fences, dues, planned, ran } = next;
        if ids.is_empty() {
            return Ok(());
        }
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&self.group, ids, fences, dues, planned, ran];
        again(&self.query(GO_ON, &parameters).await?, outcomes);
        Ok(())
    }
}

const RETRY: &str = concat!(
    "UPDATE lars.timer t
        SET fence = NULL, due_at = f.due, deadline = f.due, deaths = 0, last_error = f.error,
            unknown_since = NULL
       FROM unnest($2::bigint[], $3::bigint[], $4::timestamptz[], $5::text[])
            AS f (id, fence, due, error)
      WHERE ",
    by_id!("f"),
    " AND t.fence = f.fence
     RETURNING t.id, t.due_at",
);

impl Transaction<'_> {
    /// The same run once more.
    async fn retry(&self, retry: &Retry, outcomes: &mut Outcomes) -> Result<()> {
        let Retry { ids, fences, dues, errors } = retry;
        if ids.is_empty() {
            return Ok(());
        }
        again(&self.query(RETRY, &[&self.group, ids, fences, dues, errors]).await?, outcomes);
        Ok(())
    }
}

const GIVE_BACK: &str = concat!(
    "UPDATE lars.timer t
        SET fence = NULL, attempt = greatest(t.attempt - 1, 0),
            due_at = greatest(t.deadline, f.earliest), deadline = greatest(t.deadline, f.earliest),
            unknown_since =
                CASE WHEN f.ran THEN NULL ELSE coalesce(t.unknown_since, f.unknown_since) END,
            deaths = CASE WHEN f.ran THEN 0 ELSE t.deaths END
       FROM unnest($2::bigint[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::boolean[])
            AS f (id, fence, earliest, unknown_since, ran)
      WHERE ",
    by_id!("f"),
    " AND t.fence = f.fence
     RETURNING t.id, t.due_at",
);

impl Transaction<'_> {
    /// As if it had not been started.
    async fn give_back(&self, back: &Back, outcomes: &mut Outcomes) -> Result<()> {
        let Back { ids, fences, earliest, unknown_since, ran } = back;
        if ids.is_empty() {
            return Ok(());
        }
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&self.group, ids, fences, earliest, unknown_since, ran];
        again(&self.query(GIVE_BACK, &parameters).await?, outcomes);
        Ok(())
    }
}

const GIVE_UP: &str = concat!(
    "WITH gone AS (
       DELETE FROM lars.timer t
        USING unnest($2::bigint[], $4::bigint[], $5::text[]) AS f (id, fence, reason)
        WHERE ",
    by_id!("f"),
    " AND t.fence = f.fence
       RETURNING t.*, f.reason) ",
    park_gone!("reason"),
);

impl Transaction<'_> {
    /// Parks what has run too often.
    async fn give_up(&self, park: &Park, outcomes: &mut Outcomes) -> Result<()> {
        let Park { ids, fences, reasons } = park;
        if ids.is_empty() {
            return Ok(());
        }
        let parked = self.query(GIVE_UP, &[&self.group, ids, &self.clock, fences, reasons]).await?;
        outcomes.extend(parked.iter().map(|row| (row.get(0), Finished::Parked)));
        Ok(())
    }
}

/// The series goes on without it, under the same identity and key. The row is locked, so that it is
/// still a series when that is written.
const PARK_RUN: &str = concat!(
    "INSERT INTO lars.parked (id, grp, bucket, deadline, planned_at, key, handler,
                              payload_version, payload, repeat, remember, attempt, deaths,
                              last_error, run, origin, tag, reason, parked_at)
     SELECT f.copy, t.grp, t.bucket, t.deadline, t.planned_at, t.key, t.handler,
            t.payload_version, t.payload, NULL, t.remember, t.attempt, t.deaths, t.last_error,
            t.run, t.id, t.tag, f.reason, $3
       FROM lars.timer t, unnest($2::bigint[], $4::bigint[], $5::bigint[], $6::text[])
            AS f (id, fence, copy, reason)
      WHERE ",
    by_id!("f"),
    " AND t.fence = f.fence AND t.repeat IS NOT NULL
        FOR UPDATE OF t",
);

impl Transaction<'_> {
    /// Parks runs of series, and plans their next ones. What is a series no longer is left to
    /// `park`.
    async fn give_up_runs(
        &self,
        ParkRun { reasons, next }: ParkRun,
        park: &mut Park,
        outcomes: &mut Outcomes,
    ) -> Result<()> {
        if next.ids.is_empty() {
            return Ok(());
        }
        let count = i64::try_from(next.ids.len()).unwrap_or(i64::MAX);
        let drawn = self.draw(count).await?;
        let copies: Vec<TimerId> = drawn.into_iter().flatten().take(next.ids.len()).collect();
        let Next { ids, fences, .. } = &next;
        self.query(PARK_RUN, &[&self.group, ids, &self.clock, fences, &copies, &reasons]).await?;
        self.go_on(&next, outcomes).await?;
        for ((id, fence), reason) in ids.iter().zip(fences).zip(reasons) {
            if !outcomes.contains_key(id) {
                park.ids.push(*id);
                park.fences.push(*fence);
                park.reasons.push(reason);
            }
        }
        Ok(())
    }
}

const END: &str = concat!(
    "DELETE FROM lars.timer t
      USING unnest($2::bigint[], $3::bigint[]) AS f (id, fence)
      WHERE ",
    by_id!("f"),
    " AND t.fence = f.fence
     RETURNING t.id, t.key, t.remember",
);

const REMEMBER: &str = "INSERT INTO lars.used_key (grp, key, until)
     SELECT $1, u.key, u.until FROM unnest($2::text[], $3::timestamptz[]) AS u (key, until)
     ON CONFLICT (grp, key) DO UPDATE SET until = EXCLUDED.until";

impl Transaction<'_> {
    /// Deletes them, and remembers the keys of those that ask for it.
    async fn end(&self, Done { ids, fences }: &Done, outcomes: &mut Outcomes) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let gone = self.query(END, &[&self.group, ids, fences]).await?;
        let (mut keys, mut untils): (Vec<&str>, Vec<Timestamp>) = (Vec::new(), Vec::new());
        for row in &gone {
            outcomes.insert(row.get(0), Finished::Gone);
            let remember = Micros(row.get(2));
            if let Some(key) = row.get::<_, Option<&str>>(1).filter(|_| remember > Micros::ZERO) {
                keys.push(key);
                untils.push(self.clock + remember);
            }
        }
        if !keys.is_empty() {
            self.query(REMEMBER, &[&self.group, &keys, &untils]).await?;
        }
        Ok(())
    }
}

/// These are due again.
fn again(found: &[tokio_postgres::Row], outcomes: &mut Outcomes) {
    outcomes.extend(found.iter().map(|row| (row.get(0), Finished::Again { due: row.get(1) })));
}
