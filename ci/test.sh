#!/usr/bin/env bash
# The tests, as the README runs them, and once more with every feature. The crates must also compile
# with the minimal Rust version that Cargo.toml states; that is checked where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test
cargo test -p lars-scheduler --all-features --lib --tests

msrv=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
if rustup toolchain list 2>/dev/null | grep -q "^$msrv"; then
    toolchain=$(rustup toolchain list | sed -n "s/^\($msrv[^ ]*\).*/\1/p" | head -n 1)
    cargo "+$toolchain" check --target-dir target/msrv \
        -p lars-scheduler -p mini-actor -p lars-durable -p lars-top
else
    echo "!!!!! SKIPPED: Rust $msrv is not installed; $(rustc --version) was used !!!!!"
fi

# The examples check themselves.
for example in quickstart rate_vs_delay cancel_race graceful_close virtual_time daily_report \
    supervised_refresh lease_registry delay_queue_consumers election_timers async_timeouts \
    prometheus request_timeouts worker_pool actor_patterns testing_with_virtual_time; do
    cargo run --quiet --release -p examples --example "$example" >/dev/null
done
cargo run --quiet --release -p examples --example sessions -- --connections 200 --seconds 4
cargo run --quiet --release -p examples --example soak -- --seconds 5
