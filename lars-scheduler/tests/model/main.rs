//! Random sequences of operations against a model that is a sorted map. See [`sequence`].
//!
//! `LARS_STRESS=100 cargo test --release -p lars-scheduler --test model` tries a hundred times as
//! many.
#![allow(clippy::disallowed_methods, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
mod sequence;

use std::path::Path;

use common::scaled;
use proptest::prelude::*;
use sequence::Sequence;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: scaled(1_000, 10) as u32 * common::stress(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_sequence_of_operations_runs_what_a_sorted_map_would_run_and_in_that_order(
        bytes in prop::collection::vec(any::<u8>(), 3..scaled(600, 60)),
    ) {
        let sequence = Sequence::decode(&bytes);
        sequence::check(&sequence)
            .map_err(|why| TestCaseError::fail(format!("{why}\nin {sequence:#?}")))?;
    }
}

/// What the fuzzer has kept: few bytes that reach much of the code.
#[test]
fn the_sequences_that_the_fuzzer_found_worth_keeping_go_as_a_sorted_map_would() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/operations");
    // (It is not part of the published crate.)
    let Ok(files) = std::fs::read_dir(&corpus) else { return };
    for file in files.map(Result::unwrap).take(scaled(usize::MAX, 5)) {
        let sequence = Sequence::decode(&std::fs::read(file.path()).unwrap());
        if let Err(why) = sequence::check(&sequence) {
            panic!("{}: {why}\nin {sequence:#?}", file.path().display());
        }
    }
}
