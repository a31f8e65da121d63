//! How a timer gets from the thread that schedules it to the one that runs it.
//!
//! The modules are in dependency order: each uses only those above it.

pub(crate) mod entry;

pub(crate) mod due;
pub(crate) mod gate;
pub(crate) mod in_hand;
pub(crate) mod stack;

pub(crate) mod block;

pub(crate) mod counts;
pub(crate) mod intake;
pub(crate) mod listing;
pub(crate) mod pace;
pub(crate) mod sleep_word;
pub(crate) mod stop_word;
pub(crate) mod wheel;

pub(crate) mod place;

pub(crate) mod lane;

pub(crate) mod lanes;

pub(crate) mod arena;

pub(crate) mod shared;

pub(crate) mod share;

pub(crate) mod schedule;

pub(crate) mod entry_handle;

pub(crate) mod dispatch;
pub(crate) mod visit;

pub(crate) mod driver;

pub(crate) mod timer_thread;
