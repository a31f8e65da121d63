#!/usr/bin/env bash
# Shuttles: the whole scheduler, and whole actor systems, in many random interleavings of their
# threads. LARS_SHUTTLE=20 ci/shuttle.sh tries twenty times as many;
# LARS_SHUTTLE_REPLAY=<schedule> ci/shuttle.sh <test> reruns the one that a failure printed.
set -euo pipefail
cd "$(dirname "$0")/.."
RUSTFLAGS="--cfg lars_shuttle -D warnings" cargo test --target-dir target/shuttle --profile loom \
    -p lars-scheduler -p lars-jobs -p mini-actor --lib -- "tests::shuttle${1:+::$1}"
