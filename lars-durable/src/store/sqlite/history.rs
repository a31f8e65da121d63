//! The history of runs, in SQL.

use rusqlite::{OptionalExtension, Result, Row, params};

use super::rows;
use super::verbs::Verbs;
use crate::model::{Fence, Kept, Ran, RunOutcome, RunPlace, RunsSelect, TimerId};
use crate::store::Written;
use crate::sync::Arc;

/// What [`ran`] reads.
macro_rules! columns {
    () => {
        "timer, fence, key, handler, node, run, attempt, planned_at, began_at, ended_at, outcome, \
         error"
    };
}

const RECORD: &str = concat!(
    "INSERT OR IGNORE INTO lars_run (grp, ",
    columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
);

const OF_TIMER: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM lars_run WHERE timer = ?2 AND fence < ?3 AND grp = ?1
      ORDER BY fence DESC LIMIT ?4",
);

const LAST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM lars_run INDEXED BY lars_run_ended
      WHERE grp = ?1 AND (ended_at, timer, fence) < (?2, ?3, ?4)
      ORDER BY ended_at DESC, timer DESC, fence DESC LIMIT ?5",
);

/// The last one that is kept, if so many are.
const LAST_KEPT: &str = "SELECT ended_at, timer, fence FROM lars_run WHERE grp = ?1
      ORDER BY ended_at DESC, timer DESC, fence DESC LIMIT 1 OFFSET ?2 - 1";

const PRUNE: &str = "DELETE FROM lars_run WHERE (timer, fence) IN (
       SELECT timer, fence FROM lars_run WHERE grp = ?1 AND (ended_at, timer, fence) < (?2, ?3, ?4)
        ORDER BY ended_at, timer, fence LIMIT ?5)";

fn ran(row: &Row<'_>) -> Result<Ran> {
    Ok(Ran {
        timer: row.get(0)?,
        fence: row.get(1)?,
        key: rows::maybe_text(row, 2)?,
        handler: rows::name(row, 3)?,
        node: Arc::from(row.get_ref(4)?.as_str()?),
        run: row.get(5)?,
        attempt: row.get(6)?,
        planned: row.get(7)?,
        began: row.get(8)?,
        ended: row.get(9)?,
        outcome: RunOutcome::of_word(row.get_ref(10)?.as_str()?),
        error: row.get(11)?,
    })
}

impl Verbs<'_> {
    pub(super) fn record(&self, runs: &[Ran]) -> Result<()> {
        for it in runs {
            self.execute(
                RECORD,
                params![
                    self.group,
                    it.timer,
                    it.fence,
                    it.key,
                    it.handler,
                    it.node,
                    it.run,
                    it.attempt,
                    it.planned,
                    it.began,
                    it.ended,
                    it.outcome.word(),
                    it.error
                ],
            )?;
        }
        Ok(())
    }

    pub(super) fn runs(&self, select: &RunsSelect) -> Result<Written> {
        let (ended, timer, fence) = select.before();
        let most = number(select.most());
        let rows: Vec<Ran> = match select.timer {
            Some(id) => {
                let parameters = params![self.group, id, fence, most];
                self.prepare(OF_TIMER)?.query_map(parameters, ran)?.collect::<Result<_>>()?
            }
            None => {
                let parameters = params![self.group, ended, timer, fence, most];
                self.prepare(LAST)?.query_map(parameters, ran)?.collect::<Result<_>>()?
            }
        };
        let (page, next) = select.page(rows);
        Ok(Written::Runs(page, next))
    }

    pub(super) fn prune_runs(&self, kept: Kept, limit: usize) -> Result<usize> {
        let mut first: Option<RunPlace> =
            kept.age.map(|age| (self.now - age, TimerId::MIN, Fence(i64::MIN)));
        if let Some(most) = kept.most {
            let last = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let parameters = params![self.group, number(most)];
            first = first.max(self.prepare(LAST_KEPT)?.query_row(parameters, last).optional()?);
        }
        let Some((at, timer, fence)) = first else { return Ok(0) };
        self.execute(PRUNE, params![self.group, at, timer, fence, number(limit)])
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
