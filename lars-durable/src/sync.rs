//! The primitives that this crate uses: the only file that names them.

pub(crate) use std::sync::Arc;
#[cfg(any(feature = "actors", feature = "test-kit"))]
pub(crate) use std::sync::Weak;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

pub(crate) use parking_lot::{Condvar, Mutex};
