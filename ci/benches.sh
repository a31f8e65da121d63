#!/usr/bin/env bash
# Builds the benches and the comparison, runs each for a moment, and makes a page of the results.
# Each checks its own results; no figure is judged here.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo bench -p benches -- --test
# In release, where the crates that are compared have been built already.
cargo test --release -p benches --bins

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo run --quiet --release -p benches --bin compare -- --quick --out "$out/results.json"
cp docs/benchmarks.md "$out"
cargo run --quiet --release -p benches --bin compare -- \
    page "$out/results.json" "$out/benchmarks.md"
