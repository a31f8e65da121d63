//! Tests of the crate from inside: turn by turn, and under a checker that decides which thread goes
//! next.

#[cfg(lars_shuttle)]
mod shuttle;
#[cfg(not(any(lars_loom, lars_shuttle)))]
mod turns;
