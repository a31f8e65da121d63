//! What an actor does with a message: the same for all systems, so that an adapter only carries
//! messages.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use benches::Xorshift;

use crate::callback::Recorder;

/// A message: 16 bytes, whatever an address takes.
pub(crate) enum Message<A> {
    /// Tells the recorder that everything before it was handled.
    Ready(&'static Recorder),
    /// Is counted and added up.
    Add(u64),
    /// Is due at this time of the recorder's, in nanoseconds.
    Due(u64),
    /// The other player.
    Meet(Box<A>),
    /// Is sent back with one less, until none is left.
    Hit(u64),
    /// To a session: its timer has fired.
    Silence,
}

// `derive` would ask for addresses that can be shown.
impl<A> fmt::Debug for Message<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Message")
    }
}

/// Where an actor can be reached.
pub(crate) trait Address: Clone + Send + Sync + Sized + 'static {
    /// Puts a message into the mailbox, without waiting for the actor.
    fn tell(&self, message: Message<Self>);
}

/// An actor's state.
pub(crate) struct Behaviour<A> {
    /// Numbers that are still to come.
    left: u64,
    sum: u64,
    total: &'static AtomicU64,
    recorder: &'static Recorder,
    other: Option<A>,
    _end: End,
}

/// Tells that an actor has ended, when it is dropped with that.
struct End(Option<&'static Recorder>);

impl Drop for End {
    fn drop(&mut self) {
        if let Some(recorder) = self.0 {
            recorder.callback().call();
        }
    }
}

impl<A: Address> Behaviour<A> {
    /// Calls the recorder when it has been sent as many numbers; their sum is then in the total.
    pub(crate) fn adding(
        numbers: u64,
        total: &'static AtomicU64,
        recorder: &'static Recorder,
    ) -> Self {
        Self { left: numbers, sum: 0, total, recorder, other: None, _end: End(None) }
    }

    /// Tells the recorder how late messages are, or that a game is over.
    pub(crate) fn telling(recorder: &'static Recorder) -> Self {
        static NOTHING: AtomicU64 = AtomicU64::new(0);
        Self::adding(0, &NOTHING, recorder)
    }

    /// Tells the recorder when it has ended.
    pub(crate) fn ending(recorder: &'static Recorder) -> Self {
        Self { _end: End(Some(recorder)), ..Self::telling(recorder) }
    }

    /// Called with each message.
    #[inline]
    pub(crate) fn receive(&mut self, message: Message<A>) {
        match message {
            Message::Ready(recorder) => recorder.callback().call(),
            Message::Add(number) => {
                self.sum += number;
                self.left -= 1;
                if self.left == 0 {
                    self.total.fetch_add(self.sum, Ordering::Relaxed);
                    self.recorder.callback().call();
                }
            }
            Message::Due(nanos) => self.recorder.due_at_nanos(nanos).call(),
            Message::Meet(other) => self.other = Some(*other),
            Message::Hit(0) => self.recorder.callback().call(),
            Message::Hit(left) => {
                let other = self.other.as_ref().expect("players meet before they play");
                other.tell(Message::Hit(left - 1));
            }
            Message::Silence => unreachable!("only a session has a timer"),
        }
    }
}

/// The state of an actor that restarts a timer with each message.
pub(crate) struct Session<A> {
    adding: Behaviour<A>,
    /// How long the timer runs.
    silence: Duration,
    /// When it is to fire, in the recorder's time, at the earliest; known when all messages have
    /// come, so that the clock is read once for all of them.
    due: u64,
    ended: &'static Recorder,
}

impl<A: Address> Session<A> {
    /// Receives what `adding` does, and then tells the recorder how late its timer is.
    pub(crate) fn new(adding: Behaviour<A>, silence: Duration, ended: &'static Recorder) -> Self {
        // One that fires before is early, whenever that is.
        Self { adding, silence, due: i64::MAX as u64, ended }
    }

    /// How long its timer runs.
    pub(crate) fn silence(&self) -> Duration {
        self.silence
    }

    /// Called with each message, and with [`Message::Silence`] when the timer fires. Says how long
    /// the timer is to run from now, which is restarted then.
    #[inline]
    pub(crate) fn receive(&mut self, message: Message<A>) -> Option<Duration> {
        if let Message::Silence = message {
            self.ended.due_at_nanos(self.due).call();
            return None;
        }
        self.adding.receive(message);
        if self.adding.left == 0 {
            self.due = self.ended.nanos(Instant::now() + self.silence);
        }
        Some(self.silence)
    }
}

/// Messages to be sent later: their delays, each with a message that knows when it is due. The
/// clock is read for each one as it is taken, so that none has waited before it is scheduled.
#[derive(Debug)]
pub(crate) struct Sends {
    left: u64,
    random: Xorshift,
    longest: Duration,
    recorder: &'static Recorder,
}

impl Sends {
    /// So many, with delays below `longest`.
    pub(crate) fn new(number: u64, longest: Duration, recorder: &'static Recorder) -> Self {
        Self { left: number, random: Xorshift::new(0), longest, recorder }
    }

    /// The next delay and message.
    #[inline]
    pub(crate) fn next<A>(&mut self) -> Option<(Duration, Message<A>)> {
        self.left = self.left.checked_sub(1)?;
        let delay = Duration::from_nanos(self.random.number() % self.longest.as_nanos() as u64);
        let due = self.recorder.nanos(Instant::now() + delay);
        Some((delay, Message::Due(due)))
    }

    /// Schedules all of them with one call after the other; returns how long that took.
    pub(crate) fn each<A>(mut self, mut schedule: impl FnMut(Duration, Message<A>)) -> Duration {
        let start = Instant::now();
        while let Some((delay, message)) = self.next() {
            schedule(delay, message);
        }
        start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Nowhere;

    impl Address for Nowhere {
        fn tell(&self, _: Message<Self>) {}
    }

    /// How many timers of a session of two messages are early.
    fn early(messages: u64) -> u64 {
        static TOTAL: AtomicU64 = AtomicU64::new(0);
        let (done, ended) = (Recorder::burst(1), Recorder::lateness(1));
        let adding = Behaviour::<Nowhere>::adding(2, &TOTAL, done);
        let silence = Duration::ZERO;
        let mut session = Session::new(adding, silence, ended);
        for number in 1..=messages {
            assert_eq!(session.receive(Message::Add(number)), Some(silence));
        }
        assert_eq!(session.receive(Message::Silence), None);
        assert_eq!(ended.calls(), 1);
        ended.early()
    }

    #[test]
    fn a_timer_of_a_session_that_fires_between_two_messages_is_early() {
        assert_eq!([1, 2].map(early), [1, 0]);
    }
}
