//! Whose a timer of a system is.

use std::panic::Location;

use lars_scheduler::extend::identity;
use lars_scheduler::{Periodic, Task, TaskIdentity};

/// The name of the system that a timer belongs to, if it has one, and the place of the user's call,
/// if that is not the one that schedules.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Label {
    pub(crate) name: Option<&'static str>,
    place: Option<&'static Location<'static>>,
}

impl Label {
    pub(crate) fn at(place: &'static Location<'static>) -> Self {
        Self { name: None, place: Some(place) }
    }

    pub(crate) fn named(self, name: Option<&'static str>) -> Self {
        Self { name, ..self }
    }

    /// Whose a user's code of this type is.
    pub(crate) fn identity(self, type_name: &'static str) -> TaskIdentity {
        identity(type_name, self.name, self.place)
    }
}

impl From<Option<&'static str>> for Label {
    fn from(name: Option<&'static str>) -> Self {
        Self { name, place: None }
    }
}

/// What can carry a label.
pub(crate) trait Labelled: Sized {
    fn labelled(self, label: impl Into<Label>) -> Self;
}

impl<F, C> Labelled for Task<F, C> {
    fn labelled(mut self, label: impl Into<Label>) -> Self {
        let Label { name, place } = label.into();
        if let Some(name) = name {
            self = self.named(name);
        }
        if let Some(place) = place {
            self = self.placed_at(place);
        }
        self
    }
}

impl<F, C> Labelled for Periodic<F, C> {
    fn labelled(mut self, label: impl Into<Label>) -> Self {
        let Label { name, place } = label.into();
        if let Some(name) = name {
            self = self.named(name);
        }
        if let Some(place) = place {
            self = self.placed_at(place);
        }
        self
    }
}
