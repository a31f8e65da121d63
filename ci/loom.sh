#!/usr/bin/env bash
# The models: every interleaving of the lock-free protocols, with at most two or three preemptions.
# ci/loom.sh NAME runs the models whose path contains NAME; LOOM_MAX_PREEMPTIONS=5 explores more and
# takes longer.
#
# One model at a time: each history maps and unmaps the stacks of its threads, and two models of one
# process that do so wait for each other in the kernel: 138 seconds of processor time, not 101.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-1}"
RUSTFLAGS="--cfg lars_loom -D warnings" cargo test --target-dir target/loom --profile loom \
    -p lars-base -p lars-scheduler -p mini-actor --lib -- ${1:-tests::loom models}
