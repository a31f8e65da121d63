#!/usr/bin/env bash
# Formatting, clippy with warnings denied, and the rules that neither of them knows.
set -euo pipefail
cd "$(dirname "$0")/.."
rustup component add rustfmt clippy >/dev/null 2>&1 || true
# A folder of its own: clippy builds other things than the tests, and would wait for their lock.
export CARGO_TARGET_DIR=target/lint

cargo fmt --all --check
cargo fmt --manifest-path fuzz/Cargo.toml --check
cargo fmt --manifest-path examples/wasm/Cargo.toml --check
cargo fmt --manifest-path benches/durable-peers/Cargo.toml --check
cargo clippy --workspace --all-targets --all-features -- -D warnings
# The code as the model checker sees it, and as the randomised scheduler does.
RUSTFLAGS="--cfg lars_loom" cargo clippy --target-dir target/loom \
    -p lars-base -p lars-scheduler -p mini-actor --lib --profile loom -- -D warnings
RUSTFLAGS="--cfg lars_shuttle" cargo clippy --target-dir target/shuttle \
    -p lars-base -p lars-scheduler -p lars-jobs -p mini-actor --lib --profile loom -- -D warnings \
    -A clippy::result_large_err -A clippy::large_enum_variant # its atomics are large
python3 ci/tidy.py
python3 ci/figures.py --check
