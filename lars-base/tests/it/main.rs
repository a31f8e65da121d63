//! The tests of lars-base that use only what it exports, a module for each subject.
#![allow(missing_docs)]

mod backoff;
mod serde;
