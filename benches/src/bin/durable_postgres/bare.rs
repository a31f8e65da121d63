//! The same statements in a loop: what the server gives to a program that does nothing else.

use std::time::{Duration, Instant, SystemTime};

use benches::durable::AnyError;
use tokio_postgres::Statement;

use crate::server::Connection;

const INSERT: &str = "INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key,
                            handler, payload_version, payload, repeat, remember)
    SELECT unnest($1::bigint[]), 'default', unnest($2::smallint[]), unnest($3::timestamptz[]),
           unnest($3::timestamptz[]), unnest($3::timestamptz[]), NULL, 'job', 1,
           unnest($4::text[]), NULL, 0";

const START: &str = "UPDATE lars.timer t
       SET attempt = t.attempt + (t.fence IS DISTINCT FROM c.fence)::int,
           deaths = t.deaths + (t.fence <> c.fence IS TRUE)::int,
           fence = c.fence, epoch = (c.fence >> 32)::int
      FROM unnest($1::bigint[], $2::bigint[]) AS c (id, fence), lars.bucket b
     WHERE t.id = c.id AND t.grp = 'default' AND b.grp = 'default' AND b.bucket = t.bucket
       AND t.epoch <= c.fence >> 32 AND (t.fence IS NULL OR t.fence >> 32 < c.fence >> 32)
    RETURNING t.id, t.handler, t.payload_version, t.payload, t.key, t.deadline, t.planned_at,
              t.attempt, t.deaths, t.repeat";

const FINISH: &str = "DELETE FROM lars.timer t
     USING unnest($1::bigint[], $2::bigint[]) AS f (id, fence)
     WHERE t.id = f.id AND t.grp = 'default' AND t.fence = f.fence
    RETURNING t.id, t.key, t.remember";

const MOVE: &str = "UPDATE lars.timer t
       SET due_at = LEAST(t.due_at, m.due), deadline = m.due, planned_at = m.due
      FROM unnest($1::bigint[], $2::timestamptz[]) AS m (id, due)
     WHERE t.id = m.id AND t.grp = 'default'";

/// A connection with the statements prepared.
pub(crate) struct Bare {
    connection: Connection,
    insert: Statement,
    start: Statement,
    finish: Statement,
    shift: Statement,
}

fn fences(ids: &[i64]) -> Vec<i64> {
    ids.iter().map(|id| (1 << 32) + id).collect()
}

impl Bare {
    pub(crate) fn new(connection: Connection) -> Result<Self, AnyError> {
        connection.execute(
            "INSERT INTO lars.bucket (grp, bucket)
             SELECT 'default', place FROM generate_series(0, 63) AS place ON CONFLICT DO NOTHING",
        )?;
        Ok(Self {
            insert: connection.prepare(INSERT)?,
            start: connection.prepare(START)?,
            finish: connection.prepare(FINISH)?,
            shift: connection.prepare(MOVE)?,
            connection,
        })
    }

    /// Inserts `count` timers from `first` on, `batch` in a transaction, due at what `due` says.
    pub(crate) fn inserts(
        &self,
        first: i64,
        count: u64,
        batch: u64,
        due: impl Fn(i64) -> SystemTime,
    ) -> Result<Duration, AnyError> {
        let begun = Instant::now();
        let all: Vec<i64> = (first..first + count as i64).collect();
        for ids in all.chunks(batch as usize) {
            let buckets: Vec<i16> = ids.iter().map(|id| (id % 64) as i16).collect();
            let dues: Vec<SystemTime> = ids.iter().map(|id| due(*id)).collect();
            let payloads: Vec<String> = ids.iter().map(i64::to_string).collect();
            self.connection.execute("BEGIN")?;
            self.connection.query(&self.insert, &[&ids, &buckets, &dues, &payloads])?;
            self.connection.execute("COMMIT")?;
        }
        Ok(begun.elapsed())
    }

    pub(crate) fn start(&self, ids: &[i64]) -> Result<(), AnyError> {
        self.connection.execute("BEGIN")?;
        let rows = self.connection.query(&self.start, &[&ids, &fences(ids)])?;
        assert_eq!(rows.len(), ids.len(), "the bare loop starts what is there");
        self.connection.execute("COMMIT")
    }

    pub(crate) fn finish(&self, ids: &[i64]) -> Result<(), AnyError> {
        self.connection.execute("BEGIN")?;
        let rows = self.connection.query(&self.finish, &[&ids, &fences(ids)])?;
        assert_eq!(rows.len(), ids.len(), "the bare loop ends what it has started");
        self.connection.execute("COMMIT")
    }

    pub(crate) fn shift(&self, ids: &[i64], due: SystemTime) -> Result<(), AnyError> {
        self.connection.execute("BEGIN")?;
        self.connection.query(&self.shift, &[&ids, &vec![due; ids.len()]])?;
        self.connection.execute("COMMIT")
    }

    /// Starts each a lead before it is due, waits until it is, and ends it; how late each was, in
    /// microseconds. `dues` are those of the timers from `first` on.
    pub(crate) fn fire(&self, first: i64, dues: &[SystemTime]) -> Result<Vec<i64>, AnyError> {
        let mut late = Vec::with_capacity(dues.len());
        let mut next = 0;
        while next < dues.len() {
            let until = SystemTime::now() + Duration::from_millis(5);
            let end = next + dues[next..].iter().take_while(|due| **due <= until).count();
            if end == next {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            let ids: Vec<i64> = (next..end).map(|place| first + place as i64).collect();
            self.start(&ids)?;
            for due in &dues[next..end] {
                if let Ok(left) = due.duration_since(SystemTime::now()) {
                    std::thread::sleep(left);
                }
                late.push(SystemTime::now().duration_since(*due)?.as_micros() as i64);
            }
            self.finish(&ids)?;
            next = end;
        }
        Ok(late)
    }
}
