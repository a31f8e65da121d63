//! One suite for all stores: what each verb promises, and that a store does the same as the
//! reference, whatever is asked of it in whatever order.

mod ends;
mod history;
mod looks;
mod selects;
mod sequences;
mod verbs;

use crate::model::{
    Act, BucketNo, Cursor, Fence, Finish, Finished, Kept, Listed, NewTimer, NodeId, Old,
    OnConflict, Ran, Row, RunsSelect, Select, Start, States, Then, TimerId, When, Which,
};
use crate::store::{How, Letters, Tenure, Terms};
use crate::store::{
    Keep, MemoryStore, Placed, Reply, Request, Selected, SqliteStore, Store, Synchronous, Write,
    Written,
};
use crate::sync::{Arc, AtomicI64, Ordering};
use crate::time::{Micros, Timestamp};

const SECOND: i64 = 1_000_000;
const START: i64 = 1_700_000_000 * SECOND;
const NODE: NodeId = 7;
const FAR: (Timestamp, TimerId) = (Timestamp::MIN, TimerId::MIN);

/// A store under test, with a clock that the test moves. The node is its owner.
struct Bench {
    store: Box<dyn Store>,
    clock: Arc<AtomicI64>,
    epoch: u32,
    starts: u32,
    next_id: TimerId,
    /// The file, if it is one.
    directory: Option<tempdir::Directory>,
}

/// Runs `test` once for each store.
fn for_each_store(test: impl Fn(&mut Bench)) {
    for mut bench in [Bench::memory()].into_iter().chain(Bench::others()) {
        test(&mut bench);
    }
}

impl Bench {
    fn memory() -> Self {
        let clock = Arc::new(AtomicI64::new(START));
        let here = Arc::clone(&clock);
        let clock_of = Arc::new(move || Timestamp(here.load(Ordering::Relaxed)));
        Self::of(Box::new(MemoryStore::new(1, clock_of)), clock, None)
    }

    fn sqlite() -> Self {
        let clock = Arc::new(AtomicI64::new(START));
        let here = Arc::clone(&clock);
        let clock_of = Arc::new(move || Timestamp(here.load(Ordering::Relaxed)));
        let directory = tempdir::Directory::new("conformance");
        let path = directory.file();
        let store =
            SqliteStore::open_with(&path, None, "default", Synchronous::Normal, clock_of).unwrap();
        Self::of(Box::new(store), clock, Some(directory))
    }

    /// All stores but the reference, each new. PostgreSQL only if it is asked for, as
    /// `ci/postgres.sh` does.
    fn others() -> Vec<Self> {
        let mut others = vec![Self::sqlite()];
        if std::env::var_os("LARS_POSTGRES").is_some() {
            others.push(Self::postgres());
        }
        others
    }

    fn postgres() -> Self {
        let database = postgres::server().database();
        let clock = Arc::new(AtomicI64::new(START));
        let here = Arc::clone(&clock);
        let mut place = database.place();
        place.clock = Some(Arc::new(move || Timestamp(here.load(Ordering::Relaxed))));
        PostgresStore::prepare(&place).unwrap();
        Self::of(Box::new(PostgresStore::new(place)), clock, None)
    }

    fn of(
        store: Box<dyn Store>,
        clock: Arc<AtomicI64>,
        directory: Option<tempdir::Directory>,
    ) -> Self {
        let mut bench = Self { store, clock, epoch: 0, starts: 0, next_id: 1, directory };
        bench.claim();
        bench
    }

    /// The node is the owner.
    fn claim(&mut self) {
        let keep = |keep| Request::Keep(keep);
        let replies = self.ask(&[
            keep(Keep::Join { node: NODE, serves: true, terms: Terms::default() }),
            keep(Keep::Renew { node: NODE, report: None }),
            keep(Keep::Claim { node: NODE, dead: Vec::new(), buckets: vec![0] }),
        ]);
        let Reply::Claimed(claimed) = &replies[2] else { panic!("{replies:?}") };
        assert_eq!(claimed.len(), 1);
        self.epoch = claimed[0].1;
    }

    /// Whatever ran here has died.
    fn next_owner(&mut self) {
        let Some(directory) = &self.directory else {
            let buckets = vec![0];
            self.ask(&[Request::Keep(Keep::Release { node: NODE, buckets })]);
            return self.claim();
        };
        let (path, here) = (directory.file(), Arc::clone(&self.clock));
        let clock: crate::time::Clock = Arc::new(move || Timestamp(here.load(Ordering::Relaxed)));
        // The file has one owner at a time.
        self.store = Box::new(MemoryStore::new(1, Arc::clone(&clock)));
        let synchronous = Synchronous::Normal;
        self.store =
            Box::new(SqliteStore::open_with(&path, None, "default", synchronous, clock).unwrap());
        self.claim();
    }

