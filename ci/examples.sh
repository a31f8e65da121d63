#!/usr/bin/env bash
# The examples, and the code of the pages. They check themselves. `ci/durable.sh` runs those whose
# timers are in a file, and `ci/postgres.sh` those that need a PostgreSQL.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/brief.sh

cargo build --quiet "${brief[@]}" --examples
# Every third day as the README runs it, with fewer connections.
day=${LARS_DAY:-$(($(date +%s) / 86400))}
sessions=(--connections 200 --seconds 4)
if ((day % 3 == 2)); then
    printf -- '--- day %d: sessions, with --release\n' "$day"
    cargo run --quiet --release -p examples --example sessions -- "${sessions[@]}"
else
    run_example sessions "${sessions[@]}"
fi
run_example soak --seconds 5
run_example late --runs 1
for example in quickstart rate_vs_delay cancel_race graceful_close virtual_time daily_report \
    supervised_refresh lease_registry delay_queue_consumers election_timers async_timeouts \
    prometheus axum_service request_timeouts worker_pool actor_patterns \
    testing_with_virtual_time game_loop mio_loop pinned_threads; do
    run_example "$example" >/dev/null
done
cargo test --quiet "${brief[@]}" --doc
