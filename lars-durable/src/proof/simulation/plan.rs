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
}

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
    /// A run kills its process.
    pub(super) poison: u32,
    /// A run freezes its process between the look and the start.
    pub(super) freeze_at_start: u32,
}

impl Faults {
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
            + poison
            + self.freeze_at_start
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
                poison: some(30),
                freeze_at_start: some(30),
            };
        }
        Self {
            seed,
            nodes,
            buckets: *rng.choice(&[1, 1, 2, 4, 8]).expect("not empty"),
            horizon: rng.i64(2_000_000..12_000_000),
            calls: rng.usize(1..30),
            faults,
            concurrency: *rng.choice(&[1, 2, 256]).expect("not empty"),
            max_resident: *rng.choice(&[3, 10, 1_000, 1_000]).expect("not empty"),
            batch: *rng.choice(&[1, 7, 1_000, 1_000]).expect("not empty"),
        }
    }
}
