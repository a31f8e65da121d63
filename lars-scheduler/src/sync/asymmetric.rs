//! A pair of fences, one of which costs nothing.
//!
//! Two threads that each store a flag and then load the other's need a full fence in between, or
//! both may miss the other's store. If one of them does so a million times as often as the other,
//! the kernel can pay for both: the frequent side keeps its compiler from reordering, and the rare
//! side asks the kernel to put a fence into every running thread of the process (`membarrier(2)`,
//! `MEMBARRIER_CMD_PRIVATE_EXPEDITED`, Linux 4.14).
//!
//! Where the kernel has no such call, and under Miri, both sides are ordinary `SeqCst` fences.

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

const UNDECIDED: u8 = 0;
/// The kernel fences for both sides.
const BY_KERNEL: u8 = 1;
/// Each side fences for itself.
const BY_EACH: u8 = 2;

/// Decided once for the whole process, before its first scheduler exists.
static FENCES: AtomicU8 = AtomicU8::new(UNDECIDED);

/// Decides how the fences work. Every scheduler that is built calls this before it is shared with
/// another thread.
///
/// # Panics
///
/// If the kernel takes back what it promised this process earlier; no kernel does.
pub(crate) fn prepare_fences() {
    // No shortcut if it was decided before: a process that was forked has to register again.
    let found = if kernel::register() { BY_KERNEL } else { BY_EACH };
    // Relaxed: a thread that fences was handed its scheduler by a thread that has been here.
    let decided = FENCES.compare_exchange(UNDECIDED, found, Ordering::Relaxed, Ordering::Relaxed);
    assert!(
        decided != Err(BY_KERNEL) || found == BY_KERNEL,
        "membarrier(2) worked when the first scheduler was built, and does not any more"
    );
}

#[inline]
fn by_kernel() -> bool {
    // Relaxed: see `prepare_fences`.
    FENCES.load(Ordering::Relaxed) == BY_KERNEL
}

/// The fence of the frequent side.
#[inline(always)]
pub(crate) fn light_fence() {
    if by_kernel() {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The fence of the rare side. False if the kernel could not do it now: then nothing may be
/// concluded from what is loaded next.
#[must_use]
pub(crate) fn heavy_fence() -> bool {
    #[cfg(test)]
    if FAILURES.with(|failures| failures.replace(failures.get().saturating_sub(1)) > 0) {
        return false;
    }
    if by_kernel() {
        // The caller's own thread included.
        kernel::fence_all_threads()
    } else {
        fence(Ordering::SeqCst);
        true
    }
}

#[cfg(test)]
thread_local! {
    /// How many of the calling thread's next heavy fences fail.
    pub(crate) static FAILURES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[cfg(all(target_os = "linux", not(miri)))]
mod kernel {
    // <linux/membarrier.h>
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes numbers only, and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn register() -> bool {
        membarrier(REGISTER_PRIVATE_EXPEDITED)
    }

    pub(super) fn fence_all_threads() -> bool {
        membarrier(PRIVATE_EXPEDITED)
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod kernel {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn fence_all_threads() -> bool {
        unreachable!("no kernel fences on this platform, so none was promised")
    }
}
