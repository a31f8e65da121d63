//! What bounds looks that are repeated: all is counted once in a while, and in between only what is
//! due first.

use std::collections::BTreeMap;

use super::{Counted, Look, LookedHandler};
use crate::sync::Arc;
use crate::time::Micros;

/// How many timers, and how many parked ones, are counted at most. So it takes some tens of
/// milliseconds, however many there are.
const ALL: usize = 50_000;

/// How many each look counts: on PostgreSQL, 32 in each bucket.
const GLANCE: usize = 2_048;

/// The time from one count of all to the next, by the store's clock.
const BETWEEN: Micros = Micros::SECOND.times(10);

/// Of one looker. It keeps what the last count of all has shown.
#[derive(Debug, Default)]
pub(crate) struct Glance {
    all: Option<Box<Look>>,
}

impl Glance {
    /// `look` counts up to a limit. What is few is counted each time; what is more than a glance
    /// shows was counted at most [`BETWEEN`] ago.
    pub(crate) fn look<E>(
        &mut self,
        mut look: impl FnMut(usize) -> Result<Look, E>,
    ) -> Result<Look, E> {
        let mut seen = look(GLANCE)?;
        let (Some(timers), Some(parked)) = (&seen.timers, &seen.parked) else {
            // Where a glance took too long, the rest would take longer.
            return Ok(seen);
        };
        let known = self.all.take();
        if !timers.more && !parked.more {
            return Ok(seen);
        }
        let all = match known.filter(|all| covers(all, &seen)) {
            Some(all) => all,
            None => {
                let all = Box::new(look(ALL)?);
                // The rest of it is newer, too.
                let (timers, parked) = (seen.timers.take(), seen.parked.take());
                seen = Look { timers, parked, ..Look::clone(&all) };
                all
            }
        };
        seen.counted = all.clock;
        complete(&mut seen.timers, all.timers.as_ref(), with_head);
        complete(&mut seen.parked, all.parked.as_ref(), |all, glance| *glance.max(all));
        self.all = Some(all);
        Ok(seen)
    }
}

/// Whether a count of all is young enough to be shown beside a glance that has not seen all.
fn covers(all: &Look, glance: &Look) -> bool {
    fn sum<T>(counted: Option<&Counted<T>>, of: impl Fn(&T) -> u64) -> u64 {
        counted.into_iter().flat_map(|it| &it.by_handler).map(|(_, count)| of(count)).sum()
    }
    let timers = |look: &Look| sum(look.timers.as_ref(), |it| it.pending + it.running);
    let parked = |look: &Look| sum(look.parked.as_ref(), |count| *count);
    // One that took too long is not repeated earlier.
    let holds_timers = all.timers.is_none() || timers(all) >= timers(glance);
    let holds_parked = all.parked.is_none() || parked(all) >= parked(glance);
    let is_young = all.clock <= glance.clock && glance.clock - all.clock < BETWEEN;
    is_young && holds_timers && holds_parked
}

/// Adds what a count of all has shown to a glance that has not seen all.
fn complete<T: Copy>(
    glance: &mut Option<Counted<T>>,
    all: Option<&Counted<T>>,
    merge: impl Fn(&T, &T) -> T,
) {
    let (Some(glance), Some(all)) = (glance.as_mut().filter(|it| it.more), all) else { return };
    let mut merged: BTreeMap<Arc<str>, T> = all.by_handler.iter().cloned().collect();
    for (name, counted) in &glance.by_handler {
        let both = merged.get(name).map_or(*counted, |all| merge(all, counted));
        merged.insert(Arc::clone(name), both);
    }
    *glance = Counted { by_handler: merged.into_iter().collect(), more: all.more };
}

