#!/usr/bin/env bash
# Durable timers: a search through all that can go wrong at two moments, sixty thousand simulated
# histories, different ones each day, two thousand of each of the plans that look at one thing more
# closely, and five hundred kills of real processes, each verified by the checker. In half of the
# histories the nodes host actors. LARS_SEARCH=<n>, LARS_SIM=<n>, LARS_SIM_OTHERS=<n> and
# LARS_KILLS=<n> do more or less, LARS_SIM_FIRST=<n> begins with this seed; LARS_SIM_SEED=<n> reruns
# the one history that failed.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/brief.sh
day=${LARS_DAY:-$(($(date +%s) / 86400))}
export LARS_SIM_FIRST="${LARS_SIM_FIRST:-$((day * 100000))}"
export LARS_SIM="${LARS_SIM:-60000}" LARS_SIM_OTHERS="${LARS_SIM_OTHERS:-2000}"
export LARS_KILLS="${LARS_KILLS:-500}" LARS_SEARCH="${LARS_SEARCH:-2}"
cargo test "${brief[@]}" --lib -- --nocapture \
    simulation:: exhaustive:: kill::nothing_is_lost power::
cargo build --quiet "${brief[@]}" --example durable --example incident --example shop_in_a_file
run_example durable --timers 1000 --kills 2 --life 1000
run_example shop_in_a_file
run_example incident
