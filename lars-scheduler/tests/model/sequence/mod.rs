//! Sequences of operations on a scheduler in virtual time, against a model that is a sorted map.
//!
//! One decoder, one model, two users: `tests/model/main.rs` feeds it with random bytes, and the
//! fuzzer in `fuzz/` with bytes that it has chosen by the coverage that they bring.
//!
//! - [`ops`]: what may happen, and how bytes become it.
//! - [`real`]: does it, and keeps a log.
//! - [`model`]: reads the log, and says whether the promises allow it.

mod model;
mod ops;
mod real;

pub(crate) use ops::Sequence;

/// Carries out a sequence, and checks each step. Returns how many operations that were, those of
/// tasks included.
pub(crate) fn check(sequence: &Sequence) -> Result<u64, String> {
    let world = real::World::new(&sequence.settings);
    let mut model = model::Model::new(&sequence.settings);
    for op in &sequence.ops {
        let outcome = world.carry_out(op);
        model.carry_out(op, outcome, world.take_log()).map_err(|why| format!("{op:?}: {why}"))?;
        let (elapsed, pending) = world.elapsed_and_pending();
        model.compare(elapsed, pending).map_err(|why| format!("after {op:?}: {why}"))?;
        hand_back(&world, &mut model)?;
    }
    let report = world.end(sequence.close);
    model.end(sequence.close, report, world.take_log())?;
    hand_back(&world, &mut model)?;
    model.compare_metrics(&world.metrics())?;
    Ok(model.operations())
}

/// Deals with the tasks that a stop has handed back, if there was one: two of three are run, the
/// others dropped.
fn hand_back(world: &std::sync::Arc<real::World>, model: &mut model::Model) -> Result<(), String> {
    for tasks in world.handed_back() {
        model.handed_back(tasks.len())?;
        for (number, task) in tasks.into_iter().enumerate() {
            let (is_repeat, run) = (task.is_repeat(), number % 3 != 0);
            let went_well = if run {
                task.run()
            } else {
                drop(task);
                true
            };
            model.next_handed_back(is_repeat, run, went_well, world.take_log())?;
        }
        model.all_handed_back()?;
    }
    Ok(())
}
