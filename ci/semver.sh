#!/usr/bin/env bash
# Compares the public interface of all crates with the last release, by cargo-semver-checks, and
# says whether the versions in Cargo.toml allow the changes: whoever breaks something raises them.
# What cannot be compared is said loudly and skipped; before the first release, that is everything.
#
#     ci/semver.sh             since the newest tag
#     ci/semver.sh 0123abcd    since this revision
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
    printf '!!!!! SKIPPED: %s !!!!!\n' "$1"
}

since=${1:-$(git tag --sort=-creatordate | head -n 1)}
if [ -z "$since" ]; then
    skip "nothing is published, so there is no tag to compare with; or name a revision"
    exit 0
fi
if ! git rev-parse --quiet --verify "$since^{commit}" >/dev/null; then
    echo "There is no revision $since to compare with." >&2
    exit 2
fi

packages=()
for crate in lars-base lars-scheduler lars-jobs lars-bridges mini-actor lars-durable lars-top \
    lars-web; do
    if git cat-file -e "$since:$crate/Cargo.toml" 2>/dev/null; then
        packages+=(--package "$crate")
    else
        skip "there is no $crate at $since to compare with"
    fi
done
if [ ${#packages[@]} = 0 ]; then exit 0; fi

if ! cargo semver-checks --version >/dev/null 2>&1 \
    && ! timeout 1800 cargo install --quiet --locked cargo-semver-checks; then
    skip "cargo-semver-checks cannot be had on this machine"
    exit 0
fi
# By default it checks all features except those that begin with an underscore.
cargo semver-checks --baseline-rev "$since" "${packages[@]}"
