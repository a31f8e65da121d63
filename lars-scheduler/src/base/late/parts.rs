//! The parts of a lateness, which add up to it.

use std::fmt;
use std::sync::Arc;

use super::Cause;
use crate::base::identity::TaskIdentity;
use crate::base::raw_task::Whose;

/// Who was late, or was the reason for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Who {
    /// A task of a scheduler.
    Task(TaskIdentity),
    /// A thread, by its name.
    Thread(Arc<str>),
    /// What another system names: an actor and a message, a durable handler, a node.
    Named(Arc<str>),
}

impl Who {
    /// The task, if it is one.
    pub fn task(&self) -> Option<TaskIdentity> {
        match self {
            Self::Task(task) => Some(*task),
            _ => None,
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(task) => task.fmt(f),
            Self::Thread(name) => write!(f, "thread `{name}`"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// A part of a lateness.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) cause: Cause,
    pub(crate) culprit: Culprit,
    pub(crate) nanos: u64,
}

/// Who was at fault, if it can be named.
#[derive(Debug, Clone)]
pub(crate) enum Culprit {
    /// Named only when somebody reads the table.
    Task(Whose),
    Who(Who),
    Nobody,
}

impl Culprit {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Task(one), Self::Task(other)) => one.key() == other.key(),
            (Self::Who(one), Self::Who(other)) => one == other,
            (Self::Nobody, Self::Nobody) => true,
            _ => false,
        }
    }
}

/// The parts of a lateness, which add up to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts(pub(crate) Vec<Part>);

impl Parts {
    pub(crate) fn add(&mut self, cause: Cause, culprit: Culprit, nanos: u64) {
        if nanos == 0 {
            return;
        }
        let same = |part: &&mut Part| part.cause == cause && part.culprit.is(&culprit);
        match self.0.iter_mut().find(same) {
            Some(part) => part.nanos += nanos,
            None => self.0.push(Part { cause, culprit, nanos }),
        }
    }

    pub(crate) fn and(mut self, cause: Cause, nanos: u64) -> Self {
        self.add(cause, Culprit::Nobody, nanos);
        self
    }

    pub(crate) fn add_all(&mut self, others: Self) {
        others.0.into_iter().for_each(|part| self.add(part.cause, part.culprit, part.nanos));
    }

    /// As many nanoseconds as asked for, in the same proportions.
    pub(crate) fn scaled_to(&self, nanos: u64) -> Self {
        let all: u64 = self.0.iter().map(|part| part.nanos).sum();
        let mut new = Self::default();
        let mut left = nanos;
        for part in &self.0 {
            let own = portion(part.nanos, nanos, all).min(left);
            new.add(part.cause, part.culprit.clone(), own);
            left -= own;
        }
        // What rounding has left.
        if let Some(first) = self.0.first() {
            new.add(first.cause, first.culprit.clone(), left);
        }
        new
    }

    /// Takes up to so much from the parts with this cause, in proportion. Says how much.
    pub(super) fn take(&mut self, of: impl Fn(Cause) -> bool, nanos: u64) -> u64 {
        let all: u64 = self.0.iter().filter(|part| of(part.cause)).map(|part| part.nanos).sum();
        let taken = nanos.min(all);
        let mut left = taken;
        for part in self.0.iter_mut().filter(|part| of(part.cause)) {
            let own = portion(part.nanos, taken, all).min(left);
            part.nanos -= own;
            left -= own;
        }
        // What rounding has left.
        for part in self.0.iter_mut().filter(|part| of(part.cause)) {
            let own = left.min(part.nanos);
            part.nanos -= own;
            left -= own;
        }
        self.0.retain(|part| part.nanos > 0);
        taken
    }
}

/// `nanos * part / whole`, rounded down.
pub(super) fn portion(nanos: u64, part: u64, whole: u64) -> u64 {
    match whole {
        0 => 0,
        whole => (u128::from(nanos) * u128::from(part) / u128::from(whole)) as u64,
    }
}
