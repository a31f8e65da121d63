#!/usr/bin/env bash
# Compares the public interface with a release, by cargo-semver-checks, and says whether the
# versions in Cargo.toml allow the changes. By hand, before a release, and not part of ci/all.sh:
# between releases the interface may change.
#
#     ci/semver.sh             since the newest tag
#     ci/semver.sh 0123abcd    since this revision
set -euo pipefail
cd "$(dirname "$0")/.."

since=${1:-$(git tag --sort=-creatordate | head -n 1)}
if [ -z "$since" ]; then
    echo "There is no tag to compare with. Name a revision: ci/semver.sh REVISION" >&2
    exit 2
fi
if ! git rev-parse --quiet --verify "$since^{commit}" >/dev/null; then
    echo "There is no revision $since to compare with." >&2
    exit 2
fi
if ! cargo semver-checks --version >/dev/null 2>&1 \
    && ! timeout 1800 cargo install --quiet --locked cargo-semver-checks; then
    echo "!!!!! SKIPPED: cargo-semver-checks cannot be had on this machine !!!!!"
    exit 0
fi
# By default it checks all features except those that begin with an underscore.
cargo semver-checks --baseline-rev "$since" --package lars-base --package lars-scheduler \
    --package lars-jobs --package lars-bridges --package mini-actor
