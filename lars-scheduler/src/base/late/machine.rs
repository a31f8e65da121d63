//! What the machine took from a thread, as the kernel counts it.
//!
//! On Linux: how long the thread was ready and had no processor (`schedstat`), how long its control
//! groups were over their quota (`cpu.stat`), what the hypervisor took from the processor that it
//! runs on (`steal` in `/proc/stat`), and for how long the machine was suspended. All of them only
//! grow, so what matters is by how much since the last reading. They are read if something is late,
//! and now and then before a sleep, so that the last reading is not old.
//!
//! (Documentation/scheduler/sched-stats.rst, admin-guide/cgroup-v2.rst and filesystems/proc.rst of
//! the Linux kernel.)

use super::Cause;

/// What was taken in a time, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stolen {
    known: bool,
    processor: u64,
    throttled: u64,
    stolen: u64,
    suspended: u64,
}

impl Stolen {
    /// Whether the platform says what is taken.
    pub(crate) fn is_known(self) -> bool {
        self.known
    }

    /// What explains more than the rest comes first.
    pub(crate) fn by_cause(self) -> [(Cause, u64); 4] {
        [
            (Cause::Suspended, self.suspended),
            (Cause::Throttled, self.throttled),
            (Cause::Processor, self.processor),
            (Cause::Stolen, self.stolen),
        ]
    }
}

/// How much time passes at least between two readings, in nanoseconds. They cost some microseconds.
#[cfg(all(target_os = "linux", not(any(lars_loom, lars_shuttle, miri))))]
const APART: u64 = 1_000_000;
/// How old the last reading may be when a thread goes to sleep.
#[cfg(all(target_os = "linux", not(any(lars_loom, lars_shuttle, miri))))]
const OLD: u64 = 1_000_000_000;

#[cfg(all(target_os = "linux", not(any(lars_loom, lars_shuttle, miri))))]
pub(crate) use self::linux::Machine;
#[cfg(not(all(target_os = "linux", not(any(lars_loom, lars_shuttle, miri)))))]
pub(crate) use self::other::Machine;

#[cfg(not(all(target_os = "linux", not(any(lars_loom, lars_shuttle, miri)))))]
mod other {
    use super::Stolen;

    /// Nothing is known.
    #[derive(Debug)]
    pub(crate) struct Machine;

    impl Machine {
        pub(crate) fn of_this_thread(_: u64) -> Self {
            Self
        }

        pub(crate) fn begin_anew(&mut self, _: u64) {}

        pub(crate) fn since_last(&mut self, _: u64) -> Stolen {
            Stolen::default()
        }
    }
}

#[cfg(all(target_os = "linux", not(any(lars_loom, lars_shuttle, miri))))]
mod linux {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;

    use super::{APART, OLD, Stolen};

    /// What the kernel had counted at one moment, in nanoseconds.
    #[derive(Debug, Clone, Copy, Default)]
    struct Reading {
        /// Ready, and no processor. Time in which the control group is throttled is in it.
        delayed: u64,
        throttled: u64,
        processor: usize,
        stolen: u64,
        suspended: u64,
    }

    /// The files in which it counts for one thread.
    #[derive(Debug)]
    pub(crate) struct Machine {
        /// `None` if this kernel does not count.
        delays: Option<File>,
        /// Those of the thread's control groups that can be throttled, from its own to the root.
        groups: Vec<Group>,
        last: Reading,
        /// When that was read.
        at: u64,
    }

    /// A control group's counts.
    #[derive(Debug)]
    struct Group {
        file: File,
        /// The name of the count, and its unit in nanoseconds.
        count: (&'static str, u64),
    }

    impl Machine {
        /// For the calling thread, which alone uses it.
        pub(crate) fn of_this_thread(now: u64) -> Self {
            let delays = File::open("/proc/thread-self/schedstat").ok();
            let groups = groups_of_this_thread();
            let mut new = Self { delays, groups, last: Reading::default(), at: now };
            new.last = new.read();
            new
        }

        /// See [`Journal::begin_anew`](super::super::Journal::begin_anew).
        pub(crate) fn begin_anew(&mut self, now: u64) {
            if now.saturating_sub(self.at) > OLD {
                (self.last, self.at) = (self.read(), now);
            }
        }

        /// What was taken since the last reading. It is read only so often: what is taken in
        /// between is in the next reading.
        pub(crate) fn since_last(&mut self, now: u64) -> Stolen {
            let known = self.delays.is_some();
            if now.saturating_sub(self.at) < APART {
                return Stolen { known, ..Stolen::default() };
            }
            let (before, after) = (self.last, self.read());
            (self.last, self.at) = (after, now);
            let grown = |count: fn(&Reading) -> u64| count(&after).saturating_sub(count(&before));
            let delayed = grown(|it| it.delayed);
            let throttled = grown(|it| it.throttled).min(delayed);
            // Another processor has taken over: its count says nothing about the time before.
            let same = before.processor == after.processor;
            Stolen {
                known,
                processor: delayed - throttled,
                throttled,
                stolen: if same { grown(|it| it.stolen) } else { 0 },
                suspended: grown(|it| it.suspended),
            }
        }

        fn read(&self) -> Reading {
            let mut text = [0; 4096];
            let delayed = self.delays.as_ref().and_then(|file| {
                let text = read(file, &mut text)?;
                text.split_ascii_whitespace().nth(1)?.parse().ok()
            });
            let (processor, stolen) = stolen().unwrap_or_default();
            Reading {
                delayed: delayed.unwrap_or(0),
                throttled: self.groups.iter().map(Group::throttled).max().unwrap_or(0),
                processor,
                stolen,
                suspended: suspended(),
            }
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
