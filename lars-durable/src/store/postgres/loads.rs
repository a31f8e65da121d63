//! What a node takes into memory, in SQL.
//!
//! Only the runner's session uses this, and it changes nothing. One statement loads all buckets,
//! each by the index, so that the number of buckets costs no round trips.

use std::collections::HashMap;

use super::rows;
use super::transaction::{Result, Transaction};
use crate::model::{LETTER, Loaded, TimerId};
use crate::store::{Letters, Reply, Request};
use crate::sync::Arc;
use crate::time::Timestamp;

/// Only with this collation does the condition fit `timer_due`.
const LOAD: &str = "SELECT t.*, c.place
      FROM unnest($2::smallint[], $3::timestamptz[], $4::bigint[], $5::timestamptz[], $6::bigint[])
           WITH ORDINALITY AS c (bucket, due, id, until, most, place)
     CROSS JOIN LATERAL (
           SELECT id, bucket, due_at, planned_at, handler, fence, deaths, cancelled,
                  CASE WHEN handler = ANY ($7) THEN left(payload, $8) END
             FROM lars.timer
            WHERE grp = $1 COLLATE \"POSIX\" AND bucket = c.bucket
              AND (due_at, id) > (c.due, c.id) AND due_at < c.until
            ORDER BY due_at, id LIMIT c.most) AS t
     ORDER BY c.place, t.due_at, t.id";

const READ: &str = "SELECT id, bucket, due_at, planned_at, handler, fence, deaths, cancelled,
            CASE WHEN handler = ANY ($3) THEN left(payload, $4) END
       FROM lars.timer WHERE grp = $1 AND id = ANY ($2)";

/// The loads of one statement.
#[derive(Default)]
struct Loads<'a> {
    /// The same for all of one node.
    letters: &'a [Arc<str>],
    buckets: Vec<i16>,
    dues: Vec<Timestamp>,
    ids: Vec<TimerId>,
    untils: Vec<Timestamp>,
    limits: Vec<i64>,
}

impl<'a> Loads<'a> {
    /// Of a batch that begins with loads: those up to the first other request.
    fn first_of(requests: &'a [Request]) -> Self {
        let mut loads = Self::default();
        for request in requests {
            let Request::Load { bucket, after, until, limit, letters } = request else { break };
            loads.letters = letters;
            loads.buckets.push(rows::number(*bucket));
            loads.dues.push(after.0);
            loads.ids.push(after.1);
            loads.untils.push(*until);
            loads.limits.push(i64::try_from(*limit).unwrap_or(i64::MAX));
        }
        loads
    }
}

impl Transaction<'_> {
    /// Carries out the loads with which `requests` begin; one reply for each.
    pub(super) async fn load(&self, requests: &[Request]) -> Result<Vec<Reply>> {
        let Loads { letters, buckets, dues, ids, untils, limits } = Loads::first_of(requests);
        let (letters, most) = (names(letters), i32::from(LETTER));
        let found = self
            .query(LOAD, &[&self.group, &buckets, &dues, &ids, &untils, &limits, &letters, &most])
            .await?;
        let mut loaded: Vec<Vec<Loaded>> = vec![Vec::new(); buckets.len()];
        for row in &found {
            let place: i64 = row.get(9);
            let of = usize::try_from(place - 1).expect("PostgreSQL counts from one");
            loaded[of].push(rows::loaded(row));
        }
        Ok(loaded.into_iter().map(Reply::Loaded).collect())
    }

    /// Those that exist, in the order of `ids`.
    pub(super) async fn read(&self, ids: &[TimerId], letters: &Letters) -> Result<Vec<Loaded>> {
        let (letters, most) = (names(letters), i32::from(LETTER));
        let found = self.query(READ, &[&self.group, &ids, &letters, &most]).await?;
        let found: HashMap<TimerId, Loaded> =
            found.iter().map(rows::loaded).map(|row| (row.id, row)).collect();
        Ok(ids.iter().filter_map(|id| found.get(id).cloned()).collect())
    }
}

fn names(letters: &[Arc<str>]) -> Vec<&str> {
    letters.iter().map(|name| &**name).collect()
}
