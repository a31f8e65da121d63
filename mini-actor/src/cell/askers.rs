//! Actors that block their thread to wait for another actor's answer.

use crate::sync::{Arc, Mutex, Weak};

/// A question whose answer an actor waits for.
pub(crate) trait Waits: Send + Sync {
    /// Ends the wait without an answer: the actor that was asked restarts.
    fn give_up(&self);
    /// Ends the question: the system has been closed.
    fn close(&self);
}

/// The questions to one actor whose answers other actors wait for.
///
/// While the actor is being restarted and waits for its children to stop, it answers nothing. An
/// actor that waits for its answer may be one of the children, or hold one up. So no actor waits
/// then.
#[derive(Default)]
pub(crate) struct Askers {
    state: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    barred: bool,
    waiting: Vec<Weak<dyn Waits>>,
}

impl Askers {
    /// An actor is about to wait. Returns whether it may.
    pub(crate) fn enter(&self, question: Weak<dyn Waits>) -> bool {
        let mut state = self.state.lock();
        if !state.barred {
            state.waiting.push(question);
        }
        !state.barred
    }

    /// The actor has stopped waiting.
    pub(crate) fn leave(&self, question: &Weak<dyn Waits>) {
        let waiting = &mut self.state.lock().waiting;
        if let Some(place) = waiting.iter().position(|other| other.ptr_eq(question)) {
            waiting.swap_remove(place);
        }
    }

    /// Allows actors to wait, or forbids it, which ends the waits that there are.
    pub(crate) fn let_wait(&self, wait: bool) {
        let waiting = {
            let mut state = self.state.lock();
            state.barred = !wait;
            if wait { Vec::new() } else { std::mem::take(&mut state.waiting) }
        };
        // Outside the lock: it calls wakers, which are foreign code.
        waiting.iter().filter_map(Weak::upgrade).for_each(|question| question.give_up());
    }
}

/// The question without its type, for [`Askers`].
pub(crate) fn weak<W: Waits + 'static>(question: &Arc<W>) -> Weak<dyn Waits> {
    let weak: Weak<W> = Arc::downgrade(question);
    weak
}
