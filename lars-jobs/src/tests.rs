//! Tests of the crate from inside, under a checker that decides which thread runs next.

mod shuttle;
