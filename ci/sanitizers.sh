#!/usr/bin/env bash
# The address, leak and thread sanitizers over the races, the faults and the model of operations.
# By hand, and not part of ci/all.sh: it takes some minutes and a nightly compiler, and the thread
# sanitizer also needs std's sources.
#
#     ci/sanitizers.sh                   all three
#     LARS_STRESS=10 ci/sanitizers.sh thread
#
# Nothing is suppressed. (The thread sanitizer does not understand fences. The crate publishes no
# data through them, and crossbeam's deque has its own remedy.)
set -euo pipefail
cd "$(dirname "$0")/.."

if ! rustc +nightly --version >/dev/null 2>&1; then
    echo "!!!!! SKIPPED: the sanitizers need a nightly compiler, and none is installed !!!!!"
    exit 0
fi
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
case $host in
    x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) ;;
    *)
        echo "!!!!! SKIPPED: no sanitizers for $host !!!!!"
        exit 0
        ;;
esac

tests=(--test races --test faults --test model)
# These limit the address space, of which a sanitizer needs terabytes, or wait for an abort.
skips=(--skip out_of_memory --skip where_no_thread)
if (($# == 0)); then set -- address leak thread; fi
for sanitizer in "$@"; do
    printf -- '--- %s\n' "$sanitizer"
    build=()
    if [ "$sanitizer" = thread ]; then
        # Without its own std every use of an Arc or a channel would be reported.
        if ! rustup component add --toolchain nightly rust-src >/dev/null 2>&1 \
            && [ ! -d "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library" ]; then
            echo "!!!!! SKIPPED: the thread sanitizer needs rust-src, which cannot be had !!!!!"
            continue
        fi
        build=(-Zbuild-std)
    fi
    RUSTFLAGS="-Zsanitizer=$sanitizer" RUSTDOCFLAGS="" \
        TSAN_OPTIONS="halt_on_error=1" \
        cargo +nightly test "${build[@]}" --release --target "$host" \
        --target-dir "${CARGO_TARGET_DIR:-target}/sanitizer-$sanitizer" \
        -p lars-scheduler "${tests[@]}" -- "${skips[@]}"
done
