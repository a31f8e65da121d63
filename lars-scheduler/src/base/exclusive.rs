//! A wrapper that makes any value `Sync` by giving no shared access to it.

/// Gives safe access to its content by `&mut` or by value only, so it is `Sync` whatever the
/// content is.
pub(crate) struct Exclusive<T>(T);

// SAFETY: a shared reference to `Exclusive` gives no access to the value inside but by `shared`,
// whose caller answers for it. What needs `&mut` or ownership is exclusive by the rules of the
// language.
unsafe impl<T> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }

    /// Gives shared access.
    ///
    /// # Safety
    ///
    /// What the caller does with it must be allowed for several threads at once.
    pub(crate) unsafe fn shared(&self) -> &T {
        &self.0
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }

    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}
