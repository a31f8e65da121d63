//! The tests of lars-durable, as its users see it, a module for each subject.

#[path = "../common/mod.rs"]
mod common;

mod actors;
mod actors_by_cron;
mod actors_on_threads;
mod cancellation;
mod file_owners;
mod foreign_code;
mod handlers;
mod history;
mod identity;
mod inspecting;
mod late_runs;
mod metrics_reporter;
mod observing;
mod opening;
mod other_programs;
mod outages;
mod own_transactions;
mod owners;
mod pruning;
mod queries;
mod reminders;
mod restart;
mod series_ends;
mod verbs;
