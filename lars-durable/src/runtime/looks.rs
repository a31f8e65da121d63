//! Inspections of the store, of which the engine knows nothing: they wait for none of its
//! transactions, and none of these waits for them.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::contain;
use crate::model::{Glance, Look};
use crate::store::{Looker, StoreError};
use crate::sync::Mutex;

/// Receives what an inspection of the store shows.
pub(super) type LookThen = Box<dyn FnOnce(Result<Look, StoreError>) + Send>;

/// See the module's documentation.
pub(super) struct Looks(Mutex<Option<How>>);

enum How {
    /// On a thread of its own, which ends when this is gone.
    Apart(Sender<LookThen>),
    /// On the caller's thread: in virtual time there is no other.
    #[cfg(feature = "test-kit")]
    Here(Box<dyn Looker>, Glance),
}

impl Looks {
    pub(super) fn apart(looker: Box<dyn Looker>) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let work = move || work(looker, &receiver);
        thread::Builder::new().name("lars-durable-look".into()).spawn(work)?;
        Ok(Self(Mutex::new(Some(How::Apart(sender)))))
    }

    #[cfg(feature = "test-kit")]
    pub(super) fn here(looker: Box<dyn Looker>) -> Self {
        Self(Mutex::new(Some(How::Here(looker, Glance::default()))))
    }

    /// Gives `then` back if the node has ended.
    pub(super) fn look(&self, then: LookThen) -> Option<LookThen> {
        let mut how = self.0.lock();
        match how.as_mut() {
            Some(How::Apart(thread)) => thread.send(then).err().map(|unsent| unsent.0),
            #[cfg(feature = "test-kit")]
            Some(How::Here(looker, glance)) => {
                let look = glance.look(|limit| looker.look(limit));
                drop(how);
                then(look);
                None
            }
            None => Some(then),
        }
    }

    /// From here on every `then` is given back.
    pub(super) fn end(&self) {
        drop(self.0.lock().take());
    }
}

fn work(mut looker: Box<dyn Looker>, asked: &Receiver<LookThen>) {
    let mut glance = Glance::default();
    while let Ok(then) = asked.recv() {
        let look = contain(|| glance.look(|limit| looker.look(limit)));
        let look = look.unwrap_or_else(|reason| Err(StoreError::nothing_done(reason)));
        if let Err(panic) = contain(|| then(look)) {
            tracing::error!(target: "lars_durable", %panic, "a waker panicked");
        }
    }
}
