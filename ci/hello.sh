#!/usr/bin/env bash
# What it takes to add each crate: the packages that a program of a few lines compiles, and the
# processor time of its first build, by `cargo build`, on all cores together. Prints the table of
# docs/data/hello.csv. By hand: it takes some minutes.
#
#     ci/hello.sh >docs/data/hello.csv
#     ci/hello.sh lars-bridges           this crate only
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
only=${1:-}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/src"

# The crate; its features with + between them, empty for the default ones; what the program does.
hello() {
    local crate=$1 features=$2 options="" counted
    if [ -n "$only" ] && [ "$crate" != "$only" ]; then return; fi
    [ -z "$features" ] \
        || options=", default-features = false, features = [\"${features//+/\", \"}\"]"
    cat >"$place/Cargo.toml" <<MANIFEST
[package]
name = "hello"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
$crate = { path = "$root/$crate"$options }
MANIFEST
    # A program names it beside the crates that take its handles.
    [ "$crate" = lars-scheduler ] || cat >>"$place/Cargo.toml" <<MANIFEST
lars-scheduler.path = "$root/lars-scheduler"
MANIFEST
    [ "$features" != tokio ] \
        || printf 'tokio = { version = "1", default-features = false, features = ["rt"] }\n' \
            >>"$place/Cargo.toml"
    cp "$root/Cargo.lock" "$place/" # the versions that are tested here
    cat >"$place/src/main.rs"
    counted=$(cd "$place" && cargo tree -q -e normal,build --prefix none | sed 's/ (.*//' \
        | sort -u | grep -vc '^hello ')
    printf '%s,%s,%s,%s\n' "$crate" "${features:-default}" "$counted" "$(seconds)"
}

# The processor time of a build from nothing.
seconds() {
    local TIMEFORMAT='%U %S' times
    rm -rf "$place/target"
    times=$({ time (cd "$place" && cargo build -q 2>log || { cat log >&2; exit 1; }); } 2>&1)
    awk '{ printf "%.0f", $1 + $2 }' <<<"$times"
}

echo "crate,features,packages,cpu_seconds"
hello lars-scheduler "" <<'RUST'
use lars_scheduler::LightArrayRevolverScheduler;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scheduler = LightArrayRevolverScheduler::new()?;
    scheduler.schedule_once(Duration::from_millis(50), || println!("hello"))?;
    scheduler.close()?;
    Ok(())
}
RUST

hello lars-jobs "" <<'RUST'
use lars_jobs::Jobs;
use lars_scheduler::LightArrayRevolverScheduler;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scheduler = LightArrayRevolverScheduler::new()?;
    let sum = scheduler.schedule_call(Duration::from_millis(2), || 1 + 2)?;
    println!("hello {}", sum.wait()?);
    Ok(())
}
RUST

hello lars-bridges tokio <<'RUST'
use lars_bridges::tokio::TokioExecutor;
use lars_scheduler::LightArrayRevolverScheduler;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let tasks = TokioExecutor::new(runtime.handle().clone());
    let scheduler = LightArrayRevolverScheduler::builder().executor(tasks).build()?;
    let _ = scheduler.schedule_once(Duration::from_millis(50), || println!("hello"))?;
    Ok(runtime.block_on(scheduler.sleep(Duration::from_millis(60)))?)
}
RUST

hello mini-actor "" <<'RUST'
use mini_actor::{Actor, ActorSystem, Context};

struct Greeter;
impl Actor for Greeter {
    type Message = &'static str;
    fn receive(&mut self, name: &'static str, _: &mut Context<Self>) {
        println!("hello, {name}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let system = ActorSystem::new("demo")?;
    system.spawn("greeter", || Greeter)?.tell("world")?;
    system.close()?;
    Ok(())
}
RUST

for features in "" postgres; do
    hello lars-durable "$features" <<'RUST'
use lars_durable::Durable;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    Ok(Durable::in_memory().start()?.close()?)
}
RUST
done

hello lars-web "" <<'RUST'
use lars_scheduler::LightArrayRevolverScheduler;
use lars_web::{Console, Probe};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scheduler = LightArrayRevolverScheduler::new()?;
    let _pages = Console::new().program(Probe::new(scheduler.handle())).start()?;
    Ok(())
}
RUST

for features in "" terminal+durable; do
    hello lars-top "$features" <<'RUST'
fn main() -> std::io::Result<()> {
    lars_top::show_path(std::path::Path::new("/run/hello.lars"))
}
RUST
done
