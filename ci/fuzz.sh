#!/usr/bin/env bash
# Runs the fuzz targets for some seconds each, starting from the corpus of earlier runs
# (fuzz/corpus):
#
#     ci/fuzz.sh                         all of them, 10 s each: what CI does
#     ci/fuzz.sh 900 operations wheel    these two, 15 minutes each
#     ci/fuzz.sh keep                    adds the findings of the last runs to the corpus, minimised
#     ci/fuzz.sh keep wheel              the same for this target
#
# This is libFuzzer, guided by coverage, on the stable compiler. It needs a C++ compiler and nothing
# else. (`cargo fuzz` drives the same library, but needs a nightly compiler and an installation.)
# A failure prints the sequence that led to it and leaves its bytes in target/fuzz-found.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v c++ >/dev/null 2>&1; then
    echo "!!!!! SKIPPED: libFuzzer needs a C++ compiler, and there is none on this machine !!!!!"
    exit 0
fi

all=(operations wheel delay_queue cron settings)
target_dir=${CARGO_TARGET_DIR:-target}/fuzz
found=${CARGO_TARGET_DIR:-target}/fuzz-found
host=$(rustc -vV | sed -n 's/^host: //p')
# With a target of its own the flags do not reach build scripts.
flags="-Cpasses=sancov-module -Ccodegen-units=1 --cfg fuzzing"
for argument in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=" -Cllvm-args=-sanitizer-coverage-$argument"
done
RUSTFLAGS="$flags" cargo build --release --manifest-path fuzz/Cargo.toml \
    --target "$host" --target-dir "$target_dir"

options=(-max_len=2048 -timeout=20 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1)
for name in "${all[@]}"; do mkdir -p "$found/$name" "fuzz/corpus/$name"; done

if [ "${1:-}" = keep ]; then
    shift
    for name in "${@:-${all[@]}}"; do
        fresh=$(mktemp -d)
        "$target_dir/$host/release/$name" "${options[@]}" -use_counters=0 -merge=1 \
            "$fresh" "fuzz/corpus/$name" "$found/$name"
        rm -f "fuzz/corpus/$name"/*
        cp "$fresh"/* "fuzz/corpus/$name"
        rm -r "$fresh"
    done
    exit 0
fi

seconds=${1:-10}
shift || true
for name in "${@:-${all[@]}}"; do
    printf -- '--- %s for %s s\n' "$name" "$seconds"
    "$target_dir/$host/release/$name" "${options[@]}" -max_total_time="$seconds" \
        -artifact_prefix="$found/$name-" "$found/$name" "fuzz/corpus/$name"
done
