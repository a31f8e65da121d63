//! What the machine took from a thread, as the kernel counts it.
//!
//! On Linux: how long the thread was ready and had no processor (`schedstat`), how long its control
//! groups were over their quota (`cpu.stat`), what the hypervisor took from the processor that it
//! runs on (`steal` in `/proc/stat`), and for how long the machine was suspended. All of them only
//! grow, so what matters is by how much since the last reading. They are read if something took
//! longer than it should have, and now and then before a sleep, so that the last reading is new.
//!
//! Since 6.18 Linux does not count a thread that is throttled as ready, and before it does. So
//! what the groups say comes first, and what the thread's count says after that takes only what is
//! left.
//!
//! (Documentation/scheduler/sched-stats.rst, admin-guide/cgroup-v2.rst and filesystems/proc.rst of
//! the Linux kernel.)

use super::Cause;

/// What the kernel counted in a time: no more than so many nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) what: What,
    pub(super) nanos: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Elsewhere nobody counts.
#[cfg_attr(
    not(all(target_os = "linux", not(any(lars_loom, lars_shuttle, miri)))),
    allow(dead_code)
)]
pub(super) enum What {
    /// The machine took it, for this reason.
    Taken(Cause),
    /// The thread was running.
    Ran,
}

#[cfg(all(target_os = "linux", not(any(lars_loom, lars_shuttle, miri))))]
pub(super) use self::linux::Machine;
#[cfg(not(all(target_os = "linux", not(any(lars_loom, lars_shuttle, miri)))))]
pub(super) use self::other::Machine;

#[cfg(not(all(target_os = "linux", not(any(lars_loom, lars_shuttle, miri)))))]
mod other {
    use super::Counted;

    /// Nothing is known.
    #[derive(Debug)]
    pub(in super::super) struct Machine;

    impl Machine {
        pub(in super::super) fn new(_: u64, _: u64) -> Self {
            Self
        }

        pub(in super::super) fn is_known(&self) -> bool {
            false
        }

        pub(in super::super) fn looked_at(&self) -> u64 {
            u64::MAX
        }

        pub(in super::super) fn begin_anew(&mut self, _: u64) {}

        pub(in super::super) fn look(&mut self, _: u64, _: impl FnMut(Counted)) {}
    }
}

#[cfg(all(target_os = "linux", not(any(lars_loom, lars_shuttle, miri))))]
mod linux {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;

    use super::{Cause, Counted, What};
    use crate::sync::thread_slot;

    /// How much time passes at least between two readings of the groups, in nanoseconds: each takes
    /// some microseconds.
    const GROUPS_APART: u64 = 1_000_000;
    /// The same for the hypervisor: the kernel counts in hundredths of a second, and the file has
    /// a line for each processor.
    const STEAL_APART: u64 = 20_000_000;
    /// How old either may be when a thread goes to sleep.
    const OLD: u64 = 1_000_000_000;

    /// A count at one moment.
    #[derive(Debug, Clone, Copy, Default)]
    struct Reading {
        count: u64,
        at: u64,
    }

    impl Reading {
        /// What has been counted since, until `now`.
        fn counted(&mut self, count: u64, now: u64, what: What) -> Counted {
            let before = std::mem::replace(self, Self { count, at: now });
            let nanos = count.saturating_sub(before.count);
            Counted { from: before.at, to: now, what, nanos }
        }

        fn is_older(self, than: u64, now: u64) -> bool {
            now.saturating_sub(self.at) >= than
        }
    }

    /// The files in which the kernel counts for one thread.
    #[derive(Debug)]
    pub(in super::super) struct Machine {
        /// The bound from which on something is late.
        bound: u64,
        /// Whose files these are: a driver may move to another thread.
        thread: usize,
        /// `None` if this kernel does not count.
        delays: Option<File>,
        /// Those of the thread's control groups that can be throttled, from its own to the root.
        groups: Vec<Group>,
        delayed: Reading,
        /// For how long the thread had a processor.
        ran: Reading,
        suspended: Reading,
        throttled: Reading,
        stolen: Reading,
        /// Whose count that is.
        processor: usize,
    }

    /// A control group's counts.
    #[derive(Debug)]
    struct Group {
        file: File,
        /// The name of the count, and its unit in nanoseconds.
        count: (&'static str, u64),
    }

    impl Machine {
        /// For the calling thread.
        pub(in super::super) fn new(bound: u64, now: u64) -> Self {
            let delays = File::open("/proc/thread-self/schedstat").ok();
            let at = |count| Reading { count, at: now };
            let mut new = Self {
                bound,
                thread: thread_slot(),
                delays,
                groups: groups_of_this_thread(),
                delayed: at(0),
                ran: at(0),
                suspended: at(suspended()),
                throttled: at(0),
                stolen: at(0),
                processor: 0,
            };
            let (ran, delayed) = new.count_runs();
            (new.ran, new.delayed) = (at(ran), at(delayed));
            new.throttled = at(new.count_throttled());
            let (processor, stolen) = stolen().unwrap_or_default();
            (new.processor, new.stolen) = (processor, at(stolen));
            new
        }

        pub(in super::super) fn is_known(&self) -> bool {
            self.delays.is_some()
        }

