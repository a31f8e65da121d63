//! How long tasks ran, by whose they are: a table that is kept if somebody asks for it.

use std::collections::HashMap;

use crossbeam_utils::CachePadded;

use crate::base::raw_task::Whose;
use crate::sync::{Mutex, thread_slot};

/// In so many parts, so that threads that run tasks rarely meet.
const PARTS: usize = 16;

/// How long the tasks of one kind ran.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) whose: Whose,
    pub(crate) runs: u64,
    /// In nanoseconds.
    pub(crate) total: u64,
    pub(crate) longest: u64,
}

/// By [`Whose::key`].
type Part = Mutex<HashMap<(usize, usize), Ran>>;

/// No entry is ever removed. There are no more than combinations of type, place and name.
#[derive(Default)]
pub(crate) struct RunTimes {
    parts: [CachePadded<Part>; PARTS],
}

impl RunTimes {
    /// A task ran for so long, in nanoseconds.
    pub(crate) fn add(&self, whose: Whose, took: u64) {
        let mut part = self.parts[thread_slot() % PARTS].lock();
        let new = Ran { whose, runs: 0, total: 0, longest: 0 };
        let ran = part.entry(whose.key()).or_insert(new);
        ran.runs += 1;
        ran.total = ran.total.saturating_add(took);
        ran.longest = ran.longest.max(took);
    }

    /// What has been recorded. One kind may come several times.
    pub(crate) fn all(&self) -> Vec<Ran> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(part.lock().values());
        }
        all
    }
}
