#!/usr/bin/env bash
# Every check, several at a time. Each is a script beside this one that can also be run alone. It
# ends with the first step that fails: it prints what that step said, its name and its command.
#
#     ci/all.sh                    all steps
#     ci/all.sh lint "miri trees"  these steps
#     JOBS=1 ci/all.sh             one after another
#
# Four steps run at a time, also on two cores: some wait for a server, a child process or cargo's
# lock while others compute. Some steps have days of their own, and within others each day has its
# part; LARS_DAY=<days since 1970> does what that day has. A step whose tools cannot be had says so
# loudly and is skipped. With DROP_BUILDS=1 a folder of builds goes when no step uses it any more.
# Needs bash 5.1.
set -euo pipefail
cd "$(dirname "$0")/.."

# One day for all steps, also of a run that goes on after midnight.
export LARS_DAY="${LARS_DAY:-$(($(date +%s) / 86400))}"
# So that all days take about the same. On odd days `ci/targets.sh` also runs the tests on another
# platform, and days of even numbers have the longer part of `miri strict`.
days=("fuzz shuttle" "msrv" "shuttle" "features" "benches" "deny")
read -ra of_day <<<"${days[LARS_DAY % 6]}"
# In this order: what new users run, then the longest of the others, and short ones at the end.
steps=(
    test "miri trees" loom lint "miri strict" postgres targets durable examples
    "${of_day[@]}" docs beside package semver
)
if (($# > 0)); then steps=("$@"); fi
printf 'Day %d since 1970. Of the steps that have days of their own: %s.\n' \
    "$LARS_DAY" "${of_day[*]:-none}"

# The folders in which a step builds, below target.
builds_of() {
    case "$1" in
        test) echo debug ;;
        postgres) echo debug brief ;;
        lint) echo lint loom shuttle ;;
        features | docs) echo lint ;;
        msrv) echo msrv-1.88 msrv-1.89 ;;
        durable | benches) echo brief ;;
        examples) echo brief release ;;
        "miri "*) echo miri ;;
        loom | shuttle | fuzz | targets) echo "$1" ;;
    esac
}

logs=$(mktemp -d)
declare -A running=() # the step of each process
waiting=("${steps[@]}")

stop_all() {
    local process
    for process in "${!running[@]}"; do kill -- "-$process" 2>/dev/null || true; done
    rm -rf "$logs"
}
trap stop_all EXIT
trap 'exit 1' INT TERM

# A process group of its own for each step, so that all of it can be ended.
start() {
    local step=$1
    local timed='{ time bash "ci/$1.sh" "${@:2}" >"$0" 2>&1; } 2>"$0.time"'
    # shellcheck disable=SC2086 # the step's words
    TIMEFORMAT='%R %U %S' setsid bash -c "$timed" "$logs/${step// /-}" $step &
    running[$!]=$step
    printf -- '----- %s: started after %d s -----\n' "$step" "$SECONDS"
}

# What the step printed, and the seconds that it took: by the clock, and of processor time.
report() {
    local log=$logs/${1// /-} wall user sys
    read -r wall user sys <<<"$(tail -n 1 "$log.time")"
    printf '\n===== %s =====\n' "$1"
    cat "$log"
    printf '===== %s: %s after %.0f s, %.0f s of processor time =====\n\n' \
        "$1" "$2" "$wall" "$(echo "$user $sys" | awk '{ print $1 + $2 }')"
}

# Folders that this step was the last to build in.
drop_builds() {
    local folder step used
    for folder in $(builds_of "$1"); do
        used=false
        for step in "${running[@]}" "${waiting[@]}"; do
            if [[ " $(builds_of "$step") " == *" $folder "* ]]; then used=true; fi
        done
        if ! "$used"; then rm -rf "target/$folder"; fi
    done
}

while ((${#waiting[@]} + ${#running[@]} > 0)); do
    while ((${#waiting[@]} > 0 && ${#running[@]} < ${JOBS:-4})); do
        start "${waiting[0]}"
        waiting=("${waiting[@]:1}")
    done
    status=0
    wait -n -p process || status=$?
    step=${running[$process]}
    unset "running[$process]"
    if ((status != 0)); then
        report "$step" FAILED
        printf 'FAILED: %s. The command: bash ci/%s.sh%s\n' "$step" "${step%% *}" \
            "$([[ $step == *" "* ]] && echo " ${step#* }")"
        exit 1
    fi
    report "$step" passed
    if [ "${DROP_BUILDS:-0}" = 1 ]; then drop_builds "$step"; fi
done
printf 'All %d steps passed in %d s.\n' "${#steps[@]}" "$SECONDS"
