#!/usr/bin/env bash
# For every day: what was touched since a revision (main, or HEAD on main), with what is not yet
# committed. Formatting, ci/tidy.py, ci/figures.py; for each crate with a touched file clippy and
# tests, without the examples of the documentation.
#
#     ci/quick.sh             since main
#     ci/quick.sh HEAD~3      since that revision
#
# It is meant to take three minutes once the dependencies are built. ci/all.sh decides.
set -euo pipefail
cd "$(dirname "$0")/.."
since=${1:-$(git merge-base HEAD main 2>/dev/null || echo HEAD)}

touched=$({ git diff --name-only "$since"; git ls-files --others --exclude-standard; } | sort -u)
if [ -z "$touched" ]; then
    echo "nothing was touched since $since"
    exit 0
fi

cargo fmt --all --check
python3 ci/tidy.py
python3 ci/figures.py --check

# The packages of the workspace with a touched file.
packages=$(cargo metadata --no-deps --format-version 1 | TOUCHED="$touched" python3 -c '
import json, os, pathlib, sys
metadata = json.load(sys.stdin)
touched = os.environ["TOUCHED"].splitlines()
for package in metadata["packages"]:
    folder = pathlib.Path(package["manifest_path"]).parent
    folder = str(folder.relative_to(metadata["workspace_root"])) + "/"
    if any(name.startswith(folder) and not name.endswith(".md") for name in touched):
        print(package["name"])')
for package in $packages; do
    printf -- '--- %s\n' "$package"
    cargo clippy --quiet -p "$package" --all-targets -- -D warnings
    if [ "$package" = benches ]; then continue; fi
    cargo test --quiet -p "$package" --lib --bins --tests
done
echo "Passed: $(wc -w <<<"$packages") packages."
