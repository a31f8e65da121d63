//! The threads of this process, and what they got of the processors: read from Linux's /proc.

use crate::snapshot::Thread;

/// How many threads are shown at most.
#[cfg(target_os = "linux")]
const MOST: usize = 256;

/// All threads, as far as the system tells.
#[cfg(target_os = "linux")]
pub(crate) fn all() -> Vec<Thread> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let thread = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        // It may end at any time.
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        let times = std::fs::read_to_string(entry.path().join("schedstat")).unwrap_or_default();
        let mut times = times.split_whitespace().map(|time| time.parse().unwrap_or(0));
        Some(Thread {
            name: name.trim_end().to_owned(),
            id: entry.file_name().to_str()?.parse().ok()?,
            ran: times.next().unwrap_or(0),
            waited: times.next().unwrap_or(0),
        })
    };
    tasks.take(MOST).filter_map(thread).collect()
}

/// Other systems do not tell.
#[cfg(not(target_os = "linux"))]
pub(crate) fn all() -> Vec<Thread> {
    Vec::new()
}
