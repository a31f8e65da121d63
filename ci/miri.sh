#!/usr/bin/env bash
# Miri over the unit tests and the races, in groups.
#
#     ci/miri.sh                  all of them
#     ci/miri.sh strict           this one
#     ci/miri.sh trees            the third of that group whose day it is
#     ci/miri.sh scheduler-trees  one third: or of races, or of actor-trees
#     ci/miri.sh backpressure     its tests count tens of thousands of calls: by hand
#
# - strict: code without outside help, under strict provenance, with leaks reported.
#   (parking_lot's locks turn integers into pointers; std's stand for them here.)
# - trees: code that uses crossbeam's deque, under tree borrows, with neither: the deque's collector
#   turns integers into pointers and keeps garbage until the process ends. (The races count every
#   drop themselves.)
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

strict() {
    export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-strict-provenance"
    cargo +nightly miri test -p lars-base --lib
    cargo +nightly miri test -p lars-scheduler --lib -- --skip pool:: --skip api::repeat:: \
        --skip timer_driver:: --skip by_hand::
    cargo +nightly miri test -p mini-actor --lib -- mailbox::
}

under_trees() {
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-permissive-provenance"
    export MIRIFLAGS="$MIRIFLAGS -Zmiri-ignore-leaks"
}

scheduler-trees() {
    under_trees
    cargo +nightly miri test -p lars-scheduler --lib -- \
        pool:: api::repeat:: timer_driver:: by_hand:: --skip backpressure::
    cargo +nightly miri test -p lars-scheduler --test races -- handover:: together:: batch::
}

races() {
    under_trees
    cargo +nightly miri test -p lars-scheduler --test races -- cancel:: reset:: stress::
}

backpressure() {
    under_trees
    cargo +nightly miri test -p lars-scheduler --lib -- backpressure::
}

actor-trees() {
    under_trees
    cargo +nightly miri test -p lars-jobs --lib
    cargo +nightly miri test -p mini-actor --lib -- \
        cell:: dispatcher:: tests::turns::
    cargo +nightly miri test -p mini-actor --test stress
}

trees() {
    local thirds=(scheduler-trees races actor-trees)
    "${thirds[$(date +%s) / 86400 % 3]}"
}

if (($# == 0)); then set -- strict scheduler-trees races actor-trees backpressure; fi
for group in "$@"; do
    case $group in
        strict | trees | scheduler-trees | races | actor-trees | backpressure) "$group" ;;
        *)
            echo "the groups are strict, trees, scheduler-trees, races, actor-trees and" \
                "backpressure, not '$group'" >&2
            exit 2
            ;;
    esac
done
