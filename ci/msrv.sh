#!/usr/bin/env bash
# Each crate compiles with the oldest Rust that its manifest states (`rust-version`), with all its
# features, and with the versions of its dependencies that Cargo.lock states.
set -euo pipefail
cd "$(dirname "$0")/.."

manifests() {
    cargo metadata --no-deps --format-version 1 | python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["publish"] is None:
        print(package["name"], package["rust_version"])'
}

while read -r crate version; do
    # The first release of a version has the patch number 0.
    toolchain="$version.0"
    if ! rustup toolchain list 2>/dev/null | grep -q "^$toolchain" \
        && ! timeout 300 rustup toolchain install --profile minimal "$toolchain" \
            >/dev/null 2>&1; then
        echo "!!!!! SKIPPED: Rust $toolchain cannot be had, so $crate was not checked with it !!!!!"
        continue
    fi
    printf -- '--- %s with Rust %s\n' "$crate" "$toolchain"
    cargo "+$toolchain" check --quiet --locked --all-features --target-dir "target/msrv-$version" \
        -p "$crate"
done < <(manifests)
