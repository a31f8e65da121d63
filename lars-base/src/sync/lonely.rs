//! A parker where there is one thread: nobody else could wake it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::time::Instant;

/// Has a token that ends one wait. It cannot block: a wait without a token panics, because it would
/// never end.
#[derive(Debug, Default)]
pub struct Parker(Unparker);

/// Puts the token there.
#[derive(Debug, Clone, Default)]
pub struct Unparker(Arc<AtomicBool>);

impl Parker {
    /// A parker without a token.
    pub fn new() -> Self {
        Self::default()
    }

    /// What puts the token there.
    pub fn unparker(&self) -> &Unparker {
        &self.0
    }

    /// Takes the token.
    ///
    /// # Panics
    ///
    /// If it is not there.
    pub fn park(&self) {
        // Relaxed: there is one thread.
        assert!(
            self.0.0.swap(false, Ordering::Relaxed),
            "this wait would never end: there is no other thread that could end it; await the \
             future, or use a callback"
        );
    }

    /// Takes the token.
    ///
    /// # Panics
    ///
    /// If it is not there: a page cannot block until `deadline`, either.
    pub fn park_deadline(&self, _deadline: Instant) {
        self.park();
    }
}

impl Unparker {
    /// Puts the token there.
    pub fn unpark(&self) {
        // Relaxed: there is one thread.
        self.0.store(true, Ordering::Relaxed);
    }
}
