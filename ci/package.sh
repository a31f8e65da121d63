#!/usr/bin/env bash
# Packages each crate as a registry would get it, without compiling it, and looks at what is in it:
# what a registry's page shows, both licences, a README whose links work away from this tree, and no
# source that includes a file from outside. It asks the registry for the dependencies' versions.
set -euo pipefail
cd "$(dirname "$0")/.."
crates=(lars-base lars-scheduler lars-jobs lars-bridges mini-actor lars-durable lars-top
    lars-web)
cargo package --quiet --no-verify --allow-dirty "${crates[@]/#/-p}"
exec python3 ci/package.py "${crates[@]}"
