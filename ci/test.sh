#!/usr/bin/env bash
# The tests, as the README runs them; then again with all features and with three times as many
# random sequences as a newcomer waits for. (The second build is the one of `ci/postgres.sh`, which
# runs the tests that need a server.)
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test
LARS_STRESS=3 cargo test --all-features --lib --bins --tests -- --skip postgres::
cargo test --all-features --doc
