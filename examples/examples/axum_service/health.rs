//! Whether this instance can serve, from the last look at its timers: a probe asks no database.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lars_durable::Durable;
use lars_durable::inspection::Inspection;
use lars_scheduler::Handle;

use crate::routes::locked;

/// How often it looks. An inspection takes milliseconds, and delays neither timers nor calls.
const LOOK: Duration = Duration::from_secs(5);
/// A store that has not answered for this long is down.
const TOO_OLD: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct Health {
    leaving: AtomicBool,
    seen: Mutex<Option<(Instant, Inspection)>>,
}

impl Health {
    /// From now on it is not ready.
    pub fn leave(&self) {
        // Relaxed: nothing else is published by it.
        self.leaving.store(true, Ordering::Relaxed);
    }

    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed) // as above
    }

    /// Looks at the timers now and then, as long as it is polled.
    pub async fn keep_looking(&self, timers: &Handle, durable: &Durable) {
        loop {
            if let Ok(seen) = durable.inspect().await {
                *locked(&self.seen) = Some((Instant::now(), seen));
            }
            if timers.sleep(LOOK).await.is_err() {
                return;
            }
        }
    }

    /// # Errors
    ///
    /// Why no requests should come here.
    pub fn ready(&self) -> Result<String, &'static str> {
        if self.is_leaving() {
            return Err("leaving");
        }
        match &*locked(&self.seen) {
            Some((when, seen)) if when.elapsed() < TOO_OLD => {
                let overdue: u64 = seen.handlers.iter().map(|it| it.overdue.value).sum();
                Ok(format!("{} nodes, {overdue} timers overdue", seen.nodes.len()))
            }
            Some(_) => Err("the store of the timers does not answer"),
            None => Err("starting"),
        }
    }
}
