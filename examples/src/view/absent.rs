//! Stands in for lars-top where the feature `top` is off: nothing is watched, and whoever asks for
//! a view is told how to get it.

use std::path::Path;

use lars_scheduler::Handle;
use lars_scheduler::hooks::SlowTask;
use mini_actor::System;

const HOW: &str = "this build has no live view; `--features top` before `--example` builds it in, \
                   as in `cargo run --release -p examples --features top --example sessions -- \
                   --live`";

#[derive(Debug, Clone)]
pub struct Probe;

impl Probe {
    pub fn new(_: Handle) -> Self {
        Self
    }

    pub fn of_system(_: &System) -> Self {
        Self
    }

    #[must_use]
    pub fn named(self, _: &str) -> Self {
        self
    }

    #[must_use]
    pub fn slow_log(self, _: &SlowLog) -> Self {
        self
    }
}

#[derive(Debug, Default)]
pub struct SlowLog;

impl SlowLog {
    pub fn new() -> Self {
        Self
    }

    pub fn hook(&self) -> impl Fn(&SlowTask<'_>) + Send + Sync + 'static {
        |_| ()
    }
}

#[derive(Debug)]
pub enum Server {}

pub fn serve(_: impl AsRef<Path>, _: Probe) -> Result<Server, &'static str> {
    Err(HOW)
}

#[derive(Debug)]
pub enum Live {}

impl Live {
    pub fn start(_: Probe) -> Result<Self, &'static str> {
        Err(HOW)
    }

    pub fn is_open(&self) -> bool {
        match *self {}
    }

    pub fn close(&self) -> Result<(), &'static str> {
        match *self {}
    }
}
