#!/usr/bin/env bash
# Breaks the code in one place after another, with cargo-mutants, and lists the breaks that no test
# notices. By hand: each mutant costs a build and a run of the tests that judge it.
#
#     ci/mutants.sh mini-actor                                         the whole crate
#     ci/mutants.sh mini-actor mini-actor/src/mailbox/*.rs             these files
#     TESTS="--lib --test it" ci/mutants.sh mini-actor FILE...         judged by these tests alone
#     JUDGE=loom ci/mutants.sh mini-actor mini-actor/src/mailbox/*.rs  judged by the models
#     JUDGE=shuttle ci/mutants.sh mini-actor FILE...                   judged by the shuttles
#     OPTIONS="--shard 0/4" ci/mutants.sh mini-actor FILE...           options for cargo-mutants
#     LIMIT=20 ci/mutants.sh mini-actor FILE...                        seconds for each mutant
#
# Begin with the tests: all of the crate's, except those in its documentation. A mutant that
# survives them may be an ordering, a fence or a wake-up that only a race needs: give its file to
# loom or shuttle, and look at what survives both. A mutant that exceeds the time limit counts as
# noticed, because a lost wake-up hangs.
#
# The survivors are in target/mutants/mutants.out/missed.txt. Of them docs/data/mutants-survived.csv
# has those that are accepted, and why.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
    sed -n '2,/^set /p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
    exit 2
fi
if ! cargo mutants --version >/dev/null 2>&1 \
    && ! timeout 1800 cargo install --quiet --locked cargo-mutants; then
    echo "!!!!! SKIPPED: cargo-mutants cannot be had on this machine !!!!!"
    exit 0
fi

crate=$1
shift
read -ra more <<<"${OPTIONS:-}"
files=()
for file in "$@"; do files+=(--file "$file"); done

options=(--package "$crate")
options+=(--output target/mutants --no-shuffle --timeout "${LIMIT:-90}")
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
# Build only what is run: linking all tests takes longer than running them.
for target in "${targets[@]}"; do options+=("--cargo-arg=$target"); done
cargo mutants "${options[@]}" "${more[@]}" "${files[@]}" "${tests[@]}"
