#!/usr/bin/env bash
# The public features of each crate: none, each alone, each pair, and all; clippy on the library alone, with warnings
# denied. Tests are left out, for what they depend on turns features on. (`cargo hack` could do it, where it is installed;
# a loop needs nothing.)
set -euo pipefail
cd "$(dirname "$0")/.."

# The features by crate, but for `default` and those that are no part of the interface.
features() {
    cargo metadata --no-deps --format-version 1 | python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == sys.argv[1]:
        print(*(name for name in package["features"] if name != "default" and not name.startswith("__")))' "$1"
}

for crate in lars-scheduler mini-actor lars-durable; do
    read -ra all <<<"$(features "$crate")"
    for ((subset = 0; subset < 1 << ${#all[@]}; subset++)); do
        chosen=()
        for ((bit = 0; bit < ${#all[@]}; bit++)); do
            if ((subset >> bit & 1)); then chosen+=("${all[bit]}"); fi
        done
        # (Every combination of many features takes longer than what it finds is worth.)
        if ((${#chosen[@]} > 2 && ${#chosen[@]} < ${#all[@]})); then continue; fi
        printf -- '--- %s: %s\n' "$crate" "${chosen[*]:-none}"
        cargo clippy --quiet -p "$crate" --lib --no-default-features --features "${chosen[*]:-}" -- -D warnings
    done
done
