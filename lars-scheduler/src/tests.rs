//! Tests of the crate from inside: step by step, or under a checker that decides which thread runs
//! next.

#[cfg(not(any(lars_loom, lars_shuttle)))]
mod by_hand;
#[cfg(not(any(lars_loom, lars_shuttle)))]
mod litmus;
#[cfg(lars_loom)]
mod loom;
#[cfg(lars_shuttle)]
mod shuttle;
#[cfg(all(target_os = "linux", not(any(miri, lars_loom, lars_shuttle))))]
mod suspend;
