//! The workloads. Each runs once in a process of its own.

mod burst;
mod cancelled_elsewhere;
mod fan;
mod futures;
mod idle;
pub(crate) mod lateness;
pub(crate) mod load_curve;
pub(crate) mod many_threads;
mod many_to_one;
mod mix;
mod moves;
mod periodic;
mod ping_pong;
mod population;
mod producers;
mod schedule;
mod schedule_cancel;
mod scheduled_sends;
mod sessions;
mod slow_task;
mod steady;
mod timeouts;
mod unpaused;

use crate::actors::Actors;
use crate::record::{Case, Outcome, Workload};
use crate::sleeps::Sleeps;
use crate::timers::Timers;
use benches::process;

/// Runs the workload on these timers.
pub(crate) fn measure<T: Timers>(case: &Case) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.set("fault_ns", process::touch_for(case.timers_at_once()));
    match case.workload {
        Workload::W1 | Workload::W7 => schedule::measure::<T>(case, &mut outcome),
        Workload::W2 => schedule_cancel::measure::<T>(case, &mut outcome),
        Workload::W2b => timeouts::measure::<T>(case, &mut outcome),
        Workload::W3 => burst::measure::<T>(case, &mut outcome),
        Workload::W4 => steady::measure::<T>(case, &mut outcome),
        Workload::W5 => idle::measure::<T>(case, &mut outcome),
        Workload::W6 => periodic::measure::<T>(case, &mut outcome),
        Workload::W8 => unpaused::measure::<T>(case, &mut outcome),
        Workload::W9 => cancelled_elsewhere::measure::<T>(case, &mut outcome),
        Workload::W11 => slow_task::measure::<T>(case, &mut outcome),
        Workload::W12 => moves::measure::<T>(case, &mut outcome),
        Workload::W13 => load_curve::measure::<T>(case, &mut outcome),
        Workload::W14 => many_threads::measure::<T>(case, &mut outcome),
        _ => {
            outcome.problems.push(format!("{} is not for timers", case.workload));
        }
    }
    outcome
}

/// Runs the workload on these futures.
pub(crate) fn measure_sleeps<S: Sleeps>(case: &Case) -> Outcome {
    let mut outcome = Outcome::default();
    match case.workload {
        Workload::W17 => futures::measure::<S>(case, &mut outcome),
        _ => outcome.problems.push(format!("{} is not for futures", case.workload)),
    }
    outcome
}

/// Runs the workload on these actors.
pub(crate) fn measure_actors<A: Actors>(case: &Case) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.set("fault_ns", process::touch_for(case.timers_at_once()));
    let faults = process::page_faults();
    match case.workload {
        Workload::A1 => ping_pong::measure::<A>(case, &mut outcome),
        Workload::A2 => many_to_one::measure::<A>(case, &mut outcome),
        Workload::A3 => scheduled_sends::measure::<A>(case, &mut outcome),
        Workload::A4 => fan::measure::<A>(case, &mut outcome),
        Workload::A5 => sessions::measure::<A>(case, &mut outcome),
        Workload::A6 => population::measure::<A>(case, &mut outcome),
        _ => outcome.problems.push(format!("{} is not for actors", case.workload)),
    }
    outcome.set("faults", (process::page_faults() - faults) as f64);
    outcome
}
