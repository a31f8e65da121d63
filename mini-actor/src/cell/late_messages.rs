//! What is known of the messages that were received late, and who is told.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use lars_scheduler::extend::{Explained, LatenessRecorder};
use lars_scheduler::late::{Late, LateShare, Lateness, Who};

use crate::base::late::Whose;
use crate::base::panics::guard;
use crate::cell::tree::Tree;
use crate::sync::{Arc, Mutex};

pub(crate) type LateHook = Arc<dyn Fn(&Late<'_>) + Send + Sync>;

/// Of how many actors the names are kept.
const NAMES: usize = 1024;

/// What was late in a system.
pub(crate) struct LateMessages {
    recorder: LatenessRecorder,
    /// Until the system is over.
    hook: Arc<Mutex<Option<LateHook>>>,
    /// Of actors that kept a thread from others; `None` for one that had stopped when it was asked
    /// for. To find a path takes a look at every actor.
    names: Mutex<HashMap<u64, Option<Arc<str>>>>,
}

impl LateMessages {
    pub(crate) fn new(bound: Duration, hook: Option<LateHook>) -> Self {
        let hook = Arc::new(Mutex::new(hook));
        let told = Arc::clone(&hook);
        let recorder = LatenessRecorder::new(bound, log).on_late(move |late| {
            // Called outside the lock: it is foreign code.
            let hook = told.lock().clone();
            if let Some(hook) = hook {
                guard("the hook for late messages", || hook(late));
            }
        });
        Self { recorder, hook, names: Mutex::default() }
    }

    pub(crate) fn bound(&self) -> Duration {
        self.recorder.bound()
    }

    pub(crate) fn table(&self) -> Lateness {
        self.recorder.table()
    }

    /// Records what was late by so much, and why.
    pub(super) fn add(
        &self,
        who: Who,
        lateness: Duration,
        shares: impl IntoIterator<Item = LateShare>,
    ) -> Explained {
        self.recorder.record(who, lateness, shares)
    }

    /// The same was late by so much.
    pub(super) fn add_again(&self, explained: &Explained, lateness: Duration) {
        self.recorder.record_again(explained, lateness);
    }

    /// Drops the hook.
    pub(super) fn release(&self) {
        let hook = self.hook.lock().take();
        // Outside the lock: its destructor is foreign code.
        guard("the destructor of the hook for late messages", || drop(hook));
    }

    /// Who it was that a thread ran.
    pub(super) fn name(&self, whose: Whose, tree: &Tree) -> Who {
        match whose {
            Whose::Closure(task) => Who::Task(task),
            Whose::Turn(actor, message_type) => match self.path(actor, tree) {
                Some(path) => received_by(&path, message_type()),
                None => Who::Named(message_type().into()),
            },
            Whose::Piped(actor) => match self.path(actor, tree) {
                Some(path) => Who::Named(format!("a future of {path}").into()),
                None => Who::Named("a future of an actor that has stopped".into()),
            },
        }
    }

    fn path(&self, actor: u64, tree: &Tree) -> Option<Arc<str>> {
        if let Some(path) = self.names.lock().get(&actor) {
            return path.clone();
        }
        // Outside the lock: it takes time.
        let path = tree.paths_of(&[actor].into()).remove(&actor);
        let mut names = self.names.lock();
        if names.len() >= NAMES {
            names.clear();
        }
        match names.entry(actor) {
            Entry::Occupied(entry) => entry.get().clone(),
            Entry::Vacant(entry) => entry.insert(path).clone(),
        }
    }
}

fn log(late: &Late<'_>) {
    let Late { who, lateness, .. } = late;
    let because = late.because();
    tracing::warn!(target: "mini_actor", %who, ?lateness, %because, "received late");
}

/// An actor in a message of this type.
pub(super) fn received_by(path: &str, message_type: &str) -> Who {
    Who::Named(format!("{path} in {message_type}").into())
}
