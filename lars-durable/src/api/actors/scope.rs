//! What an actor's hook is called for. This cannot be passed to the hook, so it is kept for the
//! thread that runs the actor.

use std::cell::RefCell;

use super::delivery::Delivery;
use super::place::Place;
use crate::model::TimerId;
use crate::runtime::Signal;
use crate::sync::Arc;

#[derive(Clone)]
pub(super) struct Scope {
    pub(super) place: Arc<Place>,
    /// The actor was made for a run of this epoch, and speaks for its bucket in no other.
    pub(super) epoch: u32,
    pub(super) handled: Option<Handled>,
    /// The hook is called for each new actor: what it starts may be there, and be what has made the
    /// actor.
    pub(super) declares: bool,
}

/// A message that is being received.
#[derive(Clone)]
pub(super) struct Handled {
    pub(super) id: TimerId,
    pub(super) delivery: Delivery,
    /// Where it is said that its row has gone, because its key went to another reminder.
    pub(super) signal: Arc<Signal>,
}

thread_local! {
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// Puts back what was there before, even if a hook panics.
struct Entered(Option<Scope>);

impl Drop for Entered {
    fn drop(&mut self) {
        SCOPE.set(self.0.take());
    }
}

pub(super) fn within<R>(scope: Scope, hook: impl FnOnce() -> R) -> R {
    let _entered = Entered(SCOPE.replace(Some(scope)));
    hook()
}

/// The scope of the hook that this thread is calling, if it is one of the actor in this place.
pub(super) fn of(place: &Arc<Place>) -> Option<Scope> {
    SCOPE.with_borrow(Clone::clone).filter(|scope| Arc::ptr_eq(&scope.place, place))
}

/// The scope of the hook that this thread is calling.
pub(super) fn current() -> Scope {
    let scope = SCOPE.with_borrow(Clone::clone);
    scope.expect("an actor's context is passed to its hooks, and these are called within a scope")
}
