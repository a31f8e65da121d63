#!/usr/bin/env bash
# The tests, as the README runs them, and the pages of lars-web in a browser; then the tests again
# with all features and with three times as many random sequences as a newcomer waits for. (The
# second build is the one of `ci/postgres.sh`, which runs the tests that need a server.)
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test
bash ci/web.sh
LARS_STRESS=3 cargo test --all-features --lib --bins --tests -- --skip postgres::
cargo test --all-features --doc
