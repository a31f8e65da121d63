#!/usr/bin/env bash
# The tests, as the README runs them, and the pages of lars-web in a browser. A crate's tests turn
# its features on, so this is one build; `ci/postgres.sh` runs what needs a server in the same one.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test
bash ci/web.sh
