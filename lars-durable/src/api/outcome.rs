//! What a handler says about its run.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::engine::RunEnd;

/// What happens to a timer after a run.
///
/// # Examples
///
/// Handlers return an `Outcome`, nothing, a [`ControlFlow`], or a `Result` of one of these, whose
/// error means [`Retry`](Self::Retry):
///
/// ```
/// use lars_durable::{Fired, Handler, Outcome, Payload};
/// use std::time::Duration;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Remind { hour: u32 }
/// impl Payload for Remind { const NAME: &'static str = "remind"; }
///
/// let handler = Handler::new(|due: &Fired<Remind>| -> Result<Outcome, std::num::ParseIntError> {
///     let limit: u32 = "22".parse()?;
///     if due.payload().hour > limit {
///         return Ok(Outcome::Snooze(Duration::from_secs(9 * 3600)));
///     }
///     Ok(Outcome::Done)
/// });
/// # drop(handler);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The run succeeded; a repeat goes on with its next run.
    Done,
    /// The run succeeded, and is the last one of its series. The same as
    /// [`ControlFlow::Break`], which a handler may return as well.
    ///
    /// If the row has gone on by then, because the handler runs [at most
    /// once](super::Handler::at_most_once) or has [acknowledged](super::Fired::complete_in) the run
    /// itself, the series is ended at once after that. If the process dies in between, or another
    /// node has taken over what was acknowledged, the series goes on, and its next run can say so
    /// again.
    Last,
    /// The run failed. It is retried after the handler's backoff, until its attempts are used up.
    /// Then it is parked; a series goes on with its next run.
    Retry(String),
    /// The run is retried after this time. Counts as an attempt.
    RetryAfter(Duration),
    /// The same run once more, after this time, as if this one had not happened: it costs no
    /// attempt, and is no failure. For a handler that finds that it is too early. A timer can be
    /// put off without end. An [at-most-once](super::Handler::at_most_once) timer is over, whatever
    /// its handler says.
    Snooze(Duration),
    /// The timer is parked for people to look at, with this reason: also a series, with all its
    /// runs to come.
    Park(String),
}

impl Outcome {
    pub(super) fn into_end(self) -> RunEnd {
        match self {
            Self::Done => RunEnd::Done,
            Self::Last => RunEnd::Last,
            Self::Retry(error) => RunEnd::Retry { error },
            Self::RetryAfter(after) => {
                let error = "the handler asked for another attempt".into();
                RunEnd::RetryAfter { after: after.into(), error }
            }
            Self::Snooze(after) => RunEnd::Snooze { after: after.into() },
            Self::Park(reason) => RunEnd::Park { reason },
        }
    }
}

/// What a handler may return: an [`Outcome`], `()` for [`Outcome::Done`], a [`ControlFlow`] whose
/// `Break` is [`Outcome::Last`], or a `Result` of one of these.
pub trait IntoOutcome {
    /// The outcome.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

/// As for the runs of a series in memory: `Break` ends it.
impl IntoOutcome for ControlFlow<()> {
    fn into_outcome(self) -> Outcome {
        match self {
            Self::Continue(()) => Outcome::Done,
            Self::Break(()) => Outcome::Last,
        }
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Done
    }
}

impl<T: IntoOutcome, E: fmt::Display> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => Outcome::Retry(error.to_string()),
        }
    }
}
