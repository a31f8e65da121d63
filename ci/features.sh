#!/usr/bin/env bash
# Each crate's public features: none, each alone, each pair, and all. Clippy on the library alone,
# warnings denied. Tests are left out, because their dependencies turn features on. (`cargo hack`
# does the same, but has to be installed.)
set -euo pipefail
cd "$(dirname "$0")/.."
# A folder of its own: clippy builds other things than the tests, and would wait for their lock.
export CARGO_TARGET_DIR=target/lint

# The features of a crate, without `default` and those that are not part of the interface.
features() {
    cargo metadata --no-deps --format-version 1 | python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == sys.argv[1]:
        names = (name for name in package["features"] if name != "default")
        print(*(name for name in names if not name.startswith("__")))' "$1"
}

for crate in lars-base lars-scheduler lars-jobs lars-bridges mini-actor lars-durable lars-top \
    lars-web; do
    read -ra all <<<"$(features "$crate")"
    for ((subset = 0; subset < 1 << ${#all[@]}; subset++)); do
        chosen=()
        for ((bit = 0; bit < ${#all[@]}; bit++)); do
            if ((subset >> bit & 1)); then chosen+=("${all[bit]}"); fi
        done
        # (Every combination of many features takes longer than what it finds is worth.)
        if ((${#chosen[@]} > 2 && ${#chosen[@]} < ${#all[@]})); then continue; fi
        printf -- '--- %s: %s\n' "$crate" "${chosen[*]:-none}"
        cargo clippy --quiet -p "$crate" --lib --no-default-features \
            --features "${chosen[*]:-}" -- -D warnings
    done
done
