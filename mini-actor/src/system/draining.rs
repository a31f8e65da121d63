//! Before a system is closed, its actors work off what they have been given.

use std::time::Duration;

use crate::cell::registry::Registry;
use crate::cell::signal::Resident;
use crate::sync::{Arc, CHECKED, nap, real_now};
use lars_base::time::Instant;

/// How often the actors that have something to do are asked to get to the end of it. Messages that
/// lead to messages take a round each; actors that always have another message must not keep a
/// system open.
const ROUNDS: u32 = 100;
/// How long a round waits for piped futures, and for turns without a message. One that never ends
/// must not keep a system open. (In a checker no time passes during a wait.)
const PIPES: Duration = if CHECKED { Duration::ZERO } else { Duration::from_secs(1) };

/// Waits until no actor has anything to do: for half of the time until `deadline` at most, because
/// the rest of the close takes time as well, and for [`ROUNDS`].
///
/// It looks at the actors now and then. So neither a message nor a turn costs anything for it.
pub(super) fn drain(registry: &Registry, deadline: Option<Instant>) {
    let begin = real_now();
    let until = deadline.map(|deadline| begin + deadline.saturating_duration_since(begin) / 2);
    let mut was_quiet = false;
    for _ in 0..ROUNDS {
        let received = registry.metrics().processed;
        let at_work = registry.tree.at_work();
        // Once is not enough: one actor may have told another that had been looked at before.
        let is_quiet = at_work.is_empty() && registry.metrics().processed == received;
        if is_quiet && was_quiet {
            return;
        }
        was_quiet = is_quiet;
        if !wait_for(registry, &at_work, until) {
            return;
        }
    }
}

/// Waits until each actor has received that many messages, and what is piped to it has ended. False
/// if it gave that up.
///
/// A turn without a message, such as an actor's first, may be about to pipe something. So it is
/// waited for as well, but no longer than a piped future.
fn wait_for(
    registry: &Registry,
    at_work: &[(Arc<dyn Resident>, u64)],
    until: Option<Instant>,
) -> bool {
    let pipes_until = real_now() + PIPES;
    let (mut turns, mut gave_up) = (0, false);
    for (actor, accepted) in at_work {
        loop {
            let has_ended = actor.watchers().reason().is_some();
            // Before the pipes: what a turn has piped is seen when it is over.
            let is_done = has_ended || actor.has_passed(*accepted);
            let has_pipes = actor.has_pipes();
            if is_done && !has_pipes {
                break;
            }
            let now = real_now();
            if now >= pipes_until && (has_ended || actor.has_received(*accepted)) {
                gave_up |= has_pipes;
                break;
            }
            if until.is_some_and(|until| now >= until) {
                return false;
            }
            match registry.dispatcher.as_manual() {
                None => nap(&mut turns),
                // Nothing goes on by itself there.
                Some(manual) if manual.run(1) == 0 => break,
                Some(_) => {}
            }
        }
    }
    !gave_up
}
