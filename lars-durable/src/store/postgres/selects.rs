//! Walks through timers, in SQL: each step reads a bounded number of rows of an index.
//!
//! What matches is locked, asked once more, and changed. What another transaction holds is passed
//! over: it is a start, the end of a run, or a transaction of a user. For a key with which another
//! transaction makes a timer, a retry waits as long as a lane has patience.

use std::collections::{BTreeSet, HashMap};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::keys::{Changes, Holder};
use super::parked::ARE_PARKED;
use super::rows;
use super::transaction::{Result, Transaction};
use crate::model::{Act, BucketNo, Candidate, Cursor, Listed, Select, TimerId, Way};
use crate::store::{Selected, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

/// Reads what [`candidate`] does, of timers.
macro_rules! candidates {
    ($errors:literal, $rest:literal) => {
        concat!(
            "SELECT id, bucket, due_at, deadline, fence IS NOT NULL, attempt, handler, key,
                    CASE WHEN ",
            $errors,
            " THEN last_error END, NULL::text, tag",
            $rest,
        )
    };
}

const BUCKETS: &str = "SELECT bucket FROM lars.bucket WHERE grp = $1 AND bucket >= $2
      ORDER BY bucket";

const BY_TIME: &str = candidates!(
    "$7",
    " FROM lars.timer
      WHERE grp = $1 COLLATE \"POSIX\" AND bucket = $2 AND (due_at, id) > ($3, $4)
        AND due_at <= $5
      ORDER BY due_at, id LIMIT $6"
);

const BY_TAG: &str = candidates!(
    "$7",
    " FROM lars.timer
      WHERE grp = $1 AND tag = $2 AND (due_at, id) > ($3, $4) AND due_at <= $5
      ORDER BY due_at, id LIMIT $6"
);

/// All groups share the index of the keys: what is read of others counts as looked at.
const BY_KEY: &str = candidates!(
    "$5",
    ", grp FROM (SELECT * FROM lars.timer
                  WHERE key >= $1 AND key < $3 AND (key, grp) > ($1, $2)
                  ORDER BY key, grp LIMIT $4) AS first ORDER BY key, grp"
);

/// The timer of this group with a key.
const OF_KEY: &str = candidates!("$3", " FROM lars.timer WHERE grp = $1 AND key = $2");

const PARKED: &str = "SELECT id, bucket, deadline, deadline, false, attempt, handler, key,
            CASE WHEN $4 THEN last_error END, reason, tag
       FROM lars.parked WHERE grp = $1 COLLATE \"POSIX\" AND id > $2 ORDER BY id LIMIT $3";

const PAUSED: &str = "SELECT handler FROM lars.paused WHERE grp = $1";

fn candidate(row: &Row) -> Candidate {
    Candidate {
        id: row.get(0),
        bucket: rows::bucket(row.get(1)),
        due: row.get(2),
        deadline: row.get(3),
        started: row.get(4),
        attempt: rows::count(row.get(5)),
        handler: Arc::from(row.get::<_, &str>(6)),
        key: row.get(7),
        last_error: row.get(8),
        reason: row.get(9),
        tag: row.get(10),
    }
}

/// What a step has read.
#[derive(Default)]
struct Seen {
    /// How many rows, those of other groups too.
    looked_at: usize,
    found: Vec<Candidate>,
    next: Option<Cursor>,
}

