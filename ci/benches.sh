#!/usr/bin/env bash
# Builds the benches and the comparison, runs each for a moment, and makes a page of the results.
# Each checks its own results; no figure is judged here, so they are not compiled as for measuring.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo bench --profile brief -p benches -- --test
cargo test --profile brief -p benches --bins

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo run --quiet --profile brief -p benches --bin compare -- --quick --out "$out/results.json"
cp docs/benchmarks.md "$out"
cargo run --quiet --profile brief -p benches --bin compare -- \
    page "$out/results.json" "$out/benchmarks.md"
