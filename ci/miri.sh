#!/usr/bin/env bash
# Miri over the unit tests and the races, in two groups. Code without outside help runs under strict
# provenance, with leaks reported. Code that uses crossbeam's deque or waits on parking_lot's lock
# runs under tree borrows, with neither: the deque's collector turns integers into pointers and
# keeps garbage until the process ends. (The races count every drop themselves.)
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

export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-strict-provenance"
cargo +nightly miri test -p lars-scheduler --lib -- \
    --skip pool:: --skip api::repeat:: --skip when_due:: --skip timer_driver:: --skip by_hand::
cargo +nightly miri test -p mini-actor --lib -- \
    mailbox:: --skip wait_for_room --skip messages_of_two_threads

MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-permissive-provenance"
MIRIFLAGS+=" -Zmiri-ignore-leaks"
cargo +nightly miri test -p lars-scheduler --lib -- \
    pool:: api::repeat:: when_due:: timer_driver:: by_hand::
cargo +nightly miri test -p lars-scheduler \
    --test stress --test cancel --test reset --test batch --test together --test handover
cargo +nightly miri test -p mini-actor --lib -- \
    wait_for_room messages_of_two_threads cell:: dispatcher:: tests::turns::
cargo +nightly miri test -p mini-actor --test stress