impl Transaction<'_> {
    pub(super) async fn select(&self, select: &Select, act: Act) -> Result<Written> {
        let paused = self.query(PAUSED, &[&self.group]).await?;
        let paused: Vec<Arc<str>> =
            paused.iter().map(|row| Arc::from(row.get::<_, &str>(0))).collect();
        let seen = match select.way() {
            None => Seen::default(),
            Some(Way::Due(bucket, due, id)) => {
                self.seen_by_time(select, &paused, (bucket, due, id)).await?
            }
            Some(Way::Tag(due, id)) => self.seen_by_tag(select, &paused, (due, id)).await?,
            Some(Way::Key(from)) => self.seen_by_key(select, &paused, from).await?,
            Some(Way::Parked(after)) => self.seen_parked(select, &paused, after).await?,
        };
        let Seen { looked_at, found, next } = seen;
        let (matched, mut selected) = (found.len(), Selected::default());
        let (parked, timers): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|row| row.reason.is_some());
        let parked: Vec<TimerId> = parked.iter().map(|row| row.id).collect();
        let timers: Vec<TimerId> = timers.iter().map(|row| row.id).collect();
        match act {
            Act::Count => {}
            Act::List => {
                selected.listed = self.listed(&timers, &parked).await?;
            }
            Act::Cancel | Act::Reset(_) => {
                selected.each = self.change_timers(select, act, &paused, &timers).await?;
            }
            Act::Retry | Act::Discard => {
                selected.each = self.settle_parked(select, act, &paused, &parked).await?;
            }
        }
        Ok(Written::Selected(Selected { looked_at, matched, next, ..selected }))
    }

    /// One bucket after the other.
    async fn seen_by_time(
        &self,
        select: &Select,
        paused: &[Arc<str>],
        (first, due, id): (BucketNo, Timestamp, TimerId),
    ) -> Result<Seen> {
        let mut seen = Seen::default();
        let mut after = (due, id);
        let errors = select.failed_with.is_some();
        for row in self.query(BUCKETS, &[&self.group, &rows::number(first)]).await? {
            let number: i16 = row.get(0);
            let after = std::mem::replace(&mut after, (Timestamp::MIN, TimerId::MIN));
            let page = async |(due, id): (Timestamp, TimerId), most: i64| {
                let parameters: [&(dyn ToSql + Sync); 7] =
                    [&self.group, &number, &due, &id, &select.due.1, &most, &errors];
                self.query(BY_TIME, &parameters).await
            };
            if self.fill(&mut seen, select, paused, after, page).await? {
                return Ok(seen);
            }
        }
        seen.next = select.behind_timers();
        Ok(seen)
    }

    async fn seen_by_tag(
        &self,
        select: &Select,
        paused: &[Arc<str>],
        after: (Timestamp, TimerId),
    ) -> Result<Seen> {
        let mut seen = Seen::default();
        let (tag, errors) = (select.tag.as_deref(), select.failed_with.is_some());
        let page = async |(due, id): (Timestamp, TimerId), most: i64| {
            let parameters: [&(dyn ToSql + Sync); 7] =
                [&self.group, &tag, &due, &id, &select.due.1, &most, &errors];
            self.query(BY_TAG, &parameters).await
        };
        if !self.fill(&mut seen, select, paused, after, page).await? {
            seen.next = select.behind_timers();
        }
        Ok(seen)
    }

    async fn seen_parked(
        &self,
        select: &Select,
        paused: &[Arc<str>],
        after: TimerId,
    ) -> Result<Seen> {
        let mut seen = Seen::default();
        let errors = select.failed_with.is_some();
        let page = async |(_, id): (Timestamp, TimerId), most: i64| {
            self.query(PARKED, &[&self.group, &id, &most, &errors]).await
        };
        if !self.fill(&mut seen, select, paused, (Timestamp::MIN, after), page).await? {
            seen.next = None;
        }
        Ok(seen)
    }

    /// Takes in page after page, each from behind the last row of the one before, until there is no
    /// more, or the step is full, which it says.
    async fn fill(
        &self,
        seen: &mut Seen,
        select: &Select,
        paused: &[Arc<str>],
        mut after: (Timestamp, TimerId),
        page: impl AsyncFn((Timestamp, TimerId), i64) -> Result<Vec<Row>>,
    ) -> Result<bool> {
        loop {
            let most = seen.next_page(select);
            let rows = page(after, count(most)).await?;
            for row in rows.iter().map(candidate) {
                if seen.is_full(select) {
                    return Ok(true);
                }
                after = (row.due, row.id);
                let cursor = match row.reason {
                    Some(_) => Cursor::Parked(row.id),
                    None => Cursor::Due { bucket: row.bucket, due: row.due, id: row.id },
                };
                seen.add(select, paused, self.clock, row, cursor);
            }
            if rows.len() < most {
                return Ok(false);
            }
        }
    }

    async fn seen_by_key(
        &self,
        select: &Select,
        paused: &[Arc<str>],
        from: String,
    ) -> Result<Seen> {
        let (mut seen, end) = (Seen::default(), select.end_of_keys());
        let errors = select.failed_with.is_some();
        // No group has no name.
        let (mut after, mut is_own) = ((from, String::new()), true);
        loop {
            let most = seen.next_page(select);
            let parameters: [&(dyn ToSql + Sync); 5] =
                [&after.0, &after.1, &end, &count(most), &errors];
            let rows = self.query(BY_KEY, &parameters).await?;
            for row in &rows {
                if seen.is_full(select) {
                    if !is_own {
                        // This group may have the key too, behind the place where the step has
                        // ended.
                        let own = self.query(OF_KEY, &[&self.group, &after.0, &errors]).await?;
                        for row in own.iter().map(candidate) {
                            if !seen.found.iter().any(|found| found.id == row.id) {
                                let cursor = Cursor::Key(after.0.clone());
                                seen.looked_at -= 1;
                                seen.add(select, paused, self.clock, row, cursor);
                            }
                        }
                    }
                    return Ok(seen);
                }
                after = (row.get(7), row.get(11));
                is_own = after.1 == self.group;
                let cursor = Cursor::Key(after.0.clone());
                if is_own {
                    seen.add(select, paused, self.clock, candidate(row), cursor);
                } else {
                    seen.looked_at += 1;
                    seen.next = Some(cursor);
                }
            }
            if rows.len() < most {
                break;
            }
        }
        seen.next = select.behind_timers();
        Ok(seen)
    }
}

impl Seen {
    fn is_full(&self, select: &Select) -> bool {
        self.looked_at >= select.scan || self.found.len() >= select.limit
    }

    /// How many rows are read next: one more than are looked at, which says that there is one. Most
    /// steps find enough among the first. Where few match, a page is as long as all before it, so
    /// that there are not many.
    fn next_page(&self, select: &Select) -> usize {
        if self.is_full(select) {
            return 1;
        }
        let room = select.scan - self.looked_at;
        room.min(self.looked_at.max(select.limit)).saturating_add(1)
    }

