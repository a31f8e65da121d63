//! What the engine asks of a store, and the stores.
//!
//! A store does whole batches: [`Store::transact`] carries out all requests in their order in one
//! transaction, flushes it, and says what the store's clock showed. Every request can be repeated
//! when the outcome of its transaction is unknown; what each verb says about that is the contract
//! that `proof::conformance` holds against each store.

#[cfg(feature = "test-kit")]
mod faulty;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::ops::Range;
use std::{fmt, io};

#[cfg(feature = "test-kit")]
pub(crate) use self::faulty::FaultyStore;
pub(crate) use self::memory::MemoryStore;
#[cfg(feature = "postgres")]
pub(crate) use self::postgres::{
    Connect, Place, PostgresStore, SUBMISSION, Tls, completion, start_bell, submission,
};
#[cfg(feature = "sqlite")]
pub use self::sqlite::Synchronous;
#[cfg(feature = "sqlite")]
pub(crate) use self::sqlite::{OutsideFile, SqliteStore, UserFile};
use crate::model::{
    Act, BucketNo, Cursor, Fence, Finish, Finished, Kept, Listed, Loaded, Look, NewTimer, NodeId,
    Old, Ran, Row, RunPlace, RunsSelect, Select, Start, TimerId, When, Which,
};
use crate::sync::Arc;
use crate::time::{Clock, Micros, Timestamp};

/// A place where timers survive. Used by one thread.
pub(crate) trait Store: Looker {
    /// Carries out `requests` in one transaction, in their order; one reply for each.
    fn transact(&mut self, requests: &[Request]) -> Result<Committed, StoreError>;

    /// Whether the store is another process's from now on: no transaction will succeed any more.
    fn is_lost(&self) -> bool {
        false
    }

    /// Whether others make timers here of which nobody tells the node.
    fn is_shared(&self) -> bool {
        false
    }

    /// How long the log is beside the store's file, which is kept short as far as others let it.
    fn log_bytes(&mut self) -> u64 {
        0
    }

    /// At most `limit` of the timers that others have made, each once.
    fn made_by_others(&mut self, limit: usize) -> Vec<TimerId> {
        let _ = limit;
        Vec::new()
    }
}

/// Inspects a store. Used by one thread, which need not be that of the store.
pub(crate) trait Looker: Send {
    /// What people want to see: not of one instant, and read-only. At most `limit` timers, those
    /// due first of each bucket, and `limit` parked ones are counted.
    fn look(&mut self, limit: usize) -> Result<Look, StoreError>;
}

/// Looks into a store from outside: for whoever is no node, and changes nothing.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) trait Outside: Looker {
    /// Answers what only reads.
    fn answer(&mut self, question: &Write) -> Result<Written, StoreError>;
}

/// Where the batches of a node go.
pub(crate) enum Backend {
    /// One store for all lanes: what they have to send goes into one transaction. Its clock is one
    /// of this process.
    One { store: Box<dyn Store>, clock: Clock },
    /// A store and a thread for each lane, so that a slow batch cannot cost the node its lease.
    Lanes {
        keeper: Box<dyn Store>,
        writer: Box<dyn Store>,
        runner: Box<dyn Store>,
        bell: Option<StartBell>,
        /// What the database's clock showed before the node began.
        seen: Timestamp,
    },
}

/// What is known of the store's clock when a node begins.
pub(crate) enum Seen {
    /// It is one of this process.
    Here(Clock),
    /// It is not, and has shown this.
    There(Timestamp),
}

impl Backend {
    pub(crate) fn seen(&self) -> Seen {
        match self {
            Self::One { clock, .. } => Seen::Here(Arc::clone(clock)),
            Self::Lanes { seen, .. } => Seen::There(*seen),
        }
    }
}

/// What a node tells the others. Dropping it ends it.
pub(crate) trait Bell: Send {
    /// These timers are due soon. Nobody may be listening.
    fn near(&self, timers: Vec<(BucketNo, TimerId)>);
}

/// Starts a [`Bell`], on threads of its own; the argument gets what the others say.
pub(crate) type StartBell =
    Box<dyn FnOnce(Box<dyn Fn(Ring) + Send>) -> io::Result<Box<dyn Bell>> + Send>;

/// What nodes tell each other. Any of it may be lost; then the nodes find out later.
#[derive(Debug)]
pub(crate) enum Ring {
    /// These timers are due soon.
    Near(Vec<(BucketNo, TimerId)>),
    /// Buckets have no owner.
    Free,
    /// Something may have been said while nobody listened.
    Deaf,
}

