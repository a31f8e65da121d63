//! Sequences of operations in virtual time: scheduling of all kinds, cancels, moves, movements of
//! time, panics and stops, from outside and from inside of tasks. The model is that of the property
//! tests.
#![no_main]

use lars_scheduler_fuzz::count;
use libfuzzer_sys::fuzz_target;

#[path = "../../lars-scheduler/tests/model/sequence/mod.rs"]
mod sequence;

fuzz_target!(|bytes: &[u8]| {
    let sequence = sequence::Sequence::decode(bytes);
    match sequence::check(&sequence) {
        Ok(operations) => count(operations),
        Err(why) => panic!("{why}\nin {sequence:#?}"),
    }
});
