//! Why a timer's message is received late: what there is to be said of the time in which it waits.
//!
//! Each thread of a dispatcher notes for itself whose turns it has run lately, in [`Piece`]s. And
//! while a timer's message waits for an actor, the actor notes what it does, in a
//! [`Course`](course::Course). When the message is received late, the time since it came into the
//! mailbox is laid over both.

pub(crate) mod course;

use lars_base::rate::nanos;
use lars_base::time::Instant;
use lars_scheduler::TaskIdentity;

/// When a timer's message was promised, and when it came into the mailbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timed {
    pub(crate) promised: Instant,
    pub(crate) put_in: Instant,
}

/// What a thread of a dispatcher runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose {
    /// The turn of the actor with this number, and the name of the type of its messages.
    Turn(u64, fn() -> &'static str),
    /// A future that is piped to the actor with this number.
    Piped(u64),
    /// A task of the scheduler.
    Closure(TaskIdentity),
}

impl Whose {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Turn(one, _), Self::Turn(other, _)) => one == other,
            (Self::Piped(one), Self::Piped(other)) => one == other,
            (Self::Closure(one), Self::Closure(other)) => one == other,
            _ => false,
        }
    }
}

/// Why a message waited.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Why {
    /// The actor was in another message when this one came.
    InMessage,
    /// The actor was in a hook, or in what it has to do beside messages.
    InHook,
    /// Messages stood before it.
    Before,
    /// The thread that ran the actor in the end was in this, if it can be told apart.
    Thread(Option<Whose>),
}

impl Why {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Thread(Some(one)), Self::Thread(Some(other))) => one.is(other),
            (Self::InMessage, Self::InMessage)
            | (Self::InHook, Self::InHook)
            | (Self::Before, Self::Before)
            | (Self::Thread(None), Self::Thread(None)) => true,
            _ => false,
        }
    }
}

/// How many reasons one lateness tells apart.
const REASONS: usize = 16;

/// The parts of a time, in nanoseconds each. What is missing is not known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts(pub(crate) Vec<(Why, u64)>);

impl Parts {
    pub(crate) fn add(&mut self, why: Why, time: u64) {
        if time == 0 {
            return;
        }
        let known = self.0.iter().any(|(it, _)| it.is(&why));
        let why = match why {
            Why::Thread(Some(_)) if !known && self.0.len() >= REASONS => Why::Thread(None),
            why => why,
        };
        match self.0.iter_mut().find(|(it, _)| it.is(&why)) {
            Some((_, all)) => *all += time,
            None => self.0.push((why, time)),
        }
    }
}

/// How many nanoseconds lie between two instants.
pub(crate) fn between(from: Instant, to: Instant) -> u64 {
    nanos(to.saturating_duration_since(from))
}

/// How many turns one piece tells apart.
const TOLD_APART: usize = 4;

/// What a thread ran in a piece of time, one after another.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    from: Instant,
    pub(crate) to: Instant,
    /// For how many nanoseconds each.
    shares: [Option<(Whose, u64)>; TOLD_APART],
    /// For how long others ran.
    rest: u64,
}

impl Piece {
    pub(crate) fn new(whose: Whose, from: Instant, to: Instant) -> Self {
        let mut shares = [None; TOLD_APART];
        shares[0] = Some((whose, between(from, to)));
        Self { from, to, shares, rest: 0 }
    }

    /// Makes it longer, if it is that which the thread went on from, and if it is not too long for
    /// several. Says whether it did.
    pub(crate) fn grow(&mut self, whose: Whose, from: Instant, to: Instant, grain: u64) -> bool {
        let alone = self.shares[1].is_none()
            && self.rest == 0
            && self.shares[0].is_some_and(|(it, _)| it.is(&whose));
        if self.to != from || !alone && between(self.from, to) > grain {
            return false;
        }
        let time = between(from, to);
        self.to = to;
        for share in &mut self.shares {
            match share {
                Some((it, all)) if it.is(&whose) => {
                    *all += time;
                    return true;
                }
                Some(_) => {}
                None => {
                    *share = Some((whose, time));
                    return true;
                }
            }
        }
        self.rest += time;
        true
    }

    /// Adds what lies between two instants.
    pub(crate) fn lay(&self, from: Instant, to: Instant, parts: &mut Parts) {
        let own = between(from.max(self.from), to.min(self.to));
        let whole = between(self.from, self.to);
        let part = |time: u64| match whole {
            0 => 0,
            whole => (u128::from(time) * u128::from(own) / u128::from(whole)) as u64,
        };
        for (whose, time) in self.shares.iter().flatten() {
            parts.add(Why::Thread(Some(*whose)), part(*time));
        }
        parts.add(Why::Thread(None), part(self.rest));
    }
}
