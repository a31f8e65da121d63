//! A parker for Windows that wakes at its deadline.
//!
//! An ordinary timed wait ends there at a tick of the system's timer, which is 15.6 ms long unless
//! a program asks for a shorter one. A waitable timer of high resolution (Windows 10, version 1803)
//! does not wait for that tick. So a thread waits for two objects at once: such a timer, and an
//! event that is the parker's token. On a system that has no such timer, the ordinary parker waits.

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_utils::sync as ordinary;
use windows_sys::Win32::Foundation::{FALSE, HANDLE, WAIT_FAILED};
use windows_sys::Win32::System::Threading::{
    CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, CreateEventW, CreateWaitableTimerExW, INFINITE,
    SetEvent, SetWaitableTimer, TIMER_ALL_ACCESS, WaitForMultipleObjects, WaitForSingleObject,
};

/// Blocks its thread until its token is there, and takes it.
#[derive(Debug)]
pub struct Parker {
    how: How,
    unparker: Unparker,
}

#[derive(Debug)]
enum How {
    Exact { event: Arc<OwnedHandle>, timer: OwnedHandle },
    Ordinary(ordinary::Parker),
}

/// Puts the token there.
#[derive(Debug, Clone)]
pub enum Unparker {
    /// Signaled while the token is there. The wait that it ends takes the signal away.
    Event(Arc<OwnedHandle>),
    /// Of a system without such timers.
    Ordinary(ordinary::Unparker),
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl Parker {
    /// A parker without a token.
    pub fn new() -> Self {
        if let (Some(event), Some(timer)) = (event(), timer()) {
            let event = Arc::new(event);
            let unparker = Unparker::Event(Arc::clone(&event));
            Self { how: How::Exact { event, timer }, unparker }
        } else {
            let parker = ordinary::Parker::new();
            let unparker = Unparker::Ordinary(parker.unparker().clone());
            Self { how: How::Ordinary(parker), unparker }
        }
    }

    /// What puts the token there.
    pub fn unparker(&self) -> &Unparker {
        &self.unparker
    }

    /// Blocks until the token is there.
    pub fn park(&self) {
        match &self.how {
            How::Exact { event, .. } => wait(event, INFINITE),
            How::Ordinary(parker) => parker.park(),
        }
    }

    /// Blocks until the token is there, or `deadline` has come.
    pub fn park_deadline(&self, deadline: Instant) {
        match &self.how {
            How::Exact { event, timer } => wait_until(event, timer, deadline),
            How::Ordinary(parker) => parker.park_deadline(deadline),
        }
    }
}

impl Unparker {
    /// Puts the token there, and wakes the thread that waits for it.
    pub fn unpark(&self) {
        match self {
            Self::Event(event) => {
                // SAFETY: the handle is open as long as `event` is borrowed.
                let set = unsafe { SetEvent(event.as_raw_handle()) };
                debug_assert_ne!(set, FALSE, "an event of our own can be set");
            }
            Self::Ordinary(unparker) => unparker.unpark(),
        }
    }
}

/// `None` if the system could not make it.
fn owned(handle: HANDLE) -> Option<OwnedHandle> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: it was just created, is not the null that says otherwise, and nobody else closes it.
    Some(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// An event that one wait resets, without a signal.
fn event() -> Option<OwnedHandle> {
    // SAFETY: both pointers may be null: default security, and no name.
    owned(unsafe { CreateEventW(ptr::null(), FALSE, FALSE, ptr::null()) })
}

/// A timer that one wait resets.
fn timer() -> Option<OwnedHandle> {
    let flags = CREATE_WAITABLE_TIMER_HIGH_RESOLUTION;
    // SAFETY: both pointers may be null: default security, and no name. A flag that the system does
    // not know is an error, and gives no handle.
    owned(unsafe { CreateWaitableTimerExW(ptr::null(), ptr::null(), flags, TIMER_ALL_ACCESS) })
}

/// Takes the event's signal, and waits for it at most this long.
fn wait(event: &OwnedHandle, milliseconds: u32) {
    // SAFETY: the handle is open as long as `event` is borrowed.
    let ended = unsafe { WaitForSingleObject(event.as_raw_handle(), milliseconds) };
    debug_assert_ne!(ended, WAIT_FAILED, "an event of our own can be waited for");
}

/// Takes the event's signal, and waits for it until then.
fn wait_until(event: &OwnedHandle, timer: &OwnedHandle, deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return wait(event, 0);
    }
    // Units of 100 ns, rounded up; negative, because they count from now.
    let due = -i64::try_from(left.as_nanos().div_ceil(100)).unwrap_or(i64::MAX);
    // SAFETY: the handle is open as long as `timer` is borrowed, `due` lives during the call, and
    // there is no routine to be called.
    let set = unsafe { SetWaitableTimer(timer.as_raw_handle(), &due, 0, None, ptr::null(), FALSE) };
    if set == FALSE {
        // One tick of the system's timer, and the caller looks again.
        return wait(event, 1);
    }
    // If both are signaled, the first of them counts. The timer's signal ends when it is set anew.
    let both = [event.as_raw_handle(), timer.as_raw_handle()];
    // SAFETY: `both` has two handles, which are open as long as they are borrowed.
    let ended = unsafe { WaitForMultipleObjects(2, both.as_ptr(), FALSE, INFINITE) };
    debug_assert_ne!(ended, WAIT_FAILED, "objects of our own can be waited for");
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_token_that_was_there_before_ends_one_wait_at_once() {
        let parker = Parker::new();
        parker.unparker().unpark();
        parker.unparker().unpark();
        parker.park();
        let (start, short) = (Instant::now(), Duration::from_millis(20));
        parker.park_deadline(start + short);
        // A millisecond less: nobody promises that two clocks of the system agree.
        assert!(start.elapsed() >= short - Duration::from_millis(1), "two tokens were one");
    }

    #[test]
    fn a_wait_with_a_deadline_ends_when_another_thread_unparks() {
        let parker = Parker::new();
        let unparker = parker.unparker().clone();
        let waker = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            unparker.unpark();
        });
        parker.park_deadline(Instant::now() + Duration::from_secs(3600));
        waker.join().unwrap();
    }

    #[test]
    fn a_deadline_that_has_passed_and_one_beyond_the_range_are_both_accepted() {
        let parker = Parker::new();
        parker.park_deadline(Instant::now());
        parker.unparker().unpark();
        parker.park_deadline(Instant::now() + Duration::from_secs(100 * 365 * 86_400));
    }
}