/// The replies of one transaction.
#[derive(Debug, Clone)]
pub(crate) struct Committed {
    /// What the store's clock showed during the transaction.
    pub(crate) clock: Timestamp,
    pub(crate) replies: Vec<Reply>,
}

/// Names what a store went through. It changes where commits may have been lost: when another
/// server takes over that had not received the last ones. What was drawn before may be drawn again.
pub(crate) type History = i64;

/// A transaction that did not say that it committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreError {
    pub(crate) reason: String,
    /// It may have committed all the same.
    pub(crate) unknown: bool,
    /// The identities of its new timers are not theirs: others have to be drawn. It was not
    /// committed, and nor was any earlier try.
    pub(crate) redraw: bool,
}

impl StoreError {
    /// Nothing was done.
    pub(crate) fn nothing_done(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), unknown: false, redraw: false }
    }

    /// It may have committed all the same.
    pub(crate) fn unknown(reason: impl Into<String>) -> Self {
        Self { unknown: true, ..Self::nothing_done(reason) }
    }
}

/// Handlers whose timers are asked for with the beginnings of their payloads, by name.
pub(crate) type Letters = Arc<[Arc<str>]>;

/// What can be asked of a store.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    /// Membership, buckets: who may start what.
    Keep(Keep),
    /// What callers ask for.
    Write(Write),
    /// The writes that follow in this transaction are one batch. If the last one of this writer had
    /// the same token, it was committed and its answer was lost: then they are not carried out
    /// again, and what cannot be told any more is [`Written::Unsure`]. New timers have identities
    /// of this history; in another one the batch is refused, unless it was carried out before.
    Batch { writer: u128, token: i64, history: Option<History> },
    /// At least `count` identities.
    Ids { count: i64 },
    /// Timers of a bucket that are due from behind `after` up to `until`, in the order of (due,
    /// id).
    Load {
        bucket: BucketNo,
        after: (Timestamp, TimerId),
        until: Timestamp,
        limit: usize,
        letters: Letters,
    },
    /// Those of these timers that exist, by identity.
    Read { ids: Vec<TimerId>, letters: Letters },
    /// Records that runs begin. A timer is started if its bucket is the node's own in the epoch of
    /// the fence, its deadline is at most `lead` away, and nobody of this epoch has started it, but
    /// for this very fence: repeating the request gives the same answer and counts no second
    /// attempt.
    Start { node: NodeId, lead: Micros, starts: Vec<Start> },
    /// Ends runs, each if its fence still holds.
    Finish(Vec<Finish>),
    /// Puts timers off that are not started: by as long as it is since they were put off first, but
    /// at least and at most so long. Only those whose bucket nobody else has owned since: another
    /// owner may be able to run them.
    PutOff { timers: Vec<(TimerId, Tenure)>, least: Micros, most: Micros },
    /// Parks timers that are not started and were put off first at `before` or earlier. Only those
    /// whose bucket nobody else has owned since.
    Park { timers: Vec<(TimerId, Tenure)>, before: Timestamp, reason: String },
    /// Forgets keys whose time is over: at most `limit`.
    Forget { limit: usize },
    /// Remembers runs that are over, each once.
    Record(Vec<Ran>),
    /// Deletes what is not to be kept, the oldest first: at most `limit`.
    Prune { old: Old, kept: Kept, limit: usize },
}

/// Membership and buckets.
#[derive(Debug, Clone)]
pub(crate) enum Keep {
    /// A new node. Repeating it changes nothing.
    Join { node: NodeId, serves: bool, terms: Terms },
    /// The node is alive, and reports this about itself, as JSON for people. The reply says what
    /// the node has to know about the others.
    Renew { node: NodeId, report: Option<Arc<str>> },
    /// Removes nodes that were seen dead with this many renewals, and takes buckets without an
    /// owner.
    Claim { node: NodeId, dead: Vec<(NodeId, u64)>, buckets: Vec<BucketNo> },
    /// Gives buckets back.
    Release { node: NodeId, buckets: Vec<BucketNo> },
    /// The end of a node: it owns nothing any more.
    Leave { node: NodeId },
}

