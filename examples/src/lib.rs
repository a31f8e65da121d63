//! The pages that have code in them, compiled and run like every other example. (Here because they
//! lie outside of both published packages.)

#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/semantics.md")]
    struct Semantics;
    #[doc = include_str!("../../docs/actors.md")]
    struct Actors;
}
