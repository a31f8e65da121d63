#!/usr/bin/env bash
# The tests, as the README runs them, and the pages of lars-web in a browser; then the tests again
# with all features. Of the second run, those that need a server are left to `ci/postgres.sh`, and
# so are those that it runs in the same build; and what `ci/durable.sh` does with more. Every third
# day the documentation's examples run with all features, too.
set -euo pipefail
cd "$(dirname "$0")/.."
day=${LARS_DAY:-$(($(date +%s) / 86400))}

cargo test
bash ci/web.sh
cargo test --all-features --lib --bins --tests -- \
    --skip postgres:: --skip conformance:: --skip durable:: --skip exhaustive:: --skip power:: \
    --skip simulation:: --skip kill::nothing_is_lost
if ((day % 3 == 0)); then
    printf -- '--- day %d: examples of the documentation, with all features\n' "$day"
    cargo test --all-features --doc
fi