/// What callers ask for.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    /// All of them or none. Shared, because a batch is kept until its outcome is known.
    Schedule(Arc<Vec<NewTimer>>),
    Cancel {
        which: Which,
    },
    /// Like `Cancel`, but nobody has cancelled it: a run that has started does not hear of it.
    EndSeries {
        id: TimerId,
    },
    /// Like `Cancel`, and deletes the timer even if it has started, unless it is `but`.
    Remove {
        key: Arc<str>,
        but: Option<TimerId>,
    },
    Reset {
        which: Which,
        when: When,
    },
    Get {
        which: Which,
    },
    Pause {
        handler: Arc<str>,
        paused: bool,
    },
    RetryParked {
        id: TimerId,
    },
    DiscardParked {
        id: TimerId,
    },
    /// A page of runs that are over, the last ones first.
    Runs {
        select: Arc<RunsSelect>,
    },
    /// A step of a walk through timers. What others hold is passed over.
    Select {
        select: Arc<Select>,
        act: Act,
    },
    /// What somebody may do only as long as nobody else has owned a bucket since, and is
    /// [`Written::Lost`] otherwise. Nobody can take it before this transaction has ended. For what
    /// a key decides, and what only shows.
    Under {
        tenure: Tenure,
        write: Box<Write>,
    },
}

/// What a call changes, as it names it. Calls about one subject keep their order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Key(Arc<str>),
    Id(TimerId),
    Handler(Arc<str>),
}

impl From<&Which> for Subject {
    fn from(which: &Which) -> Self {
        match which {
            Which::Key(key) => Self::Key(Arc::clone(key)),
            Which::Id(id) => Self::Id(*id),
        }
    }
}

impl Write {
    /// What is asked for, under whatever condition.
    pub(crate) fn asked(&self) -> &Self {
        if let Self::Under { write, .. } = self { write.asked() } else { self }
    }

    /// What it changes. A walk passes over what others hold, and so is about nothing.
    pub(crate) fn subjects(&self) -> Vec<Subject> {
        match self.asked() {
            Self::Schedule(timers) => {
                timers.iter().filter_map(|timer| timer.key.clone()).map(Subject::Key).collect()
            }
            Self::Cancel { which } | Self::Reset { which, .. } => vec![which.into()],
            Self::EndSeries { id } | Self::RetryParked { id } | Self::DiscardParked { id } => {
                vec![Subject::Id(*id)]
            }
            Self::Remove { key, .. } => vec![Subject::Key(Arc::clone(key))],
            Self::Pause { handler, .. } => vec![Subject::Handler(Arc::clone(handler))],
            Self::Get { .. } | Self::Runs { .. } | Self::Select { .. } | Self::Under { .. } => {
                Vec::new()
            }
        }
    }
}

/// A bucket in one epoch, which has one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tenure {
    pub(crate) bucket: BucketNo,
    pub(crate) epoch: u32,
}

impl Tenure {
    /// Under which a run with this fence began.
    pub(crate) fn of(bucket: BucketNo, fence: Fence) -> Self {
        Self { bucket, epoch: fence.epoch() }
    }
}

/// The answer to a [`Request`]: to each kind of request its own, so that none can be taken for
/// another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// To [`Keep::Join`]: how many buckets the group has.
    Joined { buckets: BucketNo },
    /// To [`Keep::Renew`].
    Renewed(Renewed),
    /// To [`Keep::Claim`]: what the node owns now, and in which epoch.
    Claimed(Vec<(BucketNo, u32)>),
    /// To [`Keep::Release`].
    Released,
    /// To [`Keep::Leave`].
    Left,
    /// To [`Request::Write`].
    Written(Written),
    /// To [`Request::Batch`]: what follows is carried out, or was before.
    Batched,
    /// To [`Request::Ids`]: identities that nobody else has in this history.
    Ids { blocks: Vec<Range<TimerId>>, history: History },
    /// To [`Request::Load`] and [`Request::Read`].
    Loaded(Vec<Loaded>),
    /// To [`Request::Start`]: what runs, and what is due later than it was thought to be. Whatever
    /// is in neither is gone, or not the node's.
    Started { rows: Vec<Row>, moved: Vec<(TimerId, Timestamp)> },
    /// To [`Request::Finish`], in its order.
    Finished(Vec<Finished>),
    /// To [`Request::PutOff`], in its order: when each is due now; `None` for one that is gone, or
    /// started, or in the bucket of another owner.
    PutOff(Vec<Option<Timestamp>>),
    /// To [`Request::Park`]: those that are parked now and were not before.
    Parked(Vec<Row>),
    /// To [`Request::Forget`]: how many.
    Forgotten(usize),
    /// To [`Request::Record`].
    Recorded,
    /// To [`Request::Prune`]: how many.
    Pruned(usize),
}

