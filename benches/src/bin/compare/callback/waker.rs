//! Callbacks as wakers, for peers that know nothing else.

use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::{Callback, Mode, Recorder};

impl Callback {
    /// The same as a waker, for peers that know nothing else. It allocates only where each one has
    /// a deadline of its own, for its lateness; the others carry the address of the recorder.
    pub(crate) fn waker(self) -> Waker {
        let raw = if matches!(self.to.mode, Mode::Lateness | Mode::Spread) {
            RawWaker::new(Box::into_raw(Box::new(self)).cast::<()>().cast_const(), &OWN)
        } else {
            RawWaker::new(ptr::from_ref(self.to).cast(), &SHARED)
        };
        // SAFETY: both tables keep the contract of `RawWaker`: the functions take data of the
        // table's kind, may be called from any thread, `clone` makes data that is independent,
        // `drop` frees its own.
        unsafe { Waker::from_raw(raw) }
    }
}

/// Wakers that refer to a recorder, which is never freed.
static SHARED: RawWakerVTable = RawWakerVTable::new(
    |recorder| RawWaker::new(recorder, &SHARED),
    call_shared,
    call_shared,
    |_| (),
);

fn call_shared(recorder: *const ()) {
    // SAFETY: the data of `SHARED` is a leaked recorder.
    let recorder = unsafe { &*recorder.cast::<Recorder>() };
    recorder.call(0);
}

/// Wakers that own a callback.
static OWN: RawWakerVTable = RawWakerVTable::new(
    |callback| {
        // SAFETY: the data of `OWN` is a boxed callback.
        let callback = unsafe { *callback.cast::<Callback>() };
        RawWaker::new(Box::into_raw(Box::new(callback)).cast::<()>().cast_const(), &OWN)
    },
    |callback| {
        // SAFETY: the data of `OWN` is a boxed callback, and waking by value ends the waker.
        let callback = unsafe { Box::from_raw(callback.cast_mut().cast::<Callback>()) };
        callback.call();
    },
    |callback| {
        // SAFETY: the data of `OWN` is a boxed callback, which the waker keeps.
        let callback = unsafe { &*callback.cast::<Callback>() };
        callback.call();
    },
    |callback| {
        // SAFETY: the data of `OWN` is a boxed callback, and dropping ends the waker.
        drop(unsafe { Box::from_raw(callback.cast_mut().cast::<Callback>()) });
    },
);
