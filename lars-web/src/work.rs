//! What pages change: one timer, a handler, or all timers that a form asks for.
//!
//! All that match are changed in steps, on a thread, by a node that is there for as long as that
//! takes. Each step is short and holds up nobody. There is one such work at a time; it can be
//! stopped, and a new one goes on where it was, because what is done does not match any more.

use std::io;
use std::thread;
use std::time::Duration;

use futures::channel::oneshot;
use lars_durable::query::{Query, State, Step};
use lars_durable::schedule::Cancel;
use lars_durable::{Error, Submitted, Timers};

use crate::filter::{Fields, Filter, field};
use crate::source::{Source, Trouble};
use crate::sync::{Arc, watch};

/// The most timers that a step changes.
const STEP: usize = 1_000;

/// What is done to a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Cancel,
    /// To so long from now.
    Move(Duration),
    Retry,
    Discard,
}

impl Act {
    /// # Errors
    ///
    /// Which field is wrong, and what it may be.
    pub(crate) fn of(fields: &Fields) -> Result<Self, String> {
        match field(fields, "do") {
            Some("cancel") => Ok(Self::Cancel),
            Some("move") => {
                let delay = field(fields, "delay").unwrap_or("0s");
                let wrong = |error| {
                    format!("`delay` is {delay:?}, but it must be such as 90s or 2h 30m: {error}")
                };
                humantime::parse_duration(delay).map(Self::Move).map_err(wrong)
            }
            Some("retry") => Ok(Self::Retry),
            Some("discard") => Ok(Self::Discard),
            other => Err(format!(
                "`do` is {:?}, but it must be one of cancel, move, retry, discard, pause, resume",
                other.unwrap_or("")
            )),
        }
    }

    /// What the action is called; the field `do` has the same.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Move(_) => "move",
            Self::Retry => "retry",
            Self::Discard => "discard",
        }
    }

    /// Those of a filter that this can be done to.
    pub(crate) fn query(self, filter: &Filter) -> Query {
        let query = filter.query().limit(STEP);
        let (waits, runs) =
            ([State::Waiting, State::Due, State::Retrying, State::Paused], [State::Running]);
        match self {
            _ if filter.state() != "any" => query,
            Self::Cancel => query.states(waits.into_iter().chain(runs)),
            Self::Move(_) => query.states(waits),
            Self::Retry | Self::Discard => query.states([State::Parked]),
        }
    }

    fn step(self, timers: &Timers, query: &Query) -> Submitted<Step> {
        match self {
            Self::Cancel => timers.cancel_all(query),
            Self::Move(delay) => timers.reset_all(query, delay),
            Self::Retry => timers.retry_all(query),
            Self::Discard => timers.discard_all(query),
        }
    }

    /// Does it to one timer; says what became of it.
    fn one(self, timers: &Timers, id: u64) -> Result<&'static str, Error> {
        let done = |done: bool, yes, no| if done { yes } else { no };
        Ok(match self {
            Self::Cancel => match timers.cancel(id).wait()? {
                Cancel::Prevented => "It is cancelled.",
                Cancel::Running => "It is running: this run is its last.",
                _ => "It was not there any more.",
            },
            Self::Move(delay) => {
                let moved = timers.reset(id, delay).wait()?;
                done(moved, "It is moved.", "It has started, or was not there any more.")
            }
            Self::Retry => {
                let again = timers.retry_parked(id).wait()?;
                done(again, "It runs again, now.", "It was not parked any more.")
            }
            Self::Discard => {
                let gone = timers.discard_parked(id).wait()?;
                done(gone, "It is deleted.", "It was not parked any more.")
            }
        })
    }
}

/// Does it to one timer.
pub(crate) async fn one(source: Source, act: Act, id: u64) -> Result<&'static str, Trouble> {
    tracing::info!(target: "lars_web", act = act.name(), id, "a timer is changed");
    apart(move || Ok(act.one(&source.hand()?.timers, id)?)).await
}

/// Pauses a handler, or resumes it.
pub(crate) async fn pause(source: Source, handler: String, pause: bool) -> Result<(), Trouble> {
    tracing::info!(target: "lars_web", %handler, pause, "a handler is paused or resumed");
    apart(move || {
        let timers = source.hand()?.timers;
        let submitted = if pause { timers.pause(&handler) } else { timers.resume(&handler) };
        Ok(submitted.wait()?)
    })
    .await
}

/// On a thread of its own, because it blocks. It goes on if nobody waits any more.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, Trouble> {
    let (sender, done) = oneshot::channel();
    let away = |error: io::Error| Trouble::Away(error.to_string());
    let thread = thread::Builder::new().name("lars-web-hand".to_owned());
    thread.spawn(move || _ = sender.send(work())).map_err(away)?;
    let lost = || Trouble::Away("a defect: the thread that does it has panicked".to_owned());
    done.await.unwrap_or_else(|_| Err(lost()))
}