/// What was asked, each with its reply.
pub(crate) fn paired<A>(asked: Vec<A>, replies: Vec<Reply>) -> impl Iterator<Item = (A, Reply)> {
    assert_eq!(asked.len(), replies.len(), "a defect: a store gives one reply for each request");
    asked.into_iter().zip(replies)
}

/// A store gave a reply that was not asked for. The node ends with this: to go on, it would have to
/// guess what was done, and what is in the store is safe there.
#[cold]
pub(crate) fn mismatched(asked: &impl fmt::Debug, reply: &Reply) -> ! {
    // The names alone: what they hold belongs to users.
    let name = |value: &dyn fmt::Debug| -> String {
        format!("{value:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
    };
    panic!("a defect: the store answered {} with {}", name(asked), name(reply))
}

/// What others have to know of a node's settings: they judge it by these, and not by their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Terms {
    /// After this long without a renewal it is dead.
    pub(crate) lease: Micros,
    /// It has to be told of timers that are due sooner than this.
    pub(crate) window: Micros,
}

/// A node of the group, this one or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) id: NodeId,
    pub(crate) renewals: u64,
    /// It runs timers.
    pub(crate) serves: bool,
    pub(crate) terms: Terms,
}

/// What a node learns when it renews its lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Renewed {
    /// It was not buried.
    pub(crate) alive: bool,
    pub(crate) nodes: Vec<Peer>,
    /// All buckets: the owner and the epoch.
    pub(crate) buckets: Vec<(BucketNo, Option<NodeId>, u32)>,
    /// The handlers that are paused.
    pub(crate) paused: Vec<Arc<str>>,
}

/// What a [`Write`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    Scheduled(Vec<Placed>),
    /// The whole batch was refused, because this key is taken.
    KeyTaken(String),
    /// Another transaction holds what it is about: nothing was done, and it is to be asked for
    /// again. So are all later ones of the transaction that have a [`Subject`] of it.
    Held,
    /// The write was carried out before, and its result is not known any more.
    Unsure,
    /// Nothing was done: the bucket has had another owner since.
    Lost,
    /// No run of it starts any more.
    Prevented {
        id: TimerId,
        due: Timestamp,
    },
    /// It has started. If it repeats, this run is its last.
    Running {
        id: TimerId,
        bucket: BucketNo,
    },
    /// It had started, and its row is gone: its run does not count.
    Removed {
        id: TimerId,
        bucket: BucketNo,
    },
    NotFound,
    Reset {
        id: TimerId,
        bucket: BucketNo,
        was_due: Timestamp,
        due: Timestamp,
        handler: Arc<str>,
    },
    Listed(Vec<Listed>),
    /// A page of runs, and behind which place the next one begins, if there is one.
    Runs(Vec<Ran>, Option<RunPlace>),
    Applied,
    /// What was parked waits again.
    Placed(Placed),
    Selected(Selected),
}

/// What a step of a walk has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selected {
    /// How many rows were read.
    pub(crate) looked_at: usize,
    /// How many of them were meant.
    pub(crate) matched: usize,
    /// Those, for [`Act::List`].
    pub(crate) listed: Vec<Listed>,
    /// What was done to each, for acts that do something.
    pub(crate) each: Vec<Written>,
    /// Where the walk goes on, if it does.
    pub(crate) next: Option<Cursor>,
}

/// Where a timer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) id: TimerId,
    pub(crate) bucket: BucketNo,
    pub(crate) due: Timestamp,
    pub(crate) handler: Arc<str>,
    pub(crate) how: How,
}

impl Placed {
    /// No timer is made of `new`, because its series ends before the first run.
    pub(crate) fn over(new: &NewTimer, how: How) -> Self {
        let (bucket, handler) = (new.bucket, Arc::clone(&new.handler));
        Self { id: 0, bucket, due: Timestamp::NEVER, handler, how }
    }
}

/// What a schedule call did about its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    New,
    /// Another timer has the key, and stays. (A remembered key has no timer: `id` is 0. Nor has a
    /// series that ends before its first run.)
    Kept,
    /// Another timer had the key: its identity, if it had started.
    Replaced {
        started: Option<TimerId>,
    },
    /// The timer that has the key has taken over what was asked for, and was due then.
    Updated {
        was_due: Timestamp,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
