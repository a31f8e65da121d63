//! The end of a node: no new starts; running handlers finish; the buckets are released.

use super::{Node, Output};
use crate::model::{Finish, Then};
use crate::time::Mono;

#[derive(Debug, Default)]
pub(super) struct Closing {
    stage: Stage,
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

    pub(super) fn leaving(&mut self) {
        self.stage = Stage::Leaving;
    }

    pub(super) fn failed(&mut self) {
        if self.stage == Stage::Leaving {
            self.stage = Stage::Draining;
        }
    }

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
        #[cfg(feature = "actors")]
        self.tenants.forget();
        for (id, fence) in self.runs.abandon() {
            self.closing.abandoned += 1;
            self.runs.finishes.push_back(Finish { id, fence, then: Then::GiveBack { after: 0 } });
        }
    }

    pub(super) fn may_leave(&self) -> bool {
        #[cfg(feature = "actors")]
        if !self.tenants.are_gone() {
            return false;
        }
        matches!(self.closing.stage, Stage::Draining | Stage::Leaving)
            && self.runs.is_idle()
            && self.calls.is_idle()
    }

    pub(super) fn close_down(&mut self, _now: Mono) {
        if self.closing.stage == Stage::Left {
            self.closing.stage = Stage::Over;
            self.out.push(Output::Closed { abandoned: self.closing.abandoned });
        }
    }
}