        /// When the delays were read last.
        pub(in super::super) fn looked_at(&self) -> u64 {
            self.delayed.at
        }

        /// See [`Journal::begin_anew`](super::super::journal::Journal::begin_anew).
        pub(in super::super) fn begin_anew(&mut self, now: u64) {
            if !self.delayed.is_older(self.bound, now) {
                return;
            }
            let (ran, delayed) = self.count_runs();
            self.ran = Reading { count: ran, at: now };
            self.delayed = Reading { count: delayed, at: now };
            self.suspended = Reading { count: suspended(), at: now };
            if self.throttled.is_older(OLD, now) {
                self.throttled = Reading { count: self.count_throttled(), at: now };
                let (processor, count) = stolen().unwrap_or_default();
                (self.processor, self.stolen) = (processor, Reading { count, at: now });
            }
        }

        /// Passes on what was counted since the last readings.
        pub(in super::super) fn look(&mut self, now: u64, mut found: impl FnMut(Counted)) {
            if self.thread != thread_slot() {
                *self = Self::new(self.bound, now);
                return;
            }
            let mut add = |counted: Counted| {
                if counted.from < counted.to {
                    found(counted);
                }
            };
            add(self.suspended.counted(suspended(), now, What::Taken(Cause::Suspended)));
            if self.throttled.is_older(GROUPS_APART, now) {
                let count = self.count_throttled();
                add(self.throttled.counted(count, now, What::Taken(Cause::Throttled)));
            }
            let (ran, delayed) = self.count_runs();
            add(self.delayed.counted(delayed, now, What::Taken(Cause::Processor)));
            if self.is_known() {
                add(self.ran.counted(ran, now, What::Ran));
            }
            if self.stolen.is_older(STEAL_APART, now) {
                let (processor, count) = stolen().unwrap_or_default();
                let counted = self.stolen.counted(count, now, What::Taken(Cause::Stolen));
                // Another processor's count says nothing about the time before.
                if std::mem::replace(&mut self.processor, processor) == processor {
                    add(counted);
                }
            }
        }

        /// For how long the thread had a processor, and was ready and had none.
        fn count_runs(&self) -> (u64, u64) {
            let mut text = [0; 128];
            let counts = self.delays.as_ref().and_then(|file| {
                let mut counts = read(file, &mut text)?.split_ascii_whitespace();
                Some((counts.next()?.parse().ok()?, counts.next()?.parse().ok()?))
            });
            counts.unwrap_or_default()
        }

        fn count_throttled(&self) -> u64 {
            self.groups.iter().map(Group::throttled).max().unwrap_or(0)
        }
    }

    impl Group {
        fn throttled(&self) -> u64 {
            let mut text = [0; 4096];
            let (name, unit) = self.count;
            let count = read(&self.file, &mut text).and_then(|text| count_in(text, name));
            count.unwrap_or(0).saturating_mul(unit)
        }
    }

    /// The beginning of a file, as much as there is room for.
    fn read<'a>(file: &File, text: &'a mut [u8]) -> Option<&'a str> {
        let length = file.read_at(text, 0).ok()?;
        str::from_utf8(&text[..length]).ok()
    }

    /// The value of a line `name value`.
    pub(super) fn count_in(text: &str, name: &str) -> Option<u64> {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|&(its_name, _)| its_name == name)?.1.trim().parse().ok()
    }

    /// The counts of all groups that the thread is in, in either version of control groups.
    fn groups_of_this_thread() -> Vec<Group> {
        let own = fs::read_to_string("/proc/thread-self/cgroup").unwrap_or_default();
        let mut groups = Vec::new();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let (places, count): (&[&str], _) = match controllers {
                "" => (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], ("throttled_usec", 1_000)),
                of if of.split(',').any(|name| name == "cpu") => {
                    (&["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"], ("throttled_time", 1))
                }
                _ => continue,
            };
            let mut path = path.trim_end_matches('/');
            loop {
                let open = |place| File::open(format!("{place}{path}/cpu.stat")).ok();
                if let Some(file) = places.iter().find_map(open) {
                    groups.push(Group { file, count });
                }
                match path.rfind('/') {
                    Some(end) => path = &path[..end],
                    None => break,
                }
            }
        }
        groups
    }

    /// The processor that this thread is on, and what the hypervisor has taken from it. The kernel
    /// counts it in hundredths of a second.
    fn stolen() -> Option<(usize, u64)> {
        // SAFETY: it has no arguments, and answers with a number.
        let processor = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        let text = fs::read_to_string("/proc/stat").ok()?;
        let name = format!("cpu{processor} ");
        let counts = text.lines().find_map(|line| line.strip_prefix(&name))?;
        let ticks: u64 = counts.split_ascii_whitespace().nth(7)?.parse().ok()?;
        Some((processor, ticks.saturating_mul(10_000_000)))
    }

    /// For how long the machine has been suspended since it was started.
    fn suspended() -> u64 {
        let read = |clock| {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the pointer is to the local `time`.
            unsafe { libc::clock_gettime(clock, &raw mut time) };
            (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
        };
        // In this order it is never too much.
        let since_boot = read(libc::CLOCK_BOOTTIME);
        since_boot.saturating_sub(read(libc::CLOCK_MONOTONIC))
    }
}
