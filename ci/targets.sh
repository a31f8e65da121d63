#!/usr/bin/env bash
# Platforms other than this machine's: five of the crates compile for them. The tests run as 32-bit
# programs, as Windows programs by Wine, and some by Miri on a big-endian machine: each has a day
# of six. On the day of the last, the module for wasm runs in Node and in Chromium, too. What cannot
# be had here is said loudly and skipped.
#
#     ci/targets.sh               what all days have, and the platform of the day, if it has one
#     ci/targets.sh all           all three platforms, and the module
#     ci/targets.sh windows       this one: 32-bit, windows or big-endian
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=target/targets
# A 32-bit program has little memory, and Wine has one server.
export RUST_TEST_THREADS=2
platforms=(32-bit windows big-endian)
# On the other days `ci/all.sh` has other steps.
of_days=(none big-endian none 32-bit none windows)
crates=(-p lars-base -p lars-scheduler -p lars-jobs -p lars-bridges -p mini-actor)
day=${LARS_DAY:-$(($(date +%s) / 86400))}
platform=${1:-${of_days[day % 6]}}
case $platform in
    none | all | 32-bit | windows | big-endian) ;;
    *)
        echo "the platforms are all, ${platforms[*]}, not '$platform'" >&2
        exit 2
        ;;
esac

skip() {
    printf '!!!!! SKIPPED: %s !!!!!\n' "$1"
}

# Also adds the target if it is missing.
has_target() {
    rustup target add "$1" >/dev/null 2>&1 \
        || rustup target list --installed 2>/dev/null | grep -qx "$1"
}

# Which crates compile for a target. On wasm32 what needs a thread is left out. lars-durable needs a
# C compiler for the target, for SQLite: so it is checked where gcc can produce code.
check() {
    local target=$1
    shift
    if has_target "$target"; then
        printf -- '--- %s: %s\n' "$target" "$*"
        cargo check --quiet --locked --lib --target "$target" "$@"
    else
        skip "the target $target cannot be had on this machine"
    fi
}

targets=(x86_64-pc-windows-gnu aarch64-apple-darwin)
# To the compiler these differ from this machine in little.
case $platform in
    all) targets+=(i686-unknown-linux-gnu aarch64-unknown-linux-gnu s390x-unknown-linux-gnu) ;;
    32-bit) targets+=(i686-unknown-linux-gnu) ;;
    big-endian) targets+=(aarch64-unknown-linux-gnu s390x-unknown-linux-gnu) ;;
esac
for target in "${targets[@]}"; do
    check "$target" "${crates[@]}" --all-features
done
wasm=wasm32-unknown-unknown
check "$wasm" "${crates[@]}" --features lars-jobs/cron,mini-actor/test-kit

# The module in docs/how-to/web-page.md, as it stands there.
build_module_of_page() {
    local place
    place=$(mktemp -d)
    mkdir "$place/src"
    sed -n '/^```rust/,/^```/{/^```/!p}' docs/how-to/web-page.md >"$place/src/lib.rs"
    cat >"$place/Cargo.toml" <<MANIFEST
[package]
name = "typing"
version = "0.0.0"
edition = "2024"
[lib]
crate-type = ["cdylib"]
[dependencies]
lars-jobs.path = "$PWD/lars-jobs"
lars-scheduler.path = "$PWD/lars-scheduler"
[workspace]
MANIFEST
    cp examples/wasm/Cargo.lock "$place/"
    cargo build --quiet --release --target "$wasm" --manifest-path "$place/Cargo.toml"
    rm -rf "$place"
}

as_module() {
    if ! has_target "$wasm"; then
        skip "the target $wasm cannot be had on this machine"
    elif ! command -v node >/dev/null; then
        skip "the example for wasm needs Node to run"
    else
        cargo build --quiet --release --target "$wasm" --manifest-path examples/wasm/Cargo.toml
        node examples/wasm/run.mjs "$CARGO_TARGET_DIR/$wasm/release/wasm.wasm"
        bash ci/browser.sh "$CARGO_TARGET_DIR/$wasm/release/wasm.wasm"
        build_module_of_page
    fi
}

# A linker and C library for 32 bits.
can_link_32() {
    echo 'int main(void) { return 0; }' | gcc -m32 -x c -o /dev/null - 2>/dev/null
}
as_32_bit() {
    if ! can_link_32; then bash ci/debian.sh gcc-multilib; fi
    if ! has_target i686-unknown-linux-gnu; then
        skip "the target i686-unknown-linux-gnu cannot be had on this machine"
    elif ! can_link_32; then
        skip "gcc cannot link 32-bit programs here (gcc-multilib)"
    else
        target=(--quiet --target i686-unknown-linux-gnu)
        check i686-unknown-linux-gnu -p lars-durable
        cargo test "${target[@]}" "${crates[@]}" --lib --tests
    fi
}

find_wine() {
    command -v wine64 || ls /usr/lib/wine/wine64 2>/dev/null
}
can_run_windows() {
    { find_wine && command -v x86_64-w64-mingw32-gcc; } >/dev/null
}

# Windows, by Wine. The standard library takes random numbers from a library that older versions of
# Wine do not have.
windows=x86_64-pc-windows-gnu
as_windows() {
    if ! can_run_windows; then bash ci/debian.sh wine64 gcc-mingw-w64-x86-64; fi
    if ! has_target "$windows"; then
        skip "the target $windows cannot be had on this machine"
    elif ! can_run_windows; then
        skip "Wine, or a linker for Windows, cannot be had here (wine64, gcc-mingw-w64-x86-64)"
    else
        beside="$CARGO_TARGET_DIR/$windows/debug/deps"
        mkdir -p "$beside"
        x86_64-w64-mingw32-gcc -shared -o "$beside/bcryptprimitives.dll" \
            ci/wine/bcryptprimitives.c -ladvapi32
        WINEDEBUG=-all WINEPREFIX="$PWD/$CARGO_TARGET_DIR/wine" \
            CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER="$(find_wine)" \
            cargo test --quiet --target "$windows" "${crates[@]}" --lib --tests
    fi
}

# Big-endian, by Miri: the state words, the task's storage, the wheel, the mailbox.
as_big_endian() {
    big=s390x-unknown-linux-gnu
    if ! rustup component add --toolchain nightly miri rust-src >/dev/null 2>&1 \
        && ! cargo +nightly miri --version >/dev/null 2>&1; then
        skip "miri cannot be had on this machine"
    else
        export RUST_BACKTRACE=0 RUST_TEST_THREADS=1
        export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-strict-provenance"
        cargo +nightly miri test --quiet --target "$big" -p lars-scheduler --lib -- \
            raw_task:: entry:: wheel:: tick:: sleep_word:: stop_word:: \
            --skip an_early_cascade --skip what_happens_between_the_steps_of_a_cascade
        cargo +nightly miri test --quiet --target "$big" -p mini-actor --lib -- \
            mailbox:: --skip wait_for_room --skip messages_of_two_threads
    fi
}

printf -- '--- day %d: the tests on another platform: %s\n' "$day" "$platform"
case $platform in
    32-bit) as_32_bit ;;
    windows) as_windows ;;
    big-endian)
        as_big_endian
        as_module
        ;;
    all)
        as_32_bit
        as_windows
        as_big_endian
        as_module
        ;;
esac
