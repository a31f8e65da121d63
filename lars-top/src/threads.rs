//! The threads of this process, and what they got of the processors: read from Linux's /proc.

use crate::snapshot::Thread;

/// How many threads are shown at most.
#[cfg(target_os = "linux")]
const MOST: usize = 1_024;

/// The oldest threads, and how many there are beside them, as far as the system tells.
#[cfg(target_os = "linux")]
pub(crate) fn all() -> (Vec<Thread>, u64) {
    let Ok(mut tasks) = std::fs::read_dir("/proc/self/task") else { return (Vec::new(), 0) };
    let thread = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        // It may end at any time.
        let name = std::fs::read(entry.path().join("comm")).ok()?;
        let times = std::fs::read_to_string(entry.path().join("schedstat")).unwrap_or_default();
        let mut times = times.split_whitespace().map(|time| time.parse().unwrap_or(0));
        Some(Thread {
            // The system cuts a long name, also within a character.
            name: String::from_utf8_lossy(&name).trim_end().to_owned(),
            id: entry.file_name().to_str()?.parse().ok()?,
            ran: times.next().unwrap_or(0),
            waited: times.next().unwrap_or(0),
        })
    };
    let shown = tasks.by_ref().take(MOST).filter_map(thread).collect();
    (shown, tasks.count() as u64)
}

/// Other systems do not tell.
#[cfg(not(target_os = "linux"))]
pub(crate) fn all() -> (Vec<Thread>, u64) {
    (Vec::new(), 0)
}
