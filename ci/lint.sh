#!/usr/bin/env bash
# Formatting, clippy with warnings denied, and the rules that neither of them knows.
set -euo pipefail
cd "$(dirname "$0")/.."
rustup component add rustfmt clippy >/dev/null 2>&1 || true

cargo fmt --all --check
cargo fmt --manifest-path fuzz/Cargo.toml --check
cargo clippy --workspace --all-targets --all-features -- -D warnings
# The code as the model checker sees it.
RUSTFLAGS="--cfg lars_loom" cargo clippy --target-dir target/loom \
    -p lars-scheduler -p mini-actor --lib --profile loom -- -D warnings
python3 ci/tidy.py