    fn add(
        &mut self,
        select: &Select,
        paused: &[Arc<str>],
        now: Timestamp,
        row: Candidate,
        cursor: Cursor,
    ) {
        self.looked_at += 1;
        if select.matches(&row, now, paused) {
            self.found.push(row);
        }
        self.next = Some(cursor);
    }
}

/// Without those that somebody holds.
const LOCK: &str = candidates!(
    "$3",
    " FROM lars.timer WHERE grp = $1 AND id = ANY ($2) ORDER BY id + 0 FOR UPDATE SKIP LOCKED"
);

impl Transaction<'_> {
    /// Cancels or moves those that still match.
    async fn change_timers(
        &self,
        select: &Select,
        act: Act,
        paused: &[Arc<str>],
        ids: &[TimerId],
    ) -> Result<Vec<Written>> {
        let errors = select.failed_with.is_some();
        let locked = self.query(LOCK, &[&self.group, &ids, &errors]).await?;
        let mut missing: BTreeSet<TimerId> = ids.iter().copied().collect();
        let mut locked: HashMap<TimerId, Candidate> =
            locked.iter().map(candidate).map(|row| (row.id, row)).collect();
        let (mut changes, mut each) = (Changes::default(), Vec::with_capacity(ids.len()));
        for row in ids.iter().filter_map(|id| locked.remove(id)) {
            missing.remove(&row.id);
            if !select.matches(&row, self.clock, paused) {
                continue;
            }
            let Candidate { id, bucket, due, started, handler, .. } = row;
            let mut holder = Holder { id, bucket, due, started, handler };
            each.push(match act {
                Act::Reset(when) => changes.shift(&mut holder, when.by(self.clock)),
                _ => changes.cancel_one(&holder),
            });
        }
        // Those that are gone have run, or were cancelled.
        let missing: Vec<TimerId> = missing.into_iter().collect();
        let held = if missing.is_empty() { 0 } else { self.there_are(&missing).await?.len() };
        each.extend(std::iter::repeat_n(Written::Held, held));
        self.store(&changes).await?;
        Ok(each)
    }
}

/// The same of what is parked.
const LOCK_PARKED: &str = "SELECT id, bucket, deadline, deadline, false, attempt, handler, key,
            CASE WHEN $3 THEN last_error END, reason, tag
       FROM lars.parked WHERE grp = $1 AND id = ANY ($2)
      ORDER BY id + 0 FOR UPDATE SKIP LOCKED";

impl Transaction<'_> {
    /// Lets those that still match run again, or discards them.
    async fn settle_parked(
        &self,
        select: &Select,
        act: Act,
        paused: &[Arc<str>],
        ids: &[TimerId],
    ) -> Result<Vec<Written>> {
        let errors = select.failed_with.is_some();
        let locked = self.query(LOCK_PARKED, &[&self.group, &ids, &errors]).await?;
        let locked: Vec<Candidate> = locked.iter().map(candidate).collect();
        let mut held = 0;
        if locked.len() < ids.len() {
            // Those that are gone were settled by somebody else.
            let there = self.query(ARE_PARKED, &[&self.group, &ids]).await?.len();
            held = there.saturating_sub(locked.len());
        }
        let still = |row: &&Candidate| select.matches(row, self.clock, paused);
        let meant: Vec<TimerId> = locked.iter().filter(still).map(|row| row.id).collect();
        let mut each = match act {
            Act::Retry => self.retry_parked(&meant).await?,
            _ => self.discard_parked(&meant).await?,
        };
        each.extend(std::iter::repeat_n(Written::Held, held));
        Ok(each)
    }
}

const LISTED: &str = "SELECT id, key, handler, payload_version, payload, deadline, attempt, deaths,
            repeat, last_error, fence IS NOT NULL, NULL::text, NULL::timestamptz, run, tag,
            cancelled
       FROM lars.timer WHERE grp = $1 AND id = ANY ($2)";

const LISTED_PARKED: &str = "SELECT id, key, handler, payload_version, payload, deadline, attempt,
            deaths, repeat, last_error, false, reason, parked_at, run, tag, false
       FROM lars.parked WHERE grp = $1 AND id = ANY ($2)";

impl Transaction<'_> {
    /// In the order in which they were found.
    async fn listed(&self, timers: &[TimerId], parked: &[TimerId]) -> Result<Vec<Listed>> {
        let mut all = Vec::with_capacity(timers.len() + parked.len());
        for (sql, ids) in [(LISTED, timers), (LISTED_PARKED, parked)] {
            if ids.is_empty() {
                continue;
            }
            let rows = self.query(sql, &[&self.group, &ids]).await?;
            let mut found: HashMap<TimerId, Listed> =
                rows.iter().map(rows::listed).map(|listed| (listed.id, listed)).collect();
            all.extend(ids.iter().filter_map(|id| found.remove(id)));
        }
        Ok(all)
    }
}

fn count(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
