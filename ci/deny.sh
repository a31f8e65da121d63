#!/usr/bin/env bash
# Licences, sources and duplicate versions of the dependencies. (Advisories are left out: their
# database has to be fetched from the network.) Installs cargo-deny if it is missing:
# unoptimised, because compiling it is what takes time here.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo deny --version >/dev/null 2>&1; then
    if [ "${CI_INSTALL_DENY:-1}" = 0 ] \
        || ! timeout 1200 cargo install --quiet --locked --debug --no-default-features \
            cargo-deny; then
        echo "!!!!! SKIPPED: cargo-deny cannot be had on this machine !!!!!"
        exit 0
    fi
fi
# Fetches what other platforms need, too: the check itself runs offline.
cargo fetch --quiet --locked
cargo deny --offline --all-features check bans licenses sources
