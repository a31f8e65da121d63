#!/usr/bin/env bash
# Miri over the small race tests with many seeds. Each seed is another interleaving, and another
# choice among the values that weak memory may show. It uses tree borrows, as `ci/miri.sh` does for
# the races.
# By hand: a seed takes one to three minutes.
#
#     ci/miri-long.sh            seeds 0 to 31
#     ci/miri-long.sh 100 200    seeds 100 to 199
set -euo pipefail
cd "$(dirname "$0")/.."
if ! rustup component add --toolchain nightly miri rust-src >/dev/null 2>&1 \
    && ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "!!!!! SKIPPED: miri cannot be had on this machine !!!!!"
    exit 0
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri RUST_TEST_THREADS=1
from=${1:-0} to=${2:-32}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for ((seed = from; seed < to; seed++)); do
    start=$SECONDS
    # Preempt often: the default of 1 % rarely interrupts a push. (`ci/miri.sh` says why provenance
    # and leaks are not checked.)
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-permissive-provenance \
        -Zmiri-ignore-leaks -Zmiri-preemption-rate=0.05 -Zmiri-seed=$seed" \
        cargo +nightly miri test --quiet -p lars-scheduler \
        --test races -- race many_threads --skip repeat:: --skip together:: --skip handover:: \
        >"$log" 2>&1 || { cat "$log"; echo "seed $seed FAILED"; exit 1; }
    echo "seed $seed passed in $((SECONDS - start)) s"
done
