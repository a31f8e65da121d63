//! What the timers of actors are known by.

use std::borrow::Cow;
use std::panic::Location;
use std::time::Duration;

/// The key of a timer within its actor: a name, a number, or both. A name alone, a number alone and
/// the two together are three different keys.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::timers::TimerKey;
/// use mini_actor::{Actor, Context, Recipient};
/// use std::time::Duration;
///
/// /// Gives up each of its requests after a time of its own.
/// struct Client(Recipient<u64>);
///
/// impl Actor for Client {
///     type Message = u64;
///     fn started(&mut self, ctx: &mut Context<Self>) {
///         for number in 1..=3 {
///             let limit = Duration::from_secs(number);
///             let _ = ctx.timers().start_single(("request", number), limit, number);
///         }
///         assert!(ctx.timers().cancel(("request", 2)));
///     }
///     fn receive(&mut self, number: u64, _: &mut Context<Self>) {
///         let _ = self.0.tell(number);
///     }
/// }
///
/// let kit = TestKit::new("test")?;
/// let probe = kit.probe::<u64>("probe");
/// let given_up = probe.actor().recipient();
/// kit.spawn("client", || Client(given_up))?;
/// assert_eq!(probe.expect_message_within(Duration::from_secs(1)), 1);
/// assert_eq!(probe.expect_message_within(Duration::from_secs(2)), 3);
/// assert_eq!(TimerKey::from("beat"), TimerKey::from("beat".to_owned()));
/// assert_ne!(TimerKey::from("beat"), TimerKey::from(("beat", 0)));
/// assert_eq!(TimerKey::from(("beat", 7)).name(), Some("beat"));
/// assert_eq!(TimerKey::from(7).number(), Some(7));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TimerKey {
    name: Option<Cow<'static, str>>,
    number: Option<u64>,
}

impl TimerKey {
    /// The name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The name, if it was not made at run time.
    pub(crate) fn static_name(&self) -> Option<&'static str> {
        match self.name {
            Some(Cow::Borrowed(name)) => Some(name),
            Some(Cow::Owned(_)) | None => None,
        }
    }

    /// The number, if it has one.
    pub fn number(&self) -> Option<u64> {
        self.number
    }
}

impl From<&'static str> for TimerKey {
    fn from(name: &'static str) -> Self {
        Self { name: Some(Cow::Borrowed(name)), number: None }
    }
}

impl From<String> for TimerKey {
    fn from(name: String) -> Self {
        Self { name: Some(Cow::Owned(name)), number: None }
    }
}

impl From<u64> for TimerKey {
    fn from(number: u64) -> Self {
        Self { name: None, number: Some(number) }
    }
}

impl<N: Into<Cow<'static, str>>> From<(N, u64)> for TimerKey {
    fn from((name, number): (N, u64)) -> Self {
        Self { name: Some(name.into()), number: Some(number) }
    }
}

/// An active timer of an actor. From [`System::timers_of`](crate::System::timers_of).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActorTimer {
    /// Its key.
    pub key: TimerKey,
    /// How long it is until it is due, as in
    /// [`PendingTimer`](crate::timers::PendingTimer::remaining).
    pub remaining: Option<Duration>,
    /// Whether it is periodic.
    pub periodic: bool,
    /// The place of the call that started it.
    pub place: &'static Location<'static>,
}
