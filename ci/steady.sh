#!/usr/bin/env bash
# Looks for tests that fail once in a while: runs each test binary many times, alone, beside eight
# busy processes, and with threads held up at random (`ci/hold_up.c`; Linux with glibc and a C
# compiler), and prints a table of what failed. By hand: it takes hours.
#
#     ci/steady.sh                        every binary, 200 runs of each of the three kinds
#     ci/steady.sh 50                     50 of each
#     ci/steady.sh 200 mini-actor         the binaries whose name (package/target) contains this
#     ci/steady.sh 200 doc:               the examples of the documentation
#     HELD=0 ALONE=0 ci/steady.sh         only beside busy processes
#     TOGETHER=6 ALONE=0 ci/steady.sh     six runs at a time beside them, which takes less time
#     ALONE=0 BUSY=0 ci/steady.sh 10      only held up, which finds most in the least time
#
# PostgreSQL's tests are among them, and the examples of the documentation (`doc:`), which need the
# nightly toolchain: only there can a test runner be kept. A run that takes more than LIMIT seconds
# (600) has failed. The output of each failed run stays in target/steady; the exit status is 1 if
# there is one.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-200}
only=${2:-}
busy=${BUSY:-8}

out=${CARGO_TARGET_DIR:-target}/steady
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
# As many at a time as in `cargo test` (.cargo/config.toml).
export LARS_POSTGRES=1 LIMIT=${LIMIT:-600} OUT=$out RUST_TEST_THREADS=${RUST_TEST_THREADS:-8}

# The test binaries of a build: name, folder to run in, path.
binaries() {
    cargo test --no-run --message-format json "$@" | python3 -c '
import json, pathlib, sys
for line in sys.stdin:
    built = json.loads(line)
    if built.get("executable") and built["profile"]["test"]:
        folder = pathlib.Path(built["manifest_path"]).parent
        target = built["target"]
        print(folder.name + "/" + target["name"], folder, built["executable"])
'
}
# The examples of a package's documentation: the programs into which rustdoc puts them.
examples() {
    local kept=$out/doc/$1
    RUSTDOCFLAGS="-Zunstable-options --persist-doctests $kept" \
        CARGO_TARGET_DIR=$out/nightly cargo +nightly test --quiet --doc --all-features -p "$1" >&2
    find "$kept" -name rust_out | sort | while read -r path; do
        echo "doc:$1/$(basename "$(dirname "$path")") $PWD/$1 $path"
    done
}
# A copy of each, so that the tree can be built meanwhile.
mkdir "$out/bin"
if [[ $only != doc:* ]]; then
    binaries | while read -r name folder path; do
        if [[ $name == *"$only"* ]]; then
            cp "$path" "$out/bin"
            echo "$name $folder $out/bin/$(basename "$path")"
        fi
    done >"$out/binaries"
fi
for package in lars-{base,scheduler,jobs,bridges,durable,top,web} mini-actor examples; do
    if [[ doc:$package == *"$only"* ]]; then examples "$package"; fi
done >>"$out/binaries"

if [ ! -s "$out/binaries" ]; then
    echo "no binary has '$only' in its name" >&2
    exit 2
fi

# One run. What it printed stays only if it failed.
run() {
    read -r how name folder path number <<<"$1"
    export CARGO_MANIFEST_DIR=$folder
    cd "$folder"
    local log=$OUT/$how-${name//\//-}-$number.log begun=$SECONDS status=0
    # Those that need a server.
    local args=()
    case $name in
        doc:*) ;;
        *lars-durable/* | *lars-top/* | *lars-web/*) args=(--include-ignored) ;;
    esac
    export RUSTDOC_DOCTEST_BIN_PATH=$path
    LD_PRELOAD=${HOLD_UP:-} timeout "$LIMIT" "$path" "${args[@]}" >"$log" 2>&1 || status=$?
    echo "$how $name $status $((SECONDS - begun))" >>"$OUT/results"
    if ((status == 0)); then
        rm "$log"
    else
        echo "FAILED ($status): $how $name, $log"
        sed -n 's/^test \(.*\) \.\.\. FAILED$/    \1/p' "$log"
    fi
}
export -f run

# $1: alone, beside or held; $2: how many at a time. Round by round, so that early results count.
rounds() {
    local number name folder path
    for ((number = 1; number <= runs; number++)); do
        while read -r name folder path; do
            echo "$1 $name $folder $path $number"
        done <"$out/binaries"
    done | xargs -P "$2" -I '{}' bash -c 'run "$1"' run '{}'
}

table() {
    printf '\n| binary | runs alone | failed | beside | failed | held up | failed | longest, s |\n'
    printf '|---|--:|--:|--:|--:|--:|--:|--:|\n'
    awk '{ all[$2]; n[$2, $1]++; if ($3 != 0) bad[$2, $1]++; if ($4 > top[$2]) top[$2] = $4 }
        END { for (name in all) printf "| %s | %d | %d | %d | %d | %d | %d | %d |\n", name,
            n[name, "alone"], bad[name, "alone"], n[name, "beside"], bad[name, "beside"],
            n[name, "held"], bad[name, "held"], top[name] }' "$out/results" | sort
}

spinners=()
trap 'kill "${spinners[@]}" 2>/dev/null || true; table' EXIT
if [ "${ALONE:-1}" = 1 ]; then rounds alone 1; fi
if [ "${HELD:-1}" = 1 ]; then
    cc -O2 -shared -fPIC -o "$out/hold_up.so" ci/hold_up.c
    HOLD_UP=$out/hold_up.so rounds held 1
fi
if ((busy > 0)); then
    for ((i = 0; i < busy; i++)); do
        bash -c 'while :; do :; done' &
        spinners+=($!)
    done
    rounds beside "${TOGETHER:-1}"
fi
! awk '$3 != 0 { found = 1 } END { exit !found }' "$out/results"
