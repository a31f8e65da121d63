//! The history of runs, in SQL.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::floor::Floor;
use super::rows::count;
use super::transaction::{Result, Transaction};
use super::values::text;
use crate::model::{Fence, Kept, Ran, RunOutcome, RunPlace, RunsSelect, TimerId};
use crate::store::Written;
use crate::sync::Arc;
use crate::time::Timestamp;

/// What [`ran`] reads.
macro_rules! columns {
    () => {
        "timer, fence, key, handler, node, run, attempt, planned_at, began_at, ended_at, outcome,
         error"
    };
}

const RECORD: &str = concat!(
    "INSERT INTO lars.run (grp, ",
    columns!(),
    ") SELECT $1, * FROM (
         SELECT unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::text[]), unnest($5::text[]),
                unnest($6::text[]), unnest($7::bigint[]), unnest($8::int[]),
                unnest($9::timestamptz[]), unnest($10::timestamptz[]), unnest($11::timestamptz[]),
                unnest($12::text[]), unnest($13::text[])) AS ended
      ON CONFLICT DO NOTHING",
);

const OF_TIMER: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM lars.run WHERE timer = $2 AND fence < $3 AND grp = $1 ORDER BY fence DESC LIMIT $4",
);

const LAST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM lars.run WHERE grp = $1 COLLATE \"POSIX\" AND (ended_at, timer, fence) < ($2, $3, $4)
      ORDER BY ended_at DESC, timer DESC, fence DESC LIMIT $5",
);

/// The last one that is kept, if so many are.
const LAST_KEPT: &str = "SELECT ended_at, timer, fence FROM lars.run
      WHERE grp = $1 COLLATE \"POSIX\"
      ORDER BY ended_at DESC, timer DESC, fence DESC LIMIT 1 OFFSET $2";

const BEFORE: &str = "SELECT timer, fence, ended_at FROM lars.run
      WHERE grp = $1 COLLATE \"POSIX\" AND (ended_at, timer, fence) < ($2, $3, $4)
        AND ended_at >= $6
      ORDER BY ended_at, timer, fence LIMIT $5 FOR UPDATE SKIP LOCKED";

/// Found by identity, see `by_id`.
const DELETE: &str = "DELETE FROM lars.run r
      USING unnest($2::bigint[], $3::bigint[]) AS gone (timer, fence)
      WHERE r.grp = $1 AND r.timer = ANY ($2) AND r.timer + 0 = gone.timer
        AND r.fence = gone.fence";

fn ran(row: &Row) -> Ran {
    Ran {
        timer: row.get(0),
        fence: Fence(row.get(1)),
        key: row.get(2),
        handler: Arc::from(row.get::<_, &str>(3)),
        node: Arc::from(row.get::<_, &str>(4)),
        run: row.get(5),
        attempt: count(row.get(6)),
        planned: row.get(7),
        began: row.get(8),
        ended: row.get(9),
        outcome: RunOutcome::of_word(row.get(10)),
        error: row.get(11),
    }
}

impl Transaction<'_> {
    pub(super) async fn record(&self, runs: &[Ran], floor: &mut Floor) -> Result<()> {
        for ran in runs {
            floor.lower(ran.ended);
        }
        let numbers = |of: fn(&Ran) -> i64| -> Vec<i64> { runs.iter().map(of).collect() };
        let times = |of: fn(&Ran) -> Timestamp| -> Vec<Timestamp> { runs.iter().map(of).collect() };
        let texts = |of: fn(&Ran) -> Option<&str>| -> Vec<Option<String>> {
            runs.iter().map(|ran| of(ran).map(|it| text(it).into_owned())).collect()
        };
        let attempts: Vec<i32> =
            runs.iter().map(|ran| i32::try_from(ran.attempt).unwrap_or(i32::MAX)).collect();
        let (timers, fences) = (numbers(|ran| ran.timer), numbers(|ran| ran.fence.0));
        let (keys, errors) = (texts(|ran| ran.key.as_deref()), texts(|ran| ran.error.as_deref()));
        let (handlers, nodes) = (texts(|ran| Some(&ran.handler)), texts(|ran| Some(&ran.node)));
        let (number, outcomes) = (numbers(|ran| ran.run), texts(|ran| Some(ran.outcome.word())));
        let (planned, began) = (times(|ran| ran.planned), times(|ran| ran.began));
        let ended = times(|ran| ran.ended);
        let parameters: [&(dyn ToSql + Sync); 13] = [
            &self.group,
            &timers,
            &fences,
            &keys,
            &handlers,
            &nodes,
            &number,
            &attempts,
            &planned,
            &began,
            &ended,
            &outcomes,
            &errors,
        ];
        self.query(RECORD, &parameters).await?;
        Ok(())
    }

    pub(super) async fn runs(&self, select: &RunsSelect) -> Result<Written> {
        let (ended, timer, fence) = select.before();
        let most = number(select.most());
        let rows = match select.timer {
            Some(id) => self.query(OF_TIMER, &[&self.group, &id, &fence.0, &most]).await?,
            None => {
                let parameters: [&(dyn ToSql + Sync); 5] =
                    [&self.group, &ended, &timer, &fence.0, &most];
                self.query(LAST, &parameters).await?
            }
        };
        let (page, next) = select.page(rows.iter().map(ran));
        Ok(Written::Runs(page, next))
    }

    pub(super) async fn prune_runs(
        &self,
        kept: Kept,
        limit: usize,
        floor: &mut Floor,
    ) -> Result<usize> {
        let mut first: Option<RunPlace> =
            kept.age.map(|age| (self.clock - age, TimerId::MIN, Fence(i64::MIN)));
        if let Some(most) = kept.most {
            let others = number(most.saturating_sub(1));
            let last = self.query(LAST_KEPT, &[&self.group, &others]).await?;
            let place = |row: &Row| (row.get(0), row.get(1), Fence(row.get(2)));
            first = first.max(last.first().map(place));
        }
        let Some((at, timer, fence)) = first else { return Ok(0) };
        let most = number(limit);
        let begin = floor.begin(self.clock);
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&self.group, &at, &timer, &fence.0, &most, &begin];
        let gone = self.query(BEFORE, &parameters).await?;
        floor.raise(gone.last().map(|row| row.get(2)), at);
        let (timers, fences): (Vec<TimerId>, Vec<i64>) =
            gone.iter().map(|row| (row.get::<_, i64>(0), row.get::<_, i64>(1))).unzip();
        if !timers.is_empty() {
            self.query(DELETE, &[&self.group, &timers, &fences]).await?;
        }
        Ok(timers.len())
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
