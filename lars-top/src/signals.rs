//! The signals that end a program, while a view is all that it does: the terminal is given back
//! first.

#[cfg(unix)]
pub(crate) use self::unix::Signals;

#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn catch() -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn came(&self) -> bool {
        false
    }

    pub(crate) fn obey(self) {}
}

#[cfg(unix)]
mod unix {
    use std::io;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    use signal_hook::{flag, low_level};

    use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering};

    /// Handlers cannot be taken back, so there is one set of them, which the views of a process
    /// take in turns.
    static HANDLERS: Mutex<Option<Handlers>> = Mutex::new(None);

    #[derive(Clone)]
    struct Handlers {
        /// The signal that came last, or nought.
        came: Arc<AtomicUsize>,
        /// No view has the terminal: signals do what they do to a program without handlers.
        idle: Arc<AtomicBool>,
    }

    /// While this lives, signals wait for [`obey`](Self::obey). When it is dropped they no longer
    /// do.
    pub(crate) struct Signals(Handlers);

    impl Signals {
        pub(crate) fn catch() -> io::Result<Self> {
            let mut handlers = HANDLERS.lock();
            if handlers.is_none() {
                let new = Handlers { came: Arc::default(), idle: Arc::default() };
                for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
                    flag::register_conditional_default(signal, Arc::clone(&new.idle))?;
                    flag::register_usize(signal, Arc::clone(&new.came), signal as usize)?;
                }
                *handlers = Some(new);
            }
            let handlers = handlers.clone().expect("they were set above");
            // Relaxed, here and below: nothing else is passed on by these words.
            handlers.idle.store(false, Ordering::Relaxed);
            Ok(Self(handlers))
        }

        pub(crate) fn came(&self) -> bool {
            self.0.came.load(Ordering::Relaxed) != 0
        }

        /// Does what the signal that came does to a program without a handler: it ends.
        pub(crate) fn obey(self) {
            let signal = self.0.came.swap(0, Ordering::Relaxed);
            if let Ok(signal @ 1..) = i32::try_from(signal) {
                let _ = low_level::emulate_default_handler(signal);
            }
        }
    }

    impl Drop for Signals {
        fn drop(&mut self) {
            self.0.idle.store(true, Ordering::Relaxed);
        }
    }
}
