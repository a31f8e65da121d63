//! What the long examples share, and the pages that have code in them, compiled and run like every
//! other example. (Here because the pages lie outside of the published packages.)

pub mod late;
pub mod view;

#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/semantics.md")]
    struct Semantics;
    #[doc = include_str!("../../docs/actors.md")]
    struct Actors;
}
