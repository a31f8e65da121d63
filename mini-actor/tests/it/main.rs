//! The tests of mini-actor, a module for each subject. One binary, because each one more takes
//! seconds to link. Tests that need a process of their own have one.

#[path = "../common/mod.rs"]
mod common;

mod ask;
mod close;
mod counts;
mod dead_letters;
mod durations;
mod ends;
mod hooks;
mod large_messages;
mod late;
mod lifecycle;
mod mailboxes;
mod metrics_reporter;
mod on_scheduler;
mod places;
mod receive_timeout;
mod room;
mod scheduled;
mod serde;
mod slow;
mod storms;
mod supervision;
mod test_kit;
mod threads;
mod timers;
mod watching;
