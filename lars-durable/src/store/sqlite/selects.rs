//! Walks through timers, in SQL: each step reads a bounded number of rows of an index.

use rusqlite::{CachedStatement, Params, Result, Row, params};

use super::rows::{self, listed_columns, listed_parked_columns};
use super::verbs::{self, Verbs};
use crate::model::{Act, Candidate, Cursor, Listed, Select, TimerId, Way, Which};
use crate::store::{Selected, Written};

/// What [`candidate`] reads of a timer. `?5`: the text of the last failure is wanted.
macro_rules! candidate_columns {
    () => {
        "id, bucket, due_at, deadline, fence IS NOT NULL, attempt, handler, key, \
         iif(?5, last_error, NULL), NULL, tag"
    };
}

const BY_TIME: &str = concat!(
    "SELECT ",
    candidate_columns!(),
    " FROM lars_timer
      WHERE grp = ?1 AND bucket = 0 AND (due_at, id) > (?2, ?3) AND due_at <= ?6
      ORDER BY due_at, id LIMIT ?4",
);

const BY_TAG: &str = concat!(
    "SELECT ",
    candidate_columns!(),
    " FROM lars_timer INDEXED BY lars_timer_tag
      WHERE grp = ?1 AND tag = ?7 AND (due_at, id) > (?2, ?3) AND due_at <= ?6
      ORDER BY due_at, id LIMIT ?4",
);

const BY_KEY: &str = concat!(
    "SELECT ",
    candidate_columns!(),
    " FROM lars_timer WHERE grp = ?1 AND key >= ?2 AND key < ?3 ORDER BY key LIMIT ?4",
);

const PARKED: &str = "SELECT id, bucket, deadline, deadline, 0, attempt, handler, key,
            iif(?4, last_error, NULL), reason, tag
       FROM lars_parked WHERE grp = ?1 AND id > ?2 ORDER BY id LIMIT ?3";

fn candidate(row: &Row<'_>) -> Result<Candidate> {
    Ok(Candidate {
        id: row.get(0)?,
        bucket: row.get(1)?,
        due: row.get(2)?,
        deadline: row.get(3)?,
        started: row.get(4)?,
        attempt: row.get(5)?,
        handler: rows::name(row, 6)?,
        key: rows::maybe_text(row, 7)?,
        last_error: row.get(8)?,
        reason: row.get(9)?,
        tag: rows::maybe_text(row, 10)?,
    })
}

impl Verbs<'_> {
    pub(super) fn select(&self, select: &Select, act: Act) -> Result<Written> {
        let Some(way) = select.way() else { return Ok(Written::Selected(Selected::default())) };
        let paused = verbs::paused(self.connection, self.group)?;
        let mut selected = Selected::default();
        let (mut found, mut last) = (Vec::new(), None);
        // One more row is read than looked at: it says that there is one.
        let there_are_more = self.each_candidate(select, &way, |row| {
            if selected.looked_at >= select.scan || found.len() >= select.limit {
                return false;
            }
            selected.looked_at += 1;
            last = Some(cursor(&way, &row));
            if select.matches(&row, self.now, &paused) {
                found.push(row);
            }
            true
        })?;
        selected.next = match (there_are_more, way) {
            (true, _) => last,
            (false, Way::Parked(_)) => None,
            (false, _) => select.behind_timers(),
        };
        selected.matched = found.len();
        for row in &found {
            self.act(row, act, &mut selected)?;
        }
        Ok(Written::Selected(selected))
    }

    /// Shows one after the other, until `take` has enough, which it says.
    fn each_candidate(
        &self,
        select: &Select,
        way: &Way,
        take: impl FnMut(Candidate) -> bool,
    ) -> Result<bool> {
        let scan = i64::try_from(select.scan).map_or(i64::MAX, |scan| scan.saturating_add(1));
        let (group, errors) = (self.group, select.failed_with.is_some());
        match way {
            Way::Due(_, due, id) => {
                let parameters = params![group, due, id, scan, errors, select.due.1];
                each(self.prepare(BY_TIME)?, parameters, take)
            }
            Way::Tag(due, id) => {
                let parameters = params![group, due, id, scan, errors, select.due.1, select.tag];
                each(self.prepare(BY_TAG)?, parameters, take)
            }
            Way::Key(from) => {
                let parameters = params![group, from, select.end_of_keys(), scan, errors];
                each(self.prepare(BY_KEY)?, parameters, take)
            }
            Way::Parked(after) => {
                let parameters = params![group, after, scan, errors];
                each(self.prepare(PARKED)?, parameters, take)
            }
        }
    }

    fn act(&self, row: &Candidate, act: Act, selected: &mut Selected) -> Result<()> {
        let id = row.id;
        let written = match act {
            Act::Count => return Ok(()),
            Act::List => {
                selected.listed.push(self.listed(id, row.reason.is_some())?);
                return Ok(());
            }
            Act::Cancel => self.cancel(&Which::Id(id))?,
            Act::Reset(when) => self.reset(&Which::Id(id), when.by(self.now))?,
            Act::Retry => self.retry_parked(id)?,
            Act::Discard => self.discard_parked(id)?,
        };
        selected.each.push(written);
        Ok(())
    }
}

fn each(
    mut statement: CachedStatement<'_>,
    parameters: impl Params,
    mut take: impl FnMut(Candidate) -> bool,
) -> Result<bool> {
    for row in statement.query_map(parameters, candidate)? {
        if !take(row?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Behind this row.
fn cursor(way: &Way, row: &Candidate) -> Cursor {
    match way {
        Way::Due(..) | Way::Tag(..) => Cursor::Due { bucket: row.bucket, due: row.due, id: row.id },
        Way::Key(_) => Cursor::Key(row.key.clone().unwrap_or_default()),
        Way::Parked(_) => Cursor::Parked(row.id),
    }
}

const LISTED: &str = concat!("SELECT ", listed_columns!(), " FROM lars_timer WHERE id = ?1");

const LISTED_PARKED: &str =
    concat!("SELECT ", listed_parked_columns!(), " FROM lars_parked WHERE id = ?1");

impl Verbs<'_> {
    fn listed(&self, id: TimerId, parked: bool) -> Result<Listed> {
        self.prepare(if parked { LISTED_PARKED } else { LISTED })?.query_row([id], rows::listed)
    }
}
