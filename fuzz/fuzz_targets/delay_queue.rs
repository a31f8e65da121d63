//! Sequences of operations on a delay queue, its clocks and its consumers. The model is that of the
//! property tests.
#![no_main]

use lars_scheduler_fuzz::count;
use libfuzzer_sys::fuzz_target;

#[path = "../../lars-jobs/tests/it/delay_queue/sequence/mod.rs"]
mod sequence;

fuzz_target!(|bytes: &[u8]| {
    let sequence = sequence::Sequence::decode(bytes);
    match sequence::check(&sequence) {
        Ok(operations) => count(operations),
        Err(why) => panic!("{why}\nin {sequence:#?}"),
    }
});
