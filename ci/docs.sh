#!/usr/bin/env bash
# The documentation builds without a warning, private items included, and its examples run
# (`cargo test` runs those of the default features).
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTDOCFLAGS="-D warnings"
cargo doc --no-deps --all-features -p lars-scheduler -p mini-actor -p lars-durable -p lars-top
cargo doc --no-deps --document-private-items --target-dir target/private-docs \
    -p lars-scheduler -p mini-actor
unset RUSTDOCFLAGS
cargo test --doc --all-features -p lars-scheduler
