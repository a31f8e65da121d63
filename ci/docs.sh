#!/usr/bin/env bash
# The documentation builds without a warning, of five crates with private items. (`ci/test.sh` runs
# its examples.)
set -euo pipefail
cd "$(dirname "$0")/.."
# The folder in which clippy has checked the dependencies.
export CARGO_TARGET_DIR=target/lint RUSTDOCFLAGS="-D warnings"
cargo doc --no-deps --all-features --document-private-items \
    -p lars-base -p lars-scheduler -p lars-jobs -p lars-bridges -p mini-actor
cargo doc --no-deps --all-features -p lars-base -p lars-scheduler -p lars-jobs -p lars-bridges \
    -p mini-actor -p lars-durable -p lars-top -p lars-web
