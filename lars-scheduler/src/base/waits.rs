//! Which threads backpressure has made wait, by their names.

use std::collections::HashMap;

use crate::sync::{Mutex, with_thread_name};

/// How many names are told apart. Those that come after these count as threads without a name, so
/// that a program that gives each thread a name of its own does not fill the memory.
const MOST_NAMES: usize = if cfg!(test) { 4 } else { 256 };

/// What the threads of one name have waited. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waited {
    /// How many of them wait now.
    pub(crate) waiting: u64,
    /// How often a call began to wait.
    pub(crate) waits: u64,
    /// For how long those calls waited that have ended.
    pub(crate) waited: u64,
}

/// The lock is taken by calls that sleep, before and after that, and by those who ask.
#[derive(Debug)]
pub(crate) struct Waits {
    /// By the name of the thread; empty for those without one. No entry is ever removed.
    by_name: Mutex<HashMap<String, Waited>>,
}

impl Waits {
    pub(crate) fn new() -> Self {
        Self { by_name: Mutex::new(HashMap::new()) }
    }

    /// A call of the calling thread begins to wait.
    pub(crate) fn begin(&self) {
        self.update(|it| {
            it.waiting += 1;
            it.waits += 1;
        });
    }

    /// It has waited for so long.
    pub(crate) fn end(&self, nanos: u64) {
        self.update(|it| {
            it.waiting = it.waiting.saturating_sub(1);
            it.waited = it.waited.saturating_add(nanos);
        });
    }

    fn update(&self, change: impl FnOnce(&mut Waited)) {
        with_thread_name(|name| {
            let mut by_name = self.by_name.lock();
            // Names stay, and there are no new ones once there are enough. So a call finds at its
            // end what it has found at its beginning.
            let is_told_apart = by_name.contains_key(name) || by_name.len() < MOST_NAMES;
            let name = if is_told_apart { name } else { "" };
            change(by_name.entry(name.to_owned()).or_default());
        });
    }

    /// Of each name.
    pub(crate) fn all(&self) -> Vec<(String, Waited)> {
        self.by_name.lock().iter().map(|(name, it)| (name.clone(), *it)).collect()
    }

    /// Of all of them together.
    pub(crate) fn total(&self) -> Waited {
        self.by_name.lock().values().fold(Waited::default(), |all, it| Waited {
            waiting: all.waiting + it.waiting,
            waits: all.waits + it.waits,
            waited: all.waited.saturating_add(it.waited),
        })
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn threads_whose_names_come_after_many_others_are_counted_together_and_none_is_lost() {
        let waits = &Waits::new();
        let wait = |name: &str| {
            thread::scope(|scope| {
                let body = || {
                    waits.begin();
                    waits.end(5);
                };
                thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, body).unwrap();
            });
        };
        for _ in 0..2 {
            (0..MOST_NAMES + 10).for_each(|number| wait(&format!("thread {number}")));
        }
        let all: HashMap<_, _> = waits.all().into_iter().collect();
        assert_eq!(all.len(), MOST_NAMES + 1);
        assert_eq!((all["thread 0"].waits, all["thread 0"].waited), (2, 10));
        assert_eq!((all[""].waits, all[""].waited), (20, 100));
        let Waited { waiting, waits, waited } = waits.total();
        assert_eq!((waiting, waits, waited), (0, 2 * (MOST_NAMES as u64 + 10), 5 * waits));
    }
}
