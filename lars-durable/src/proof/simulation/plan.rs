//! What a seed stands for: how many nodes, which faults, how much of everything.

/// One history, before it happens. Times are in microseconds.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) nodes: usize,
    pub(super) buckets: u16,
    /// The faults stop here.
    pub(super) horizon: i64,
    pub(super) calls: usize,
    pub(super) faults: Faults,
    pub(super) concurrency: usize,
    pub(super) max_resident: usize,
    pub(super) batch: usize,
    /// How fast the local clock of each node runs, in millionths of the store's.
    pub(super) rates: Vec<i64>,
    /// The lease of each node, if they differ.
    pub(super) leases: Vec<i64>,
    /// Some of the timers are messages for actors.
    pub(super) actors: bool,
    /// Most of the timers are of a handler whose runs do not end before the faults stop.
    pub(super) stuck: bool,
    /// How many attempts a run has.
    pub(super) attempts: u32,
    /// All timers are series, and each third run fails until the faults stop.
    pub(super) fails: bool,
}

/// A clock that runs as it should.
pub(super) const TRUE_RATE: i64 = 1_000_000;

/// How far from that the estimate of the store's clock allows for, in millionths.
const ALLOWED: i64 = 200;

/// How likely each fault is, in a thousand.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    /// A request does not reach the store.
    pub(super) lost: u32,
    /// The store commits, and the answer is lost.
    pub(super) unanswered: u32,
    /// A request takes up to twenty seconds.
    pub(super) slow: u32,
    /// A notification is lost.
    pub(super) unheard: u32,
    /// How many nodes are killed, frozen, closed, and how often the clock jumps.
    pub(super) kills: u32,
    pub(super) freezes: u32,
    pub(super) closes: u32,
    pub(super) jumps: u32,
    /// How often a node cannot renew its lease for some seconds, while its other lanes go on.
    pub(super) cuts: u32,
    /// How often nobody reaches the store, for up to three leases.
    pub(super) outages: u32,
    /// A run kills its process.
    pub(super) poison: u32,
    /// A run freezes its process between the look and the start.
    pub(super) freeze_at_start: u32,
    /// A run that was launched waits up to twenty seconds for a thread of the executor.
    pub(super) crowded: u32,
    /// How often a backup is made and restored later, which is declared.
    pub(super) restores: u32,
}

impl Faults {
    /// Whether the only thing that fails is that a node cannot renew its lease.
    pub(super) fn is_cuts_only(&self) -> bool {
        self.any() && !Self { cuts: 0, ..self.clone() }.any()
    }

    /// Whether nothing fails, but nodes are killed.
    pub(super) fn is_kills_only(&self) -> bool {
        self.any() && !Self { kills: 0, ..self.clone() }.any()
    }

    /// Whether nothing fails but the store, for everybody.
    pub(super) fn is_outages_only(&self) -> bool {
        self.any() && !Self { outages: 0, ..self.clone() }.any()
    }

    /// Whether nothing fails, but nodes are closed.
    pub(super) fn is_closes_only(&self) -> bool {
        self.any() && !Self { closes: 0, ..self.clone() }.any()
    }

    pub(super) fn any(&self) -> bool {
        let Self { lost, unanswered, slow, unheard, kills, freezes, closes, jumps, poison, .. } =
            self;
        lost + unanswered
            + slow
            + unheard
            + kills
            + freezes
            + closes
            + jumps
            + self.cuts
            + self.outages
            + poison
            + self.freeze_at_start
            + self.crowded
            + self.restores
            > 0
    }
}

