//! What all requests share.

use std::io;

use lars_top::Probe;
use lars_top::trend::Trend;
use maud::Markup;

use crate::desk::Desk;
use crate::feed::Feed;
use crate::guard::Guard;
use crate::html::BACK;
use crate::page::{Tab, actors, group, scheduler};
use crate::source::Source;
use crate::work::Work;

pub(crate) struct Shared {
    pub(crate) guard: Guard,
    /// What is watched, for people.
    pub(crate) about: String,
    pub(crate) group: Option<Group>,
    pub(crate) program: Option<Feed<Program>>,
    pub(crate) work: Work,
}

/// A group of durable timers.
pub(crate) struct Group {
    pub(crate) feed: Feed<group::Seen>,
    pub(crate) desk: Desk,
    pub(crate) source: Source,
}

/// What is shown of a live scheduler and its actors.
pub(crate) struct Program {
    pub(crate) scheduler: Markup,
    pub(crate) actors: Markup,
}

impl Group {
    pub(crate) fn start(source: Source, guard: &Guard) -> io::Result<Self> {
        let mut view = group::View::new(guard.actions().map(str::to_owned));
        let mut reader = source.reader();
        let look = move || view.take(reader.inspect(), reader.late());
        let feed = Feed::start("lars-web-group", group::View::nothing(), look)?;
        Ok(Self { feed, desk: Desk::open(source.reader())?, source })
    }
}

impl Program {
    pub(crate) fn start(probe: Probe) -> io::Result<Feed<Self>> {
        let mut trend = Trend::keeping(std::time::Duration::from_secs(BACK as u64));
        let first = Self::of(&trend);
        Feed::start("lars-web-program", first, move || {
            trend.add(Box::new(probe.snapshot()));
            Self::of(&trend)
        })
    }

    fn of(trend: &Trend) -> Self {
        Self { scheduler: scheduler::page(trend), actors: actors::page(trend) }
    }
}

impl Shared {
    /// The pages that there are. The first is shown first.
    pub(crate) fn tabs(&self) -> Vec<Tab> {
        let group = [Tab::Group, Tab::Timers].into_iter().filter(|_| self.group.is_some());
        let program = [Tab::Scheduler, Tab::Actors].into_iter();
        group.chain(program.filter(|_| self.program.is_some())).collect()
    }
}
