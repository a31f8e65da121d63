//! Tests of the crate from inside: what is seen only there, turn by turn, and under a checker that
//! decides which thread goes next.

#[cfg(not(any(lars_loom, lars_shuttle)))]
mod ends;
#[cfg(not(any(lars_loom, lars_shuttle)))]
mod names;
#[cfg(lars_shuttle)]
mod shuttle;
#[cfg(not(any(lars_loom, lars_shuttle)))]
mod turned;
#[cfg(not(any(lars_loom, lars_shuttle)))]
mod turns;
