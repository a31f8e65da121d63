//! What memory the process has, as the system sees it.

/// Bytes of this process in memory; `None` where that cannot be found out.
pub fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    // The page size of all machines that have this file and that this is likely to run on.
    Some(pages * 4096)
}
