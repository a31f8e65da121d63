#!/usr/bin/env bash
# The crates compile with the oldest Rust that their manifests state (`rust-version`), with all
# their features, and with the versions of their dependencies that Cargo.lock states. With the
# newest of those, which the README names, their tests compile too.
set -euo pipefail
cd "$(dirname "$0")/.."

# A line for each version: the version, and the crates that state it. The newest comes last.
manifests() {
    cargo metadata --no-deps --format-version 1 | python3 -c '
import collections, json, sys
crates = collections.defaultdict(list)
for package in json.load(sys.stdin)["packages"]:
    if package["publish"] is None:
        crates[package["rust_version"]].append("-p " + package["name"])
for version in sorted(crates, key=lambda text: [int(part) for part in text.split(".")]):
    print(version, *crates[version])'
}

newest=$(manifests | tail -n 1 | cut -d ' ' -f 1)
while read -r version crates; do
    # The first release of a version has the patch number 0.
    toolchain="$version.0"
    if ! rustup toolchain list 2>/dev/null | grep -q "^$toolchain" \
        && ! timeout 300 rustup toolchain install --profile minimal "$toolchain" \
            >/dev/null 2>&1; then
        echo "!!!!! SKIPPED: Rust $toolchain cannot be had, so it was not checked: $crates !!!!!"
        continue
    fi
    # Without a crate of its name, cargo takes those whose tests `cargo test` runs.
    if [ "$version" = "$newest" ]; then crates="--lib --bins --tests"; fi
    printf -- '--- Rust %s: %s\n' "$toolchain" "$crates"
    # shellcheck disable=SC2086 # the words
    cargo "+$toolchain" check --quiet --locked --all-features --target-dir "target/msrv-$version" \
        $crates
done < <(manifests)
