#!/usr/bin/env bash
# The pages of docs/ as a book: target/book/index.html. By hand, because it needs mdBook, which it
# installs if it is missing. `ci/tidy.py` checks the links, and that docs/SUMMARY.md has every page.
# (Links from a page to a file outside of docs/ work in the repository, and not in the book.)
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v mdbook >/dev/null; then
    if ! timeout 1800 cargo install --quiet --locked --no-default-features mdbook; then
        echo "!!!!! SKIPPED: mdBook cannot be had on this machine !!!!!"
        exit 0
    fi
fi
mdbook build
echo "target/book/index.html"
