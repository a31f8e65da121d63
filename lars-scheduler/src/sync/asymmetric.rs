//! A pair of fences, one of which costs nothing.
//!
//! Two threads that each store a flag and then load the other's need a full fence in between, or
//! both may miss the other's store. If one of them does so a million times as often as the other,
//! the kernel can pay for both: the frequent side keeps its compiler from reordering, and the rare
//! side asks the kernel to put a fence into every running thread of the process (`membarrier(2)`,
//! `MEMBARRIER_CMD_PRIVATE_EXPEDITED`, Linux 4.14).
//!
//! Where the kernel has no such call, and under Miri, both sides are ordinary `SeqCst` fences.
//!
//! A process may take the call from itself later: with a filter of system calls that does not list
//! it. Then both sides change over to ordinary fences, for good. A thread of the frequent side may
//! have looked at [`FENCES`] just before the change, and still rely on the kernel. So the rare side
//! is told "not now" for ten milliseconds after it. By then the flag of such a thread is visible:
//! the thread stored it before it looked, a processor holds a store back for less than
//! microseconds, and an interrupt makes it write out all stores. No order of instructions says so,
//! and this is the only place that relies on a time. (A. Morrison and Y. Afek, *Temporally Bounding
//! TSO for Fence-Free Asymmetric Synchronization*, ASPLOS 2015, rest a whole protocol on such a
//! bound. To be told by each thread instead would mean to wait for those that do not come again,
//! and whose timers have to fire.)

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use lars_base::panics::quietly;
use lars_base::time::Instant;

/// Each side fences for itself.
const BY_EACH: u8 = 0;
/// The kernel fences for both sides.
const BY_KERNEL: u8 = 1;
/// Each side fences for itself, after a change.
const CHANGED_OVER: u8 = 2;

/// Decided for the whole process before its first scheduler exists, and changed at most once: from
/// [`BY_KERNEL`] to [`CHANGED_OVER`].
static FENCES: AtomicU8 = AtomicU8::new(BY_EACH);

/// A time after that change.
static CHANGED: OnceLock<Instant> = OnceLock::new();

/// How long the rare side waits after the change: a thousand times as long as a store takes to
/// become visible.
const SETTLES: Duration = Duration::from_millis(10);

/// How many fences of the kernel may fail in a row before we do without. (It may fail for want of
/// memory.)
const FAILURES_IN_A_ROW: u8 = 8;

/// Decides how the fences work. Every scheduler that is built calls this before it is shared with
/// another thread. (A process that was forked keeps its parent's registration.)
pub(crate) fn prepare_fences() {
    static DECIDED: Once = Once::new();
    DECIDED.call_once(|| {
        if kernel::register() && kernel::fence_all_threads() {
            // Relaxed: a thread that fences was handed its scheduler by a thread that has been
            // here.
            FENCES.store(BY_KERNEL, Ordering::Relaxed);
        }
    });
}

/// The kernel does not fence any more: from now on each side does.
#[cold]
fn change_over() {
    // SeqCst: with the fence of each side after it, the change is not put off. First the change,
    // then the time, which is never too early so.
    FENCES.store(CHANGED_OVER, Ordering::SeqCst);
    CHANGED.get_or_init(Instant::now);
    quietly(|| {
        tracing::warn!(
            target: "lars_scheduler",
            "membarrier(2) fails, which worked before (a filter of system calls?): from now on \
             threads that schedule execute a fence in each call"
        );
    });
}

/// Whether all threads act by the change.
fn is_settled() -> bool {
    // If there is no time yet, the change has only just been made.
    CHANGED.get().is_some_and(|at| at.elapsed() >= SETTLES)
}

/// The kernel's fence, by which the rare side may be told "not now".
fn fence_by_kernel() -> bool {
    static FAILED: AtomicU8 = AtomicU8::new(0);
    let done = kernel::fence_all_threads();
    // Relaxed, all: a count. One that several threads add to, or reset, changes over a little
    // earlier or later.
    if done {
        if FAILED.load(Ordering::Relaxed) != 0 {
            FAILED.store(0, Ordering::Relaxed);
        }
    } else if FAILED.fetch_add(1, Ordering::Relaxed) == FAILURES_IN_A_ROW - 1 {
        change_over();
    }
    done
}

#[inline]
fn by_kernel() -> bool {
    // Relaxed: see `prepare_fences`, and for a change the module's documentation.
    FENCES.load(Ordering::Relaxed) == BY_KERNEL
}

/// The fence of the frequent side.
#[inline(always)]
pub(crate) fn light_fence() {
    // Before the look at how fences work, too: see the module's documentation.
    compiler_fence(Ordering::SeqCst);
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
        fence_by_kernel()
    } else {
        fence(Ordering::SeqCst);
        // Relaxed: see `by_kernel`.
        FENCES.load(Ordering::Relaxed) != CHANGED_OVER || is_settled()
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

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::process::Command;

    use super::*;

    /// In a process of its own: the change is for good.
    #[test]
    fn after_the_change_no_fence_counts_before_all_threads_have_seen_it() {
        const CHILD: &str = "LARS_FENCES_CHILD";
        let name = "after_the_change_no_fence_counts_before_all_threads_have_seen_it";
        if std::env::var_os(CHILD).is_none() {
            let mut child = Command::new(std::env::current_exe().unwrap());
            let test = format!("sync::asymmetric::tests::{name}");
            let output = child.args(["--exact", &test]).env(CHILD, "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        prepare_fences();
        let before = Instant::now();
        change_over();
        while !heavy_fence() {}
        assert!(before.elapsed() >= SETTLES, "{:?}", before.elapsed());
    }

    #[test]
    fn a_process_that_was_forked_keeps_its_parent_s_registration() {
        if !kernel::register() {
            return; // this kernel has no such fences
        }
        // SAFETY: in the child, which has this thread only, a system call is made and the process
        // ends. No lock is taken, and no memory allocated.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(!kernel::fence_all_threads()));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        };
        assert_eq!(status, 0, "a child has to register anew");
    }
}
