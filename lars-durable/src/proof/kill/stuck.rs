//! A handler whose runs do not end before their process is killed.

use std::time::Duration;

use super::super::history::{End, Event, Kind, Tag};
use super::{Log, note_answer};
use crate::time::Timestamp;
use crate::{Builder, Fired, Handler, Payload, Timers};

#[derive(serde::Serialize, serde::Deserialize)]
struct Stuck(Tag);

impl Payload for Stuck {
    const NAME: &'static str = "stuck";
}

/// In the `last` life its runs end.
pub(super) fn handled(builder: Builder, log: &Log, last: bool) -> Builder {
    let log = log.clone();
    let run = move |due: &Fired<Stuck>| {
        let (tag, fence) = (due.payload().0, due.fence().cast_signed());
        let planned = Timestamp::from_system(due.due()).0;
        log.note(Event::Began { tag, fence, planned, clock: log.clock(), frozen: false });
        if !last {
            // Longer than any life.
            std::thread::sleep(Duration::from_secs(3_600));
        }
        log.note(Event::Ended { tag, fence, end: End::Done, clock: log.clock() });
    };
    builder.handler(Handler::new(run).concurrency(8))
}

/// Timers of this handler, again and again, on a thread of its own.
pub(super) fn scheduled_for_ever(timers: &Timers, log: &Log, seed: u64) {
    // Not the numbers of the other calls: a tag is that of one timer.
    let (timers, log, mut rng) = (timers.clone(), log.clone(), fastrand::Rng::with_seed(!seed));
    std::thread::spawn(move || {
        loop {
            let (tag, after) = (rng.u64(1..u64::MAX >> 12), rng.u32(0..20_000));
            let (kind, not_before) = (Kind::Once, log.bound() + i64::from(after));
            log.note(Event::Asked { tag, key: None, not_before, kind, replaces: false });
            let after = Duration::from_micros(after.into());
            note_answer(&log, tag, timers.schedule_once(after, Stuck(tag)).submit().wait());
            std::thread::sleep(Duration::from_micros(rng.u64(0..8_000)));
        }
    });
}
