//! The scheduler of code that names none: that of the thread's virtual time, or the process's.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::OnceLock;

use crate::sync::real_now;
use crate::{Handle, LightArrayRevolverScheduler};
use lars_base::debug_fields;
use lars_base::time::Instant;

/// The scheduler of the process. Once there, it stays.
static OF_PROCESS: OnceLock<Chosen> = OnceLock::new();

thread_local! {
    /// The virtual time that this thread moves, if it does.
    static OF_THREAD: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

struct Chosen {
    timers: Handle,
    /// If it has started by itself. It is never dropped, so it never stops.
    owner: Option<LightArrayRevolverScheduler>,
}

/// Why [`set_default`](crate::time::set_default) failed.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::time::{error::SetDefaultError, set_default};
///
/// let (mine, other) = (LightArrayRevolverScheduler::new()?, LightArrayRevolverScheduler::new()?);
/// set_default(&mine)?;
/// assert_eq!(set_default(&other), Err(SetDefaultError::AlreadySet));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetDefaultError {
    /// It has been set before.
    #[error("the default scheduler has been set before, and that is final")]
    AlreadySet,
    /// Something has used it before it was set, so it has started by itself.
    #[error(
        "the default scheduler has started by itself, because something used it before it was set: \
         set it first thing in `main`"
    )]
    AlreadyStarted,
}

pub(crate) fn set(timers: &Handle) -> Result<(), SetDefaultError> {
    let new = Chosen { timers: timers.clone(), owner: None };
    OF_PROCESS.set(new).map_err(|_| match OF_PROCESS.get() {
        Some(Chosen { owner: Some(_), .. }) => SetDefaultError::AlreadyStarted,
        _ => SetDefaultError::AlreadySet,
    })
}

/// The default scheduler, which starts now if nothing has started or set it.
#[inline]
#[track_caller]
pub(crate) fn current() -> Current {
    match of_thread() {
        Some(timers) => Current::OfThread(timers),
        None => Current::OfProcess(&OF_PROCESS.get_or_init(start).timers),
    }
}

/// A scheduler that is the default at the moment.
pub(crate) enum Current {
    OfThread(Handle),
    OfProcess(&'static Handle),
}

impl Deref for Current {
    type Target = Handle;

    #[inline]
    fn deref(&self) -> &Handle {
        match self {
            Self::OfThread(timers) => timers,
            Self::OfProcess(timers) => timers,
        }
    }
}

/// The time of the default scheduler. It does not start for this: until then it is the system's.
#[inline]
pub(crate) fn now() -> Instant {
    match of_thread() {
        Some(timers) => timers.now(),
        None => OF_PROCESS.get().map_or_else(real_now, |default| default.timers.now()),
    }
}

#[inline]
fn of_thread() -> Option<Handle> {
    // While a thread ends it moves no time.
    OF_THREAD.try_with(|timers| timers.borrow().clone()).ok().flatten()
}

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
#[cold]
#[track_caller]
fn start() -> Chosen {
    let name = "lars-scheduler-default";
    match LightArrayRevolverScheduler::builder().thread_name(name).build() {
        Ok(owner) => Chosen { timers: owner.handle(), owner: Some(owner) },
        Err(error) => panic!(
            "the default scheduler cannot start: {error}; one that exists can be set with \
             `lars_scheduler::time::set_default`"
        ),
    }
}

/// Nothing starts by itself where there is no thread.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
#[cold]
#[track_caller]
fn start() -> Chosen {
    panic!(
        "there is no default scheduler, and no thread that one could have: build one with \
         `build_browser` or `build_virtual`, and pass it to `lars_scheduler::time::set_default`"
    )
}

/// While it exists, the calling thread's default is this scheduler.
pub(super) struct Entered {
    before: Option<Handle>,
}

impl Entered {
    pub(super) fn new(timers: &Handle) -> Self {
        Self { before: OF_THREAD.replace(Some(timers.clone())) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        OF_THREAD.set(self.before.take());
    }
}

debug_fields!(|it: Chosen| timers: it.timers);
debug_fields!(|it: Current| timers: **it);
debug_fields!(|_it: Entered|);
