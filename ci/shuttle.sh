#!/usr/bin/env bash
# Shuttles: the whole scheduler, and whole actor systems, in many random interleavings of their
# threads, others in each run. A run has three tenths of the schedules that the models ask for:
# LARS_SHUTTLE=20 ci/shuttle.sh tries twenty times as many as they ask for;
# LARS_SHUTTLE_REPLAY=<schedule> ci/shuttle.sh <test> reruns the one that a failure printed.
# ci/shuttle.sh NAME runs the models whose path contains NAME.
set -euo pipefail
cd "$(dirname "$0")/.."
export LARS_SHUTTLE="${LARS_SHUTTLE:-0.3}"
printf -- '--- %s times the schedules that the models ask for\n' "$LARS_SHUTTLE"
RUSTFLAGS="--cfg lars_shuttle -D warnings" cargo test --target-dir target/shuttle --profile loom \
    -p lars-scheduler -p lars-jobs -p mini-actor --lib -- "${1:-tests::shuttle}"