    fn ask(&mut self, requests: &[Request]) -> Vec<Reply> {
        let committed = self.store.transact(requests).unwrap();
        assert_eq!(committed.clock.0, self.clock.load(Ordering::Relaxed));
        assert_eq!(committed.replies.len(), requests.len());
        committed.replies
    }

    fn one(&mut self, request: Request) -> Reply {
        self.ask(&[request]).pop().unwrap()
    }

    fn write(&mut self, write: Write) -> Written {
        match self.one(Request::Write(write)) {
            Reply::Written(written) => written,
            other => panic!("{other:?}"),
        }
    }

    fn later(&self, micros: i64) {
        self.clock.fetch_add(micros, Ordering::Relaxed);
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.clock.load(Ordering::Relaxed))
    }

    fn timer(&mut self, after: i64) -> NewTimer {
        self.next_id += 1;
        NewTimer {
            id: self.next_id - 1,
            bucket: 0,
            when: When::After(Micros(after)),
            offset: Micros::ZERO,
            home: None,
            key: None,
            tag: None,
            conflict: OnConflict::Keep,
            handler: "handler".into(),
            payload_version: 3,
            payload: r#"{"a":"ä\u0000"}"#.into(),
            series: None,
            remember: Micros::ZERO,
        }
    }

    fn keyed(&mut self, after: i64, key: &str) -> NewTimer {
        NewTimer { key: Some(key.into()), ..self.timer(after) }
    }

    /// A page of what is parked.
    fn parked(&mut self, after: TimerId, limit: usize) -> (Vec<Listed>, Option<TimerId>) {
        self.parked_of(None, after, limit, 1_000)
    }

    /// The same of one handler, looking at `scan` of them at most.
    fn parked_of(
        &mut self,
        handler: Option<&str>,
        after: TimerId,
        limit: usize,
        scan: usize,
    ) -> (Vec<Listed>, Option<TimerId>) {
        let (handler, after) = (handler.map(Into::into), Some(Cursor::Parked(after)));
        let select = Select { handler, after, ..Select::of(States::PARKED, limit, scan) };
        match self.write(Write::Select { select: Arc::new(select), act: Act::List }) {
            Written::Selected(Selected { listed, next: None, .. }) => (listed, None),
            Written::Selected(Selected { listed, next: Some(Cursor::Parked(id)), .. }) => {
                (listed, Some(id))
            }
            other => panic!("{other:?}"),
        }
    }

    fn schedule(&mut self, timers: Vec<NewTimer>) -> Vec<Placed> {
        match self.write(Write::Schedule(Arc::new(timers))) {
            Written::Scheduled(placed) => placed,
            other => panic!("{other:?}"),
        }
    }

    /// Of a timer, as long as nobody else owns it.
    fn own(&self, id: TimerId) -> (TimerId, Tenure) {
        (id, Tenure { bucket: 0, epoch: self.epoch })
    }

    fn make(&mut self, after: i64) -> TimerId {
        let timer = self.timer(after);
        self.schedule(vec![timer])[0].id
    }

    fn fence(&mut self) -> Fence {
        self.starts += 1;
        Fence::new(self.epoch, self.starts)
    }

    fn start_with(&mut self, id: TimerId, fence: Fence) -> Option<Row> {
        let starts = vec![Start { id, bucket: 0, fence }];
        match self.one(Request::Start { node: NODE, lead: Micros::ZERO, starts }) {
            Reply::Started { mut rows, .. } => rows.pop(),
            other => panic!("{other:?}"),
        }
    }

    fn start(&mut self, id: TimerId) -> (Row, Fence) {
        let fence = self.fence();
        (self.start_with(id, fence).expect("it starts"), fence)
    }

    fn finish(&mut self, id: TimerId, fence: Fence, then: Then) -> Finished {
        match self.one(Request::Finish(vec![Finish { id, fence, then }])) {
            Reply::Finished(mut finished) => finished.pop().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// All timers, in the order in which they come due.
    fn ids(&mut self) -> Vec<TimerId> {
        self.load(FAR, Timestamp::NEVER, usize::MAX)
    }

    fn load(
        &mut self,
        after: (Timestamp, TimerId),
        until: Timestamp,
        limit: usize,
    ) -> Vec<TimerId> {
        let bucket: BucketNo = 0;
        match self.one(Request::Load { bucket, after, until, limit, letters: Letters::default() }) {
            Reply::Loaded(rows) => rows.iter().map(|row| row.id).collect(),
            other => panic!("{other:?}"),
        }
    }
}

use super::postgres;
use super::tempdir;
use crate::store::PostgresStore;
