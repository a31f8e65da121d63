#!/usr/bin/env bash
# The tests, as the README runs them, and once more with every feature; the examples.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test
cargo test -p lars-scheduler --all-features --lib --tests
cargo test -p mini-actor --features serde --test serde

# The examples check themselves.
for example in quickstart rate_vs_delay cancel_race graceful_close virtual_time daily_report \
    supervised_refresh lease_registry delay_queue_consumers election_timers async_timeouts \
    prometheus request_timeouts worker_pool actor_patterns testing_with_virtual_time; do
    cargo run --quiet --release -p examples --example "$example" >/dev/null
done
cargo run --quiet --release -p examples --example sessions -- --connections 200 --seconds 4
cargo run --quiet --release -p examples --example soak -- --seconds 5
