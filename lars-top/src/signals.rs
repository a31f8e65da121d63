//! The signals that end a program: while a view has the terminal, it is given back first.

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
    use std::mem::{MaybeUninit, transmute};
    use std::ptr::{null, null_mut};

    use nix::errno::Errno;
    use nix::libc::{self, SIGHUP, SIGINT, SIGQUIT, SIGTERM, c_int, c_void, siginfo_t};
    use signal_hook::low_level;

    use crate::sync::{AtomicBool, AtomicI32, Mutex, OnceLock, Ordering};

    const SIGNALS: [c_int; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

    /// What the signals did before, in the order of [`SIGNALS`]. A handler cannot be taken back,
    /// because another one may stand on it, so they are caught once for all views.
    static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();
    /// Whether a view has the terminal. Relaxed, like `CAME`: nothing is passed on by them.
    static VIEW: AtomicBool = AtomicBool::new(false);
    /// The signal that ends the program as soon as the view has given the terminal back, or nought.
    static CAME: AtomicI32 = AtomicI32::new(0);

    /// While this lives, signals that nobody else handles wait for [`obey`](Self::obey). When it is
    /// dropped they no longer do.
    pub(crate) struct Signals(());

    impl Signals {
        pub(crate) fn catch() -> io::Result<Self> {
            static CATCHING: Mutex<()> = Mutex::new(());
            let _one_at_a_time = CATCHING.lock();
            if BEFORE.get().is_none() {
                let mut before = [action_of(SIGHUP)?; SIGNALS.len()];
                for (number, signal) in SIGNALS.into_iter().enumerate() {
                    before[number] = action_of(signal)?;
                }
                // Before the handler, which reads it.
                let before = BEFORE.get_or_init(|| before);
                for (signal, before) in SIGNALS.into_iter().zip(before) {
                    // What is ignored (by `nohup`, for example) stays so.
                    if before.sa_sigaction != libc::SIG_IGN {
                        install(signal)?;
                    }
                }
            }
            VIEW.store(true, Ordering::Relaxed);
            Ok(Self(()))
        }

        pub(crate) fn came(&self) -> bool {
            CAME.load(Ordering::Relaxed) != 0
        }

        /// Does what the signal that came does to a program without a handler: it ends.
        pub(crate) fn obey(self) {
            drop(self);
            match CAME.swap(0, Ordering::Relaxed) {
                0 => {}
                signal => _ = low_level::emulate_default_handler(signal),
            }
        }
    }

    impl Drop for Signals {
        fn drop(&mut self) {
            VIEW.store(false, Ordering::Relaxed);
        }
    }

    fn action_of(signal: c_int) -> io::Result<libc::sigaction> {
        let mut action = MaybeUninit::uninit();
        // SAFETY: without a new action it changes nothing, and writes the old one.
        let done = unsafe { libc::sigaction(signal, null(), action.as_mut_ptr()) };
        Errno::result(done)?;
        // SAFETY: it has succeeded, and so has written it.
        Ok(unsafe { action.assume_init() })
    }

    fn install(signal: c_int) -> io::Result<()> {
        // SAFETY: all fields are integers or pointers, for which zero is a value.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = ours();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: the action is complete, with no signal in its mask. The handler calls only what a
        // handler may call; see there.
        Errno::result(unsafe { libc::sigaction(signal, &raw const action, null_mut()) })?;
        Ok(())
    }

    fn ours() -> libc::sighandler_t {
        handle as *const () as libc::sighandler_t
    }

    /// Passes a signal on to the handler before. If there is none, and none came later that stands
    /// on this one, it ends the program: by the view, or at once if there is no view, or the view
    /// has not come to it since the signal before.
    ///
    /// It uses atomics, `sigaction`, and what signal-hook says may be called by a handler.
    extern "C" fn handle(signal: c_int, about: *mut siginfo_t, context: *mut c_void) {
        let errno = Errno::last_raw();
        let number = SIGNALS.iter().position(|it| *it == signal);
        let before = number.and_then(|number| BEFORE.get()?.get(number));
        match before {
            Some(before) if before.sa_sigaction == libc::SIG_DFL => {
                let last = action_of(signal).is_ok_and(|now| now.sa_sigaction == ours());
                if last && (!VIEW.load(Ordering::Relaxed) || came_again(signal)) {
                    let _ = low_level::emulate_default_handler(signal);
                }
            }
            Some(before) => pass_on(before, signal, about, context),
            None => {}
        }
        Errno::set_raw(errno);
    }

    fn came_again(signal: c_int) -> bool {
        CAME.swap(signal, Ordering::Relaxed) != 0
    }

    fn pass_on(
        before: &libc::sigaction,
        signal: c_int,
        about: *mut siginfo_t,
        context: *mut c_void,
    ) {
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            // SAFETY: the flag says that the handler is of this type.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { transmute(before.sa_sigaction) };
            handler(signal, about, context);
        } else {
            // SAFETY: without the flag it is of this one. It is neither the default nor ignored:
            // for the one the caller looks, and on the other no handler is installed.
            let handler: extern "C" fn(c_int) = unsafe { transmute(before.sa_sigaction) };
            handler(signal);
        }
    }
}