/// There are at least as many as the glance shows now. What is due first, it knows best.
fn with_head(all: &LookedHandler, glance: &LookedHandler) -> LookedHandler {
    LookedHandler {
        pending: all.pending.max(glance.pending),
        overdue: all.overdue.max(glance.overdue),
        retrying: all.retrying.max(glance.retrying),
        running: all.running.max(glance.running),
        next: glance.next.or(all.next),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::time::Timestamp;

    /// A store with so many timers that are due and parked, and what it was asked for.
    struct Store {
        clock: i64,
        timers: u64,
        parked: u64,
        counted: Vec<usize>,
        glance: Glance,
    }

    impl Store {
        fn of(timers: u64, parked: u64) -> Self {
            Self { clock: 0, timers, parked, counted: Vec::new(), glance: Glance::default() }
        }

        /// After so many seconds.
        fn look(&mut self, seconds: i64) -> Look {
            self.clock += seconds * Micros::SECOND.0;
            let (clock, timers, parked) = (Timestamp(self.clock), self.timers, self.parked);
            let counted = &mut self.counted;
            let looked = self.glance.look(|limit| {
                counted.push(limit);
                let most = limit as u64;
                let (pending, next) = (timers.min(most), Some(Timestamp(7)));
                let handler =
                    LookedHandler { pending, overdue: pending, retrying: 0, running: 0, next };
                Ok::<_, Infallible>(Look {
                    clock,
                    counted: clock,
                    nodes: Vec::new(),
                    buckets: Vec::new(),
                    paused: Vec::new(),
                    timers: Some(Counted {
                        by_handler: vec![("timers".into(), handler)],
                        more: timers > most,
                    }),
                    parked: Some(Counted {
                        by_handler: vec![("parked".into(), parked.min(most))],
                        more: parked > most,
                    }),
                    database: None,
                })
            });
            looked.unwrap()
        }
    }

    fn shown(look: &Look) -> (u64, bool, u64, bool) {
        let (timers, parked) = (look.timers.as_ref().unwrap(), look.parked.as_ref().unwrap());
        (timers.by_handler[0].1.overdue, timers.more, parked.by_handler[0].1, parked.more)
    }

    #[test]
    fn what_is_few_is_counted_by_each_look_and_once() {
        let mut store = Store::of(2_048, 7);
        for _ in 0..100 {
            let seen = store.look(1);
            assert_eq!((shown(&seen), seen.counted), ((2_048, false, 7, false), seen.clock));
        }
        assert_eq!(store.counted, [GLANCE; 100]);
    }

    #[test]
    fn of_very_many_all_that_may_be_are_counted_once_in_ten_seconds() {
        let mut store = Store::of(10_000_000, 3_000);
        for second in 0..100 {
            let seen = store.look(i64::from(second > 0));
            assert_eq!(shown(&seen), (50_000, true, 3_000, false), "{second}");
            assert_eq!((seen.clock - seen.counted).0, second % 10 * Micros::SECOND.0);
        }
        let (all, glances): (Vec<usize>, _) = store.counted.iter().partition(|it| **it == ALL);
        assert_eq!((all.len(), glances), (10, vec![GLANCE; 100]));
    }

    #[test]
    fn what_becomes_few_or_more_than_was_counted_is_seen_at_once() {
        let mut store = Store::of(2_049, 0);
        assert_eq!(shown(&store.look(0)), (2_049, false, 0, false));
        (store.timers, store.parked) = (0, 5);
        assert_eq!(shown(&store.look(1)), (0, false, 5, false));
        store.timers = 3_000;
        assert_eq!(shown(&store.look(1)), (3_000, false, 5, false));
        // Others are parked meanwhile: the glance sees more of them than were counted.
        store.parked = 10_000;
        assert_eq!(shown(&store.look(1)), (3_000, false, 10_000, false));
    }

    #[test]
    fn a_clock_that_was_set_back_makes_it_count_again() {
        let mut store = Store::of(5_000, 0);
        store.look(100);
        store.look(-50);
        assert_eq!(store.counted, [GLANCE, ALL, GLANCE, ALL]);
    }

    #[test]
    fn where_a_glance_takes_too_long_no_more_is_counted() {
        let mut asked = Vec::new();
        let mut store = Store::of(5_000, 0);
        let mut slow = store.look(0);
        (slow.timers, slow.parked) = (None, None);
        let seen = Glance::default().look(|limit| {
            asked.push(limit);
            Ok::<_, Infallible>(slow.clone())
        });
        assert_eq!((seen.unwrap().timers, asked), (None, vec![GLANCE]));
        // And where only the rest does, what the glance has shown is there.
        let seen = Glance::default().look(|limit| {
            Ok::<_, Infallible>(if limit == GLANCE { store.look(0) } else { slow.clone() })
        });
        assert!(seen.unwrap().timers.is_some());
    }
}