impl Plan {
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let nodes = *rng.choice(&[1, 1, 1, 2, 2, 2, 3, 3, 4, 5]).expect("not empty");
        let mut faults = Faults::default();
        // A quarter of the histories without any: there, nothing may be late, repeated or stale.
        if rng.u8(..4) > 0 {
            let mut some = |most: u32| if rng.bool() { rng.u32(1..=most) } else { 0 };
            faults = Faults {
                lost: some(200),
                unanswered: some(200),
                slow: some(30),
                unheard: some(500),
                kills: some(4),
                freezes: some(3),
                closes: some(2),
                jumps: some(2),
                cuts: some(2),
                outages: 0,
                poison: some(30),
                freeze_at_start: some(30),
                crowded: some(30),
                restores: 0,
            };
        }
        // Half of the histories with clocks that run alike, a quarter with good clocks, a quarter
        // with very bad ones. (A store with one node has that node's clock. And one that jumps too
        // looks as if it ran at any rate.)
        let apart = match rng.u8(..4) {
            0 | 1 => 0,
            2 => ALLOWED,
            _ if nodes == 1 || faults.jumps > 0 => 0,
            _ => 20_000,
        };
        let rates = (0..nodes).map(|_| TRUE_RATE + rng.i64(-apart..=apart)).collect();
        Self {
            rates,
            leases: Vec::new(),
            seed,
            nodes,
            buckets: *rng.choice(&[1, 1, 2, 4, 8]).expect("not empty"),
            horizon: rng.i64(2_000_000..12_000_000),
            calls: rng.usize(1..30),
            faults,
            concurrency: *rng.choice(&[1, 2, 256]).expect("not empty"),
            max_resident: *rng.choice(&[3, 10, 1_000, 1_000]).expect("not empty"),
            batch: *rng.choice(&[1, 7, 1_000, 1_000]).expect("not empty"),
            actors: rng.bool(),
            stuck: false,
            attempts: *rng.choice(&[2, 25]).expect("not empty"),
            fails: false,
        }
    }

    /// Anything may fail, and the store is replaced by a backup of itself.
    pub(super) fn of_restores(seed: u64) -> Self {
        let of = Self::of(seed);
        let restores = 1 + u32::from(seed.is_multiple_of(3));
        Self { calls: 60, faults: Faults { restores, ..of.faults.clone() }, ..of }
    }

    /// Series whose runs fail again and again, on nodes that die.
    pub(super) fn of_failing_series(seed: u64) -> Self {
        let some = |every: u64, many| if seed.is_multiple_of(every) { many } else { 0 };
        let (kills, poison, unanswered) = (some(2, 3), some(3, 30), some(5, 100));
        let faults = Faults { kills, poison, unanswered, closes: some(7, 2), ..Faults::default() };
        let nodes = 1 + usize::try_from(seed / 2 % 3).expect("less than 3");
        let (horizon, rates) = (20_000_000, vec![TRUE_RATE; nodes]);
        let of =
            Self { nodes, horizon, rates, faults, actors: false, fails: true, ..Self::of(seed) };
        Self { calls: 8, batch: 1_000, concurrency: 256, max_resident: 1_000, ..of }
    }

    /// Nothing fails, but one handler's runs do not end, and its timers fill the memory.
    pub(super) fn of_a_stuck_handler(seed: u64) -> Self {
        let (nodes, horizon) = (1 + usize::from(seed % 2 == 1), 20_000_000);
        let (rates, faults) = (vec![TRUE_RATE; nodes], Faults::default());
        let of = Self { nodes, buckets: 2, horizon, rates, faults, ..Self::of(seed) };
        Self { calls: 80, batch: 1_000, concurrency: 256, max_resident: 40, stuck: true, ..of }
    }

    /// The same on nodes that are killed, while runs of both handlers are under way.
    pub(super) fn of_a_stuck_handler_and_kills(seed: u64) -> Self {
        let kills = 1 + u32::try_from(seed % 4).expect("less than 4");
        let faults = Faults { kills, ..Faults::default() };
        Self { faults, horizon: 60_000_000, calls: 200, ..Self::of_a_stuck_handler(seed) }
    }

    /// Nobody reaches the store for a while, again and again.
    pub(super) fn of_outages(seed: u64) -> Self {
        let outages = fastrand::Rng::with_seed(seed).u32(1..=4) * 3;
        let faults = Faults { outages, ..Faults::default() };
        let nodes = 2 + usize::try_from(seed % 3).expect("less than 3");
        let (buckets, horizon, rates) = (8, 60_000_000, vec![TRUE_RATE; nodes]);
        Self { nodes, buckets, horizon, rates, faults, actors: seed % 2 == 1, ..Self::of(seed) }
    }

    /// Nothing fails, and the nodes have leases of their own.
    pub(super) fn of_unlike_leases(seed: u64) -> Self {
        let (nodes, buckets, horizon, faults) = (3, 8, 60_000_000, Faults::default());
        let leases = vec![3_000_000, 30_000_000, 1_000_000];
        let of = Self { nodes, buckets, horizon, faults, leases, ..Self::of(seed) };
        Self { rates: vec![TRUE_RATE; nodes], actors: seed % 2 == 1, ..of }
    }

    /// Nodes that host actors, and are closed again and again.
    pub(super) fn of_closes(seed: u64) -> Self {
        let faults = Faults { closes: 8, ..Faults::default() };
        let nodes = 2 + usize::try_from(seed % 3).expect("less than 3");
        let (buckets, horizon, rates) = (4, 20_000_000, vec![TRUE_RATE; nodes]);
        let (calls, batch, actors) = (40, 1_000, true);
        let of = Self { nodes, buckets, horizon, rates, ..Self::of(seed) };
        Self { calls, batch, actors, faults, max_resident: 1_000, ..of }
    }

    /// Two nodes whose clocks are a twenty-fifth apart. Again and again one of them cannot renew
    /// its lease for some time.
    pub(super) fn of_clocks_apart(seed: u64) -> Self {
        let faults = Faults { cuts: 12, ..Faults::default() };
        let (nodes, buckets, horizon) = (2, 8, 40_000_000);
        let rates = vec![TRUE_RATE - 20_000, TRUE_RATE + 20_000];
        Self { nodes, buckets, horizon, faults, rates, actors: seed % 2 == 1, ..Self::of(seed) }
    }

    /// Whether one handler is stuck, and nothing fails but nodes that are killed.
    pub(super) fn is_stuck_and_killed(&self) -> bool {
        self.stuck && self.faults.is_kills_only()
    }

    /// Whether a clock runs so badly that the estimate of the store's clock may be early, by less
    /// than the lead.
    pub(super) fn has_bad_clocks(&self) -> bool {
        self.rates.iter().any(|rate| (rate - TRUE_RATE).abs() > ALLOWED)
    }
}
