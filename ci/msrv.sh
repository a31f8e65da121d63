#!/usr/bin/env bash
# The crates compile with the oldest Rust that their manifests state (`rust-version`), with all
# their features, and with the versions of their dependencies that Cargo.lock states. With the
# newest of those, which the README names, its two commands compile too: the example, and the tests.
# Where that toolchain cannot be had, there remains what the dependencies themselves state.
set -euo pipefail
cd "$(dirname "$0")/.."

python3 ci/rust_versions.py

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
        echo "!!!!! SKIPPED: Rust $toolchain cannot be had, so nothing was compiled: $crates !!!!!"
        continue
    fi
    check=(cargo "+$toolchain" check --quiet --locked --target-dir "target/msrv-$version")
    if [ "$version" = "$newest" ]; then
        "${check[@]}" -p examples --example sessions
        "${check[@]}" --tests
        # Without a crate of its name, cargo takes those whose tests `cargo test` runs.
        crates="--lib --bins --tests"
    fi
    printf -- '--- Rust %s: %s\n' "$toolchain" "$crates"
    # shellcheck disable=SC2086 # the words
    "${check[@]}" --all-features $crates
done < <(manifests)
