//! Sequences of operations on a delay queue, its clocks and its consumers. The model is that of the property tests.
#![no_main]

use lars_scheduler_fuzz::count;
use libfuzzer_sys::fuzz_target;

#[path = "../../lars-scheduler/tests/queue_sequence/mod.rs"]
mod queue_sequence;

fuzz_target!(|bytes: &[u8]| {
    let sequence = queue_sequence::Sequence::decode(bytes);
    match queue_sequence::check(&sequence) {
        Ok(operations) => count(operations),
        Err(why) => panic!("{why}\nin {sequence:#?}"),
    }
});
