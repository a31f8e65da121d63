//! The reminders of an actor, by key.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use lars_jobs::wall_clock::MissedRuns;
use mini_actor::MissedTickBehavior;
use mini_actor::timers::TimerKey;

use super::place::{Before, Place};
use super::scope::{self, Handled};
use crate::api::inspection::TimerInfo;
use crate::api::payload::Payload;
use crate::api::schedule::Schedule;
use crate::api::timers::Timers;
use crate::api::which::check_key;
use crate::error::{Error, Refused};
use crate::model::{End, OnConflict};
use crate::runtime::Submitted;
use crate::store::{How, Tenure, Write, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

/// The reminders of an actor, each with a key: from
/// [`DurableContext::reminders`](super::DurableContext::reminders). They are like
/// [`Context::timers`](mini_actor::Context::timers), and survive the actor, the process and the
/// machine.
///
/// - Starting a reminder replaces the one with the same key. Once a reminder is replaced or
///   cancelled, nothing more of it is received, even if it is due and on its way. (A timer that
///   other code makes with the same key after that is received.)
/// - In [`started`](super::DurableActor::started), which is called for each new actor, starting a
///   reminder declares it, as [`OnConflict::Update`] does: if there is one with the key, it stays
///   where it is, with the new message, or is planned by the new rule. So a reminder that has made
///   its actor is received. To begin anew, cancel first.
/// - They outlive their actor: if there is none when a reminder is due, it is created.
/// - They speak for the actor as long as its node has its bucket. What is asked for by an actor
///   whose node has lost that does nothing, however late it is: by then the actor lives elsewhere.
/// - Calls return at once, and take effect in their order. The message that is being handled is
///   acknowledged only when the calls of its handler are committed. If one fails, the message is
///   redelivered. (If a call outside such a handler fails, for example in
///   [`started`](super::DurableActor::started), that is logged.)
/// - A periodic reminder sends the same message each time, and one at a time.
///
/// In the store the key of a reminder is that of a timer: `order/17::payment` for the name
/// `payment`, `order/17:3` for the number 3, `order/17:3:item` for both. So other code can cancel
/// it with [`Timers::cancel`].
pub struct Reminders<P> {
    timers: Timers,
    place: Arc<Place>,
    /// In which the actor speaks for its bucket, wherever these are used.
    epoch: u32,
    missed: MissedTickBehavior,
    missed_runs: MissedRuns,
    end: End,
    payload: PhantomData<fn() -> P>,
}

impl<P: Payload> Reminders<P> {
    pub(super) fn new(timers: Timers, place: Arc<Place>, epoch: u32) -> Self {
        let (missed, missed_runs) = (MissedTickBehavior::Skip, MissedRuns::default());
        let end = End::default();
        Self { timers, place, epoch, missed, missed_runs, end, payload: PhantomData }
    }

    /// For reminders at a fixed rate that are started by this value: what happens to those that
    /// were missed. Unless it is set, one of them is sent: [`MissedTickBehavior::Skip`].
    #[must_use = "it starts no reminder"]
    pub fn missed_ticks(mut self, missed: MissedTickBehavior) -> Self {
        self.missed = missed;
        self
    }

    /// For reminders by cron that are started by this value: what happens to occurrences that were
    /// missed.
    #[must_use = "it starts no reminder"]
    pub fn missed_runs(mut self, missed: MissedRuns) -> Self {
        self.missed_runs = missed;
        self
    }

    /// For periodic reminders that are started by this value: they end after so many, at least 1.
    /// For what counts, see [`Schedule::times`].
    #[must_use = "it starts no reminder"]
    pub fn times(mut self, reminders: u64) -> Self {
        self.end.times = Some(reminders);
        self
    }

    /// For periodic reminders that are started by this value: they end before the first one that
    /// would be planned for later than `end`, by the store's clock. See [`Schedule::until`].
    #[must_use = "it starts no reminder"]
    pub fn until(mut self, end: SystemTime) -> Self {
        self.end.until = Some(Timestamp::from_system(end).0);
        self
    }

    /// Sends `message` once, `delay` from now.
    ///
    /// # Errors
    ///
    /// [`Refused`] with the value and the limit that it breaks. Nothing is changed.
    pub fn start_single(
        &mut self,
        key: impl Into<TimerKey>,
        delay: Duration,
        message: P,
    ) -> Result<(), Refused> {
        let schedule = self.timers.schedule_once(delay, message);
        self.start(&key.into(), schedule)
    }

    /// Sends `message` after `initial`, and then again and again, each `delay` after the one before
    /// was acknowledged.
    ///
    /// # Errors
    ///
    /// As for [`start_single`](Self::start_single); [`Refused::PeriodZero`], and
    /// [`Refused::TimesZero`] for [no](Self::times) reminder.
    pub fn start_with_fixed_delay(
        &mut self,
        key: impl Into<TimerKey>,
        initial: Duration,
        delay: Duration,
        message: P,
    ) -> Result<(), Refused> {
        let schedule = self.timers.schedule_with_fixed_delay(initial, delay, message);
        self.start(&key.into(), schedule.ending(self.end))
    }

    /// Sends `message` after `initial`, and then every `interval`, without drift. What happens to
    /// those that were missed, because nothing could receive them, is said by
    /// [`missed_ticks`](Self::missed_ticks) before.
    ///
    /// # Errors
    ///
    /// As for [`start_with_fixed_delay`](Self::start_with_fixed_delay).
    pub fn start_at_fixed_rate(
        &mut self,
        key: impl Into<TimerKey>,
        initial: Duration,
        interval: Duration,
        message: P,
    ) -> Result<(), Refused> {
        let schedule = self.timers.schedule_at_fixed_rate(initial, interval, message);
        self.start(&key.into(), schedule.missed_ticks(self.missed).ending(self.end))
    }

    /// Sends `message` at each occurrence of a cron expression in a time zone; for both see
    /// [`CronSchedule`](lars_jobs::wall_clock::CronSchedule). One message makes up for all
    /// occurrences that were missed, unless [`missed_runs`](Self::missed_runs) was called before.
    ///
    /// # Errors
    ///
    /// As for [`start_single`](Self::start_single); [`Refused::Cron`] and [`Refused::TimesZero`].
    pub fn start_by_cron(
        &mut self,
        key: impl Into<TimerKey>,
        expression: &str,
        zone: &str,
        message: P,
    ) -> Result<(), Refused> {
        let schedule = self.timers.schedule_by_cron(expression, zone, message);
        self.start(&key.into(), schedule.missed_runs(self.missed_runs).ending(self.end))
    }

    /// Cancels a reminder; nothing more of it is received.
    ///
    /// # Errors
    ///
    /// [`Refused::KeySize`] and [`Refused::KeyNul`].
    pub fn cancel(&mut self, key: impl Into<TimerKey>) -> Result<(), Refused> {
        let key = self.place.key(&key.into());
        check_key(&key)?;
        // If it is the one that is being received, its row stays until that is acknowledged.
        let but = self.handled().map(|handled| handled.id);
        self.ask(key.clone(), Write::Remove { key: key.into(), but }, |written| match written {
            Written::Removed { id, .. } => Before::Gone(Some(id)),
            _ => Before::Gone(None),
        });
        Ok(())
    }

    /// The reminder with this key, as it is in the store.
    pub fn get(&self, key: impl Into<TimerKey>) -> Submitted<Option<TimerInfo>> {
        self.timers.get(&self.place.key(&key.into()))
    }

    fn start<K>(&self, key: &TimerKey, schedule: Schedule<K>) -> Result<(), Refused> {
        let key = self.place.key(key);
        let schedule = schedule.for_actor(&self.place.address, &self.place.name);
        let declares = scope::of(&self.place).is_some_and(|scope| scope.declares);
        let conflict = if declares { OnConflict::Update } else { OnConflict::Replace };
        let timer = schedule.key(key.clone()).on_conflict(conflict).into_new()?;
        let write = Write::Schedule(Arc::new(vec![timer]));
        let own = self.handled().filter(|handled| handled.delivery.key.as_ref() == Some(&key));
        if let Some(handled) = &own {
            handled.signal.acknowledge(true);
        }
        let own = own.map(|handled| handled.id);
        self.ask(key, write, move |written| match written {
            Written::Scheduled(placed) => match placed.first().map(|placed| placed.how) {
                Some(How::Kept | How::Updated { .. }) if declares => Before::Stays,
                Some(How::Replaced { started: Some(id) }) => Before::Gone(Some(id)),
                // The one in hand had this key, whatever is known of what it had become.
                _ => Before::Gone(own),
            },
            _ => Before::Gone(None),
        });
        Ok(())
    }

    /// The message that is being received, if this is called for that.
    fn handled(&self) -> Option<Handled> {
        scope::of(&self.place)?.handled
    }

    fn ask(
        &self,
        key: String,
        write: Write,
        before: impl FnOnce(Written) -> Before + Send + 'static,
    ) {
        let arrivals = self.place.asks(&key);
        let place = Arc::clone(&self.place);
        // Once its bucket is another node's, only the actor there decides.
        let tenure = Tenure { bucket: place.bucket, epoch: self.epoch };
        let write = Write::Under { tenure, write: Box::new(write) };
        let then = move |answer: Result<Written, Error>| {
            place.answered(key, arrivals, answer.map(before));
        };
        self.place.shared.call(write, then);
    }
}

impl<P> fmt::Debug for Reminders<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reminders").field("address", &self.place.address).finish_non_exhaustive()
    }
}
