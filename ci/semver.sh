#!/usr/bin/env bash
# What has changed in the public interface since a release, and whether the versions in Cargo.toml allow it, by
# cargo-semver-checks. By hand, before a release, and not a part of ci/all.sh: between releases the interface may change.
#
#     ci/semver.sh             since the newest tag
#     ci/semver.sh 0123abcd    since this revision
set -euo pipefail
cd "$(dirname "$0")/.."

since=${1:-$(git tag --sort=-creatordate | head -n 1)}
if [ -z "$since" ]; then
    echo "There is no tag, so nothing has been released to compare with. A revision can be given: ci/semver.sh REVISION" >&2
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
# All features but those that begin with an underscore: that is how it chooses by itself.
cargo semver-checks --baseline-rev "$since" --package lars-scheduler --package mini-actor
