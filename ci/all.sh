#!/usr/bin/env bash
# Every check; each is a script that can also be run alone. A step whose tools are not installed and
# cannot be fetched says so loudly and is skipped. The steps run one after another, except Miri: it
# keeps one core busy for as long as half of the others take, so it runs beside them, and its output
# comes last. With DROP_BUILDS=1 a step's builds go when no later step uses them.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
# $1: the step, $2: whether it passed, $3: the seconds it took
report() {
    if "$2"; then
        printf '===== %s: passed in %d s =====\n' "$1" "$3"
    else
        printf '===== %s: FAILED after %d s =====\n' "$1" "$3"
        failed+=("$1")
    fi
}

# The builds that no step after this one uses.
builds_of() {
    case "$1" in
        docs) echo target/doc target/private-docs ;;
        loom | shuttle | fuzz | targets) echo "target/$1" ;;
        postgres) echo target/debug ;;
        benches) echo target/release ;;
        msrv) echo target/msrv-* ;;
    esac
}

miri_log=$(mktemp)
bash ci/miri.sh >"$miri_log" 2>&1 &
miri=$!
trap 'kill "$miri" 2>/dev/null || true; rm -f "$miri_log"' EXIT

steps=(lint test docs features loom shuttle fuzz durable postgres benches msrv targets deny)
for step in "${steps[@]}"; do
    printf '\n===== %s =====\n' "$step"
    start=$SECONDS
    if bash "ci/$step.sh"; then passed=true; else passed=false; fi
    report "$step" "$passed" $((SECONDS - start))
    if [ "${DROP_BUILDS:-0}" = 1 ]; then
        # shellcheck disable=SC2046 # several paths
        rm -rf $(builds_of "$step")
    fi
done

printf '\n===== miri, which ran beside the others =====\n'
if wait "$miri"; then passed=true; else passed=false; fi
cat "$miri_log"
report miri "$passed" "$SECONDS"

if ((${#failed[@]} > 0)); then
    printf '\nFAILED: %s\n' "${failed[*]}"
    exit 1
fi
printf '\nAll steps passed.\n'
