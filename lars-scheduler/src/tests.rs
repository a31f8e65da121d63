//! Tests of the crate from inside, under a checker that decides which thread goes next.

#[cfg(lars_loom)]
mod loom;
#[cfg(lars_shuttle)]
mod shuttle;
