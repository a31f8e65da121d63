#!/usr/bin/env bash
# The benches build and run, each for a moment: they check their own results. No figure is judged here.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo bench -p benches -- --test
