#!/usr/bin/env bash
# Breaks the code in one place after the other, with cargo-mutants, and says which breaks no test notices. By hand: a
# mutant takes as long as it takes to build and run what judges it.
#
#     ci/mutants.sh mini-actor                                         the whole crate
#     ci/mutants.sh mini-actor mini-actor/src/mailbox/*.rs             these files
#     TESTS="--lib --test threads" ci/mutants.sh mini-actor FILE...    judged by these tests alone
#     JUDGE=loom ci/mutants.sh mini-actor mini-actor/src/mailbox/*.rs  judged by the models
#     JUDGE=shuttle ci/mutants.sh mini-actor FILE...                   judged by the shuttles
#     OPTIONS="--shard 0/4" LIMIT=20 ci/mutants.sh mini-actor FILE...  more for cargo-mutants; seconds for a mutant
#
# Begin with the tests, which are all of the crate's but for those in its documentation. What survives them may be an
# ordering, a fence or a wake-up that only a race needs: give its file to loom, or to shuttle, and look at what survives
# both. A mutant that runs into the time limit counts as noticed: a wake-up that is lost is one that hangs.
#
# What is left is in target/mutants/mutants.out/missed.txt. docs/testing.md lists what may be left, and why.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
    sed -n '2,/^set /p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
    exit 2
fi
if ! cargo mutants --version >/dev/null 2>&1 && ! timeout 1800 cargo install --quiet --locked cargo-mutants; then
    echo "!!!!! SKIPPED: cargo-mutants cannot be had on this machine !!!!!"
    exit 0
fi

crate=$1
shift
read -ra more <<<"${OPTIONS:-}"
files=()
for file in "$@"; do files+=(--file "$file"); done

options=(--package "$crate" --output target/mutants --no-shuffle --timeout "${LIMIT:-90}" --all-features)
mkdir -p target/mutants
case ${JUDGE:-tests} in
    tests)
        read -ra targets <<<"${TESTS:---lib --tests}"
        tests=()
        ;;
    loom)
        export RUSTFLAGS="--cfg lars_loom ${RUSTFLAGS:-}"
        options+=(--profile loom)
        targets=(--lib)
        tests=(-- -- models tests::loom)
        ;;
    shuttle)
        export RUSTFLAGS="--cfg lars_shuttle ${RUSTFLAGS:-}"
        options+=(--profile loom)
        targets=(--lib)
        tests=(-- -- tests::shuttle)
        ;;
    *)
        echo "JUDGE is tests, loom or shuttle, not '$JUDGE'" >&2
        exit 2
        ;;
esac
# What is built is what is run: to link all tests takes longer than to run them.
for target in "${targets[@]}"; do options+=("--cargo-arg=$target"); done
cargo mutants "${options[@]}" "${more[@]}" "${files[@]}" "${tests[@]}"
