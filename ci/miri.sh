#!/usr/bin/env bash
# Miri over the unit tests and the races, in groups.
#
#     ci/miri.sh                  all but `backpressure`
#     ci/miri.sh strict           of the parts of `strict` that one whose day it is
#     ci/miri.sh trees            the same of `trees`
#     ci/miri.sh mailbox by-hand  these parts
#     ci/miri.sh backpressure     its tests count tens of thousands of calls: by hand
#
# - strict: code without outside help, under strict provenance, with leaks reported. Two parts,
#   `scheduler` and `mailbox`. (parking_lot's locks turn integers into pointers; std's stand for
#   them here.)
# - trees: code that uses crossbeam's deque, under tree borrows, with neither: the deque's collector
#   turns integers into pointers and keeps garbage until the process ends. (The races count every
#   drop themselves.) Six parts, see `trees` below.
#
# Each day has another seed: other interleavings, and other values from weak memory. LARS_DAY=<n>
# repeats what the day of this number had.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! rustup component add --toolchain nightly miri rust-src >/dev/null 2>&1 \
    && ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "!!!!! SKIPPED: miri cannot be had on this machine !!!!!"
    exit 0
fi
export CARGO_TARGET_DIR=target/miri
# Miri takes seconds to print one, and some tests panic a hundred times on purpose.
export RUST_BACKTRACE=0
# Miri runs one thread at a time.
export RUST_TEST_THREADS=1

day=${LARS_DAY:-$(($(date +%s) / 86400))}
seed=-Zmiri-seed=$day

under_strict() {
    export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-strict-provenance $seed"
}

scheduler() {
    under_strict
    cargo +nightly miri test -p lars-scheduler --lib -- --skip pool:: --skip api::repeat:: \
        --skip timer_driver:: --skip by_hand::
}

mailbox() {
    under_strict
    cargo +nightly miri test -p lars-base --lib
    cargo +nightly miri test -p mini-actor --lib -- mailbox::
}

under_trees() {
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-permissive-provenance"
    export MIRIFLAGS="$MIRIFLAGS -Zmiri-ignore-leaks $seed"
}

by-hand() {
    under_trees
    cargo +nightly miri test -p lars-scheduler --lib -- \
        by_hand:: --skip by_hand::late:: --skip by_hand::wheels:: --skip backpressure::
}

backpressure() {
    under_trees
    cargo +nightly miri test -p lars-scheduler --lib -- backpressure::
}

units() {
    under_trees
    cargo +nightly miri test -p lars-scheduler --lib -- \
        pool:: api::repeat:: timer_driver:: by_hand::late:: by_hand::wheels::
    cargo +nightly miri test -p lars-jobs --lib
    cargo +nightly miri test -p mini-actor --lib -- cell:: dispatcher:: tests::turns:: \
        --skip very_many
}

handover() {
    under_trees
    cargo +nightly miri test -p lars-scheduler --test races -- handover:: together::
}

cancels() {
    under_trees
    cargo +nightly miri test -p lars-scheduler --test races -- cancel:: stress::
}

moves() {
    under_trees
    cargo +nightly miri test -p lars-scheduler --test races -- reset:: batch::
    cargo +nightly miri test -p mini-actor --test stress
}

crowds() {
    under_trees
    cargo +nightly miri test -p mini-actor --lib -- very_many
}

strict=(scheduler mailbox)
# By what they take, each a sixth.
trees=(by-hand cancels handover moves crowds units)

if (($# == 0)); then set -- "${strict[@]}" "${trees[@]}"; fi
for part in "$@"; do
    case $part in
        strict) part=${strict[day % ${#strict[@]}]} ;;
        trees) part=${trees[day % ${#trees[@]}]} ;;
    esac
    if [[ " ${strict[*]} ${trees[*]} backpressure " != *" $part "* ]]; then
        echo "the parts are strict (${strict[*]}), trees (${trees[*]}) and backpressure," \
            "not '$part'" >&2
        exit 2
    fi
    printf -- '--- day %d: %s\n' "$day" "$part"
    "$part"
done