/// How far the work is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// What is done, and to which timers, for people.
    pub(crate) what: String,
    pub(crate) state: WorkState,
    pub(crate) steps: u64,
    pub(crate) looked_at: u64,
    pub(crate) changed: u64,
    pub(crate) running: u64,
    pub(crate) passed_over: u64,
    /// The page wants it to end.
    stop: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum WorkState {
    /// There was none yet.
    #[default]
    Nothing,
    Going,
    Stopped,
    Done,
    Failed(String),
}

/// The work on all timers that a form asks for: one at a time. When this is dropped, it stops.
pub(crate) struct Work(Arc<watch::Sender<Progress>>);

impl Work {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Progress::default())))
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Progress> {
        let mut progress = self.0.subscribe();
        progress.mark_changed();
        progress
    }

    /// Begins, on a thread of its own.
    ///
    /// # Errors
    ///
    /// There is one already, or there is no thread.
    pub(crate) fn start(&self, source: Source, act: Act, filter: &Filter) -> Result<(), String> {
        let what = format!("{}: {}", act.name(), filter.words());
        let began = self.0.send_if_modified(|progress| {
            let free = progress.state != WorkState::Going;
            if free {
                let state = WorkState::Going;
                *progress = Progress { what: what.clone(), state, ..Progress::default() };
            }
            free
        });
        if !began {
            return Err("another action is under way".to_owned());
        }
        tracing::info!(target: "lars_web", %what, "timers are changed");
        let (sender, query) = (Arc::clone(&self.0), act.query(filter));
        let thread = thread::Builder::new().name("lars-web-work".to_owned()).spawn(move || {
            let state = run(&source, act, query, &sender);
            tracing::info!(target: "lars_web", ?state, "timers were changed");
            sender.send_modify(|progress| progress.state = state);
        });
        thread.map(|_| ()).map_err(|error| {
            let why = error.to_string();
            self.0.send_modify(|progress| progress.state = WorkState::Failed(why.clone()));
            why
        })
    }

    /// Ends it after the step that is under way.
    pub(crate) fn stop(&self) {
        self.0.send_modify(|progress| progress.stop = true);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(source: &Source, act: Act, mut query: Query, to: &watch::Sender<Progress>) -> WorkState {
    let hand = match source.hand() {
        Ok(hand) => hand,
        Err(why) => return WorkState::Failed(why.to_string()),
    };
    loop {
        if to.borrow().stop {
            return WorkState::Stopped;
        }
        let step = match act.step(&hand.timers, &query).wait() {
            Ok(step) => step,
            Err(error) => return WorkState::Failed(error.to_string()),
        };
        to.send_modify(|progress| {
            progress.steps += 1;
            progress.looked_at += step.looked_at as u64;
            progress.changed += step.changed as u64;
            progress.running += step.running as u64;
            progress.passed_over += step.passed_over as u64;
        });
        match step.next {
            Some(place) => query = query.after(place),
            None => return WorkState::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(fields: &[(&str, &str)]) -> Result<Act, String> {
        let own = |it: &(&str, &str)| (it.0.to_owned(), it.1.to_owned());
        Act::of(&fields.iter().map(own).collect())
    }

    #[test]
    fn an_action_is_what_its_form_says_and_what_it_cannot_be_is_named() {
        assert_eq!(act(&[("do", "cancel")]), Ok(Act::Cancel));
        let moved = act(&[("do", "move"), ("delay", "2h 30m")]);
        assert_eq!(moved, Ok(Act::Move(Duration::from_secs(9_000))));
        assert_eq!(act(&[("do", "move")]), Ok(Act::Move(Duration::ZERO)));
        let wrong = act(&[("do", "move"), ("delay", "soon")]).unwrap_err();
        assert!(wrong.starts_with("`delay` is \"soon\", but it must be such as 90s"), "{wrong}");
        let wrong = act(&[("do", "drop")]).unwrap_err();
        assert!(wrong.starts_with("`do` is \"drop\", but it must be one of cancel"), "{wrong}");
    }

    #[test]
    fn an_action_is_for_the_states_that_it_can_be_done_to() {
        let any = Filter::default();
        let query = Query::new().limit(STEP);
        assert_eq!(Act::Discard.query(&any), query.clone().states([State::Parked]));
        assert_ne!(Act::Cancel.query(&any), Act::Move(Duration::ZERO).query(&any));
        let due = Filter::of(&vec![("state".to_owned(), "due".to_owned())]).unwrap();
        assert_eq!(Act::Cancel.query(&due), query.states([State::Due]));
    }
}
