//! What goes wrong in actors, panics and slow messages: counted, logged, and shown to hooks.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lars_base::panics::quietly;

use crate::base::lineage::Lineage;
use crate::base::panics::guard;
use crate::base::slow_receive::{SlowHook, SlowReceive};
use crate::base::supervision::{Directive, Panic};
use crate::cell::late_messages::LateMessages;
use crate::dispatcher::watch::Note;
use crate::sync::plain::AtomicU64;
use crate::sync::{Arc, Mutex, Ordering};

pub(crate) type PanicHook = Arc<dyn Fn(&Panic, Directive) + Send + Sync>;

/// The name of a type of messages.
type MessageType = fn() -> &'static str;

pub(crate) struct Incidents {
    /// Until the system is over.
    on_panic: Mutex<Option<PanicHook>>,
    /// Until the system is over.
    on_slow: Mutex<Option<SlowHook>>,
    panics: AtomicU64,
    slow_receives: AtomicU64,
    /// What is late, if that is explained.
    late: Option<LateMessages>,
}

impl Incidents {
    pub(crate) fn new(
        on_panic: Option<PanicHook>,
        on_slow: Option<SlowHook>,
        late: Option<LateMessages>,
    ) -> Self {
        Self {
            on_panic: Mutex::new(on_panic),
            on_slow: Mutex::new(on_slow),
            panics: AtomicU64::new(0),
            slow_receives: AtomicU64::new(0),
            late,
        }
    }

    /// What is late, if that is explained.
    #[inline]
    pub(crate) fn late(&self) -> Option<&LateMessages> {
        self.late.as_ref()
    }

    pub(super) fn panics(&self) -> u64 {
        // Relaxed: a statistic.
        self.panics.load(Ordering::Relaxed)
    }

    pub(super) fn slow_receives(&self) -> u64 {
        // Relaxed: a statistic.
        self.slow_receives.load(Ordering::Relaxed)
    }

    /// Drops the hooks.
    pub(super) fn release(&self) {
        let on_panic = self.on_panic.lock().take();
        // Outside the lock: its destructor is foreign code.
        guard("the destructor of the panic hook", || drop(on_panic));
        let on_slow = self.on_slow.lock().take();
        guard("the destructor of the hook for slow messages", || drop(on_slow));
        if let Some(late) = &self.late {
            late.release();
        }
    }

    /// Counts, logs and reports a panic.
    pub(crate) fn panicked(&self, panic: &Panic, directive: Directive) {
        // Relaxed: a statistic.
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.tell_panic(panic, directive);
    }

    /// Logs and reports a panic.
    pub(crate) fn tell_panic(&self, panic: &Panic, directive: Directive) {
        let Panic { path, message } = panic;
        quietly(|| {
            tracing::error!(
                target: "mini_actor",
                actor = &**path,
                message,
                ?directive,
                "an actor panicked"
            );
        });
        // Called outside the lock: it is foreign code.
        let hook = self.on_panic.lock().clone();
        if let Some(hook) = hook {
            guard("the panic hook", || hook(panic, directive));
        }
    }

    /// Counts, logs and reports what a worker's watch has found: see
    /// [`Reports`](crate::dispatcher::watch::Reports). `paths_of` finds the paths of actors.
    pub(super) fn slow(
        &self,
        run_time: Duration,
        turns: &[Note],
        last: Option<&Lineage>,
        paths_of: impl FnOnce(&HashSet<u64>) -> HashMap<u64, Arc<str>>,
    ) {
        // Relaxed: a statistic.
        self.slow_receives.fetch_add(1, Ordering::Relaxed);
        let calls: u64 = turns.iter().map(|turn| u64::from(turn.calls)).sum();
        // The actors in question: those that were called. If none was, all of them.
        let called = |turn: &&Note| calls == 0 || turn.calls > 0;
        let wanted = turns.iter().filter(called).map(|turn| turn.actor).collect();
        let at_hand = turns.last().map(|turn| turn.actor).zip(last.map(Lineage::to_path));
        let named = in_order(turns, paths(wanted, at_hand, paths_of));
        let unknown = || turns.first().map_or("", |turn| (turn.message_type)());
        let (actor, message_type) = match named.first() {
            Some((path, message_type)) => (&**path, message_type()),
            None => ("", unknown()),
        };
        let others: Vec<_> = named.iter().skip(1).map(|(path, _)| Arc::clone(path)).collect();
        let calls = calls.max(1);
        quietly(|| {
            let or = (!others.is_empty()).then(|| tracing::field::debug(&others));
            tracing::warn!(
                target: "mini_actor",
                actor, message_type, ?run_time, calls, or_one_of = or, "a slow message"
            );
        });
        // Called outside the lock: it is foreign code.
        let hook = self.on_slow.lock().clone();
        if let Some(hook) = hook {
            let slow = SlowReceive { actor, message_type, run_time, calls, others: &others };
            guard("the hook for slow messages", || hook(&slow));
        }
    }
}

/// The paths of these actors, one of which may be at hand.
fn paths(
    mut wanted: HashSet<u64>,
    at_hand: Option<(u64, Arc<str>)>,
    paths_of: impl FnOnce(&HashSet<u64>) -> HashMap<u64, Arc<str>>,
) -> HashMap<u64, Arc<str>> {
    let at_hand = at_hand.filter(|(actor, _)| wanted.remove(actor));
    let mut paths = if wanted.is_empty() { HashMap::new() } else { paths_of(&wanted) };
    paths.extend(at_hand);
    paths
}

/// These paths in the order in which their actors ran, each once, and what the actors received.
fn in_order(turns: &[Note], mut paths: HashMap<u64, Arc<str>>) -> Vec<(Arc<str>, MessageType)> {
    let named = |turn: &Note| Some((paths.remove(&turn.actor)?, turn.message_type));
    turns.iter().filter_map(named).collect()
}
