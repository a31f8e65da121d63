#!/usr/bin/env bash
# Clicks through lars-web's pages in headless Chromium: the example `shop_in_a_browser`, by mouse
# and keyboard, on a phone, in light and dark. Pictures of the pages are in target/web. Without
# Chromium or Node it says so loudly. Called by ci/test.sh, which has built the example.
set -euo pipefail
cd "$(dirname "$0")/.."

find_browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}
if ! find_browser >/dev/null; then bash ci/debian.sh chromium; fi
if ! browser=$(find_browser) || ! command -v node >/dev/null; then
    printf '!!!!! SKIPPED: the pages of lars-web need Chromium and Node !!!!!\n'
    exit 0
fi
shop=${CARGO_TARGET_DIR:-target}/debug/examples/shop_in_a_browser
if [ ! -x "$shop" ]; then cargo build --quiet -p lars-web --example shop_in_a_browser; fi
pictures=${CARGO_TARGET_DIR:-target}/web
mkdir -p "$pictures"
profile=$(mktemp -d)
# Its last processes may still be about to end.
trap 'rm -rf "$profile" 2>/dev/null || true' EXIT
options=(--headless --disable-gpu --no-first-run --user-data-dir="$profile")
# Chromium refuses its sandbox to root.
if [ "$(id -u)" = 0 ]; then options+=(--no-sandbox); fi
# It waits for as long as it takes; this ends one that hangs.
timeout 300 node ci/web.mjs "$shop" "$pictures" "$browser" "${options[@]}"
