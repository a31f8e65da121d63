# Sourced by the steps that run examples or simulate durable timers: one selection of packages and
# features, so that they share one build. `cargo run` takes one package only, so an example is
# built first and then started by `run_example`.
brief=(
    --profile brief -p examples -p lars-durable
    --features lars-durable/actors
    --features examples/cron,examples/durable,examples/prometheus,examples/service
    --features examples/sql,examples/tokio,examples/top
)
built=${CARGO_TARGET_DIR:-target}/brief

run_example() {
    local name=$1
    shift
    printf -- '--- %s %s\n' "$name" "$*"
    "$built/examples/$name" "$@"
}
