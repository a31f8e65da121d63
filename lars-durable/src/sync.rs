//! The primitives that this crate uses: the only file that names them.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

pub(crate) use parking_lot::{Condvar, Mutex};
