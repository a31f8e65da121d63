//! The time since the machine was booted. It goes on while the machine is suspended, which the
//! monotonic clock does not, and which no wait counts. Only Linux has a clock for it.

pub(super) use self::system::{Boot, read};

#[cfg(all(target_os = "linux", not(any(lars_loom, lars_shuttle))))]
mod system {
    #[cfg(test)]
    use crate::sync::{Arc, AtomicU64, Ordering};

    #[derive(Debug, Clone)]
    pub(crate) struct Boot {
        /// What the clock showed at the origin, or a moment later.
        start: u64,
        /// For how long the machine of a test was suspended.
        #[cfg(test)]
        pub(crate) suspended: Arc<AtomicU64>,
    }

    impl Boot {
        pub(crate) fn new(start: u64) -> Self {
            Self {
                start,
                #[cfg(test)]
                suspended: Arc::default(),
            }
        }

        /// Nanoseconds since the origin.
        pub(crate) fn now(&self) -> u64 {
            let now = super::super::read(libc::CLOCK_BOOTTIME);
            // Relaxed: a number of a test, which no memory depends on.
            #[cfg(test)]
            let now = now + self.suspended.load(Ordering::Relaxed);
            now.saturating_sub(self.start)
        }
    }

    /// What the clock shows.
    pub(crate) fn read() -> Option<u64> {
        Some(super::super::read(libc::CLOCK_BOOTTIME))
    }
}

#[cfg(not(all(target_os = "linux", not(any(lars_loom, lars_shuttle)))))]
mod system {
    /// There is none.
    #[derive(Debug, Clone)]
    pub(crate) enum Boot {}

    impl Boot {
        pub(crate) fn new(_start: u64) -> Self {
            unreachable!("what cannot be read has shown nothing")
        }

        pub(crate) fn now(&self) -> u64 {
            match *self {}
        }
    }

    pub(crate) fn read() -> Option<u64> {
        None
    }
}
