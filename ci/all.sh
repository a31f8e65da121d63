#!/usr/bin/env bash
# Every check, one after another; each is a script that can also be run alone. A step whose tools
# are not installed and cannot be fetched says so loudly and is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
steps=(lint test docs features msrv targets loom shuttle miri fuzz durable postgres benches deny)
for step in "${steps[@]}"; do
    printf '\n===== %s =====\n' "$step"
    start=$SECONDS
    if bash "ci/$step.sh"; then
        printf '===== %s: passed in %d s =====\n' "$step" $((SECONDS - start))
    else
        printf '===== %s: FAILED after %d s =====\n' "$step" $((SECONDS - start))
        failed+=("$step")
    fi
done

if ((${#failed[@]} > 0)); then
    printf '\nFAILED: %s\n' "${failed[*]}"
    exit 1
fi
printf '\nAll steps passed.\n'
