#!/usr/bin/env bash
# Durable timers on a real PostgreSQL, which the tests start in a temporary directory: the
# conformance suite, nodes of one process, a snapshot that is held, several processes to which
# everything happens, and the examples that start a server of their own. Installs Debian's server
# and pooler if they are missing and this is root; without a server it fails, without a pooler it
# leaves tests out and says so.
# LARS_CLUSTER_SECONDS=<n> lets things go wrong for longer, and LARS_HELD_SECONDS=<n> holds the
# snapshot for longer.
set -euo pipefail
cd "$(dirname "$0")/.."

have() {
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}
have_pooler() {
    [ -x /usr/sbin/pgbouncer ] || [ -x /usr/bin/pgbouncer ]
}
if ! { have && have_pooler; } && [ "$(id -u)" = 0 ]; then
    bash ci/debian.sh postgresql-common
    # The tests make clusters of their own.
    sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' \
        /etc/postgresql-common/createcluster.conf || true
    bash ci/debian.sh postgresql openssl
    bash ci/debian.sh pgbouncer
    service pgbouncer stop >/dev/null 2>&1 || true
fi
if ! have; then
    echo "no PostgreSQL (Debian: apt-get install postgresql)" >&2
    exit 1
fi
if ! have_pooler; then
    echo "!!!!! SKIPPED: the tests behind a pooler (Debian: apt-get install pgbouncer) !!!!!" >&2
fi

export LARS_POSTGRES=1 LARS_CLUSTER_SECONDS="${LARS_CLUSTER_SECONDS:-45}"
export LARS_HELD_SECONDS="${LARS_HELD_SECONDS:-30}"
# The build of `ci/test.sh`, so all crates.
cargo test --lib --test it -- --include-ignored --nocapture \
    postgres:: conformance:: durable::

source ci/brief.sh
cargo build --quiet "${brief[@]}" --example sql_transactions --example cluster --example orders \
    --example durable_soak
run_example sql_transactions
# Each is three nodes with a server of its own, and waits for most of its time.
started=()
run_example cluster --timers 3000 --seconds 5 & started+=($!)
run_example orders --orders 60 & started+=($!)
run_example durable_soak --seconds 10 --every 5 --rate 50 & started+=($!)
for example in "${started[@]}"; do wait "$example"; done
