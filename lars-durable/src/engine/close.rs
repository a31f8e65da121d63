//! The end of a node: no new starts; running handlers finish; the buckets are released.
//!
//! ```text
//!   Open ── close ─▶ Draining ── nothing is left ─▶ Leaving ── the store knows ─▶ Left ─▶ Over
//!                        ▲                             │
//!                        └── the store was not reached ┘
//! ```
//!
//! Nothing is left when no run is under way, every finish is recorded, every call is answered, and
//! no actor lives here. Calls are taken in as long as a run or an actor may make them, and refused
//! from then on: callers that do not stop must not keep the node. `abandon` shortens that from
//! outside: a node never gives up a run by itself, because only its owner knows for how long it may
//! wait.

use super::{Node, Output};

/// See the module's documentation.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Closing {
    stage: Stage,
    /// How many runs had not ended.
    abandoned: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    /// Nothing starts any more; what runs ends, and is finished.
    Draining,
    /// The store is being told.
    Leaving,
    /// The store knows, the owner of the node not yet.
    Left,
    Over,
}

impl Closing {
    pub(super) fn is_closing(&self) -> bool {
        self.stage != Stage::Open
    }

    pub(super) fn has_left(&self) -> bool {
        matches!(self.stage, Stage::Left | Stage::Over)
    }

    /// The farewell is sent.
    pub(super) fn leaving(&mut self) {
        self.stage = Stage::Leaving;
    }

    /// The keeper's batch failed: if it was the farewell, it is sent again.
    pub(super) fn failed(&mut self) {
        if self.stage == Stage::Leaving {
            self.stage = Stage::Draining;
        }
    }

    /// The store has taken the farewell.
    pub(super) fn confirmed(&mut self) {
        if self.stage == Stage::Leaving {
            self.stage = Stage::Left;
        }
    }
}

impl Node {
    /// No new starts from here on. [`Output::Closed`] follows when all that runs has ended and is
    /// recorded.
    pub(crate) fn close(&mut self) {
        if self.closing.stage == Stage::Open {
            self.closing.stage = Stage::Draining;
        }
    }

    /// Waits no longer for what runs: it is given back, and runs again elsewhere. What it says
    /// later is ignored.
    pub(crate) fn abandon(&mut self) {
        self.tenants.forget();
        let handlers = &self.settings.handlers;
        let is_gone = |place: usize| handlers[place].at_most_once;
        self.closing.abandoned += self.runs.abandon(is_gone);
    }

    /// Whether the farewell may be sent.
    pub(super) fn may_leave(&self) -> bool {
        matches!(self.closing.stage, Stage::Draining | Stage::Leaving)
            && self.waits_for_calls_only()
            && self.calls.is_idle()
    }

    /// Whether the node is closing, and nothing that is left of it makes calls.
    pub(super) fn waits_for_calls_only(&self) -> bool {
        self.closing.is_closing()
            && self.tenants.are_gone()
            && self.runs.is_idle()
            && self.history.is_empty()
            && self.runner.is_idle()
    }

    /// Says that the node has left, once.
    pub(super) fn close_down(&mut self) {
        if self.closing.stage == Stage::Left {
            self.closing.stage = Stage::Over;
            self.out.push(Output::Closed { abandoned: self.closing.abandoned });
        }
    }
}
