//! What an actor and its thread note of a turn while a timer's message may wait, and why one that
//! was received is late.

use std::any::type_name;
use std::time::Duration;

use lars_scheduler::extend::Explained;
use lars_scheduler::late::{Cause, LateShare, Who};

use crate::base::late::course::Did;
use crate::base::late::{Parts, Timed, Whose, Why, between};
use crate::cell::home::Turn;
use crate::cell::late_messages::{LateMessages, received_by};
use crate::dispatcher::journal::Journal;
use crate::dispatcher::worker::with_journal;
use crate::mailbox::asides::Asides;
use crate::sync::{Arc, real_now};
use lars_base::time::Instant;

/// What a timer's message is to its actor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Message,
    Timeout,
}

/// Why a message was late: found out, or as what was late before it.
enum Found {
    New(Parts),
    Again(Arc<Explained>),
}

impl<M: Send + 'static> Turn<'_, M> {
    fn late(&self) -> Option<(&LateMessages, &Asides)> {
        Some((self.cell().registry.incidents.late()?, self.cell().mailbox.asides()?))
    }

    /// The turn begins. Returns when it did, if what is late is explained.
    #[inline]
    pub(crate) fn begin_course(&self) -> Option<Instant> {
        let bound = self.cell().registry.incidents.late()?.bound();
        let whose = Whose::Turn(self.cell().id, type_name::<M>);
        Some(with_journal(|journal| journal.begin(whose, bound)).unwrap_or_else(real_now))
    }

    /// The actor did this until `now`, or until it is read. `waits`: something may wait for it that
    /// is no message.
    pub(crate) fn note(&self, did: Did, waits: bool, now: Option<Instant>) {
        let Some((_, asides)) = self.late() else { return };
        let (timed, came) = asides.timed();
        let signalled = self.cell().lane.hint();
        let now = (timed || waits || signalled).then(|| now.unwrap_or_else(real_now));
        // SAFETY: a turn exists inside the one activation only, and no foreign code runs here.
        unsafe {
            asides.with_course(|course| match now {
                Some(now) => course.push(did, now, (came, signalled)),
                None => course.clear(came),
            });
        }
    }

    /// The turn ends.
    pub(crate) fn end_course(&self) {
        let Some((_, asides)) = self.late() else { return };
        let pieces = || with_journal(Journal::pieces).unwrap_or_default();
        // SAFETY: a turn exists inside the one activation only, and no foreign code runs here.
        unsafe {
            asides.with_course(|course| {
                if !course.is_empty() {
                    course.end_turn(&pieces);
                }
            });
        }
        with_journal(Journal::end);
    }

    /// A timer's message has been received, which began at this instant: says so if that was late.
    pub(crate) fn was_received(&self, kind: Kind, timed: Timed, received: Instant) {
        let Some((late, asides)) = self.late() else { return };
        let Timed { promised, put_in } = timed;
        let lateness = received.saturating_duration_since(promised);
        let here = |from, to, parts: &mut Parts| {
            with_journal(|journal| journal.lay(from, to, parts));
        };
        // SAFETY: a turn exists inside the one activation only, and no foreign code runs here.
        let found = unsafe {
            asides.with_course(|course| {
                let found = (lateness > late.bound()).then(|| match kind {
                    Kind::Message => course.stands(received, late.bound()).map_or_else(
                        || Found::New(course.explain(put_in.max(promised), received, &here)),
                        Found::Again,
                    ),
                    Kind::Timeout => {
                        Found::New(course.explain(put_in.max(promised), received, &here))
                    }
                });
                course.forget(put_in);
                found
            })
        };
        match found {
            None => {}
            Some(Found::Again(explained)) => late.add_again(&explained, lateness),
            Some(Found::New(parts)) => {
                let explained = self.tell_late(late, kind, (timed, received), &parts);
                if let Kind::Message = kind {
                    // SAFETY: as above. (The hook has returned.)
                    unsafe { asides.with_course(|it| it.was_explained(received, explained)) }
                }
            }
        }
    }

    #[cold]
    fn tell_late(
        &self,
        late: &LateMessages,
        kind: Kind,
        (Timed { promised, put_in }, received): (Timed, Instant),
        parts: &Parts,
    ) -> Explained {
        let cell = self.cell();
        let (path, message_type) = (cell.lineage.to_path(), type_name::<M>());
        let own = || received_by(&path, message_type);
        let who = match kind {
            Kind::Message => own(),
            Kind::Timeout => Who::Named(format!("{path} in its receive timeout").into()),
        };
        let share = |cause, culprit, nanos| {
            let time = Duration::from_nanos(nanos);
            LateShare { cause, culprit, time }
        };
        let shares = parts.0.iter().map(|&(why, time)| match why {
            Why::InMessage => share(Cause::ActorBusy, Some(own()), time),
            Why::InHook => {
                let hook = Who::Named(format!("{path} in a hook").into());
                share(Cause::ActorBusy, Some(hook), time)
            }
            Why::Before => share(Cause::MessagesBefore, Some(own()), time),
            Why::Thread(whose) => {
                let whose = whose.map(|whose| late.name(whose, &cell.registry.tree));
                share(Cause::DispatcherBusy, whose, time)
            }
        });
        let timer = share(Cause::Timer, None, between(promised, put_in.min(received)));
        let lateness = received.saturating_duration_since(promised);
        late.add(who, lateness, std::iter::once(timer).chain(shares))
    }
}
