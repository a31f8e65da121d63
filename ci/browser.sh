#!/usr/bin/env bash
# Opens examples/wasm/page.html in headless Chromium: its timers, a debounce and an actor, turned by
# the browser's own timers. Without Chromium it says so loudly. Called by ci/targets.sh.
#
#     ci/browser.sh wasm.wasm
set -euo pipefail
module=$(realpath "$1")
cd "$(dirname "$0")/../examples/wasm"

find_browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}
if ! find_browser >/dev/null; then bash ../../ci/debian.sh chromium; fi
if ! browser=$(find_browser); then
    printf '!!!!! SKIPPED: the page for wasm needs Chromium !!!!!\n'
    exit 0
fi
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
options=(--headless --disable-gpu --no-first-run --user-data-dir="$profile")
# Chromium refuses its sandbox to root.
if [ "$(id -u)" = 0 ]; then options+=(--no-sandbox); fi
# The page waits for as long as it takes; this ends one that hangs.
timeout 300 node open.mjs "$module" "$browser" "${options[@]}"
