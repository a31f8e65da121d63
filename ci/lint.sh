#!/usr/bin/env bash
# Formatting, clippy with warnings denied, and the rules that neither of them knows. Of the code as
# the model checker sees it, and as the randomised scheduler does, each day has one:
#
#     ci/lint.sh              with the one of the day
#     ci/lint.sh loom         with this one
#     ci/lint.sh loom shuttle with both
set -euo pipefail
cd "$(dirname "$0")/.."
rustup component add rustfmt clippy >/dev/null 2>&1 || true
# A folder of its own: clippy builds other things than the tests, and would wait for their lock.
export CARGO_TARGET_DIR=target/lint

cargo fmt --all --check
cargo fmt --manifest-path fuzz/Cargo.toml --check
cargo fmt --manifest-path examples/wasm/Cargo.toml --check
cargo fmt --manifest-path benches/durable-peers/Cargo.toml --check
cargo clippy --workspace --all-targets --all-features -- -D warnings
views=(loom shuttle)
day=${LARS_DAY:-$(($(date +%s) / 86400))}
if (($# == 0)); then set -- "${views[day % 2]}"; fi
for view in "$@"; do
    printf -- '--- day %d: the code as %s sees it\n' "$day" "$view"
    packages=(-p lars-base -p lars-scheduler -p mini-actor)
    options=(-D warnings)
    if [ "$view" = shuttle ]; then
        packages+=(-p lars-jobs)
        # Its atomics are large.
        options+=(-A clippy::result_large_err -A clippy::large_enum_variant)
    fi
    RUSTFLAGS="--cfg lars_$view" cargo clippy --target-dir "target/$view" \
        "${packages[@]}" --lib --profile loom -- "${options[@]}"
done
python3 ci/tidy.py
python3 ci/figures.py --check
