#!/usr/bin/env bash
# Programs that use lars-durable beside another crate with an SQLite of its own. Only one of them
# can be linked, and cargo says so when it resolves. So nothing is compiled here: each line of the
# table resolves, or does not, as docs/durable.md says. It asks the registry.
set -euo pipefail
cd "$(dirname "$0")/.."
durable=$PWD/lars-durable
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/src" && : >"$place/src/lib.rs"

# What is expected; the features of lars-durable; the other crate.
without='default-features = false, features = ["postgres"]'
with='features = ["postgres"]'
sqlx='sqlx = { version = "0.8", features = ["runtime-tokio", "postgres"] }'
sea_orm='sea-orm = { version = "1", features = ["sqlx-postgres", "sqlx-sqlite"] }'
diesel='diesel = { version = "2", features = ["sqlite"] }'
table="
yes | $without | $sqlx
yes | $without | $sea_orm
yes | $without | $diesel
yes | $with | tokio-postgres = \"0.7\"
no  | $with | $sqlx
no  | $with | $diesel
"

# Whether a program with these features of lars-durable, and this other crate, resolves.
resolves() {
    cat >"$place/Cargo.toml" <<MANIFEST
[package]
name = "beside"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
lars-durable = { path = "$durable", $1 }
$2
MANIFEST
    rm -f "$place/Cargo.lock"
    (cd "$place" && cargo generate-lockfile --quiet 2>"$place/words")
}

for crate in "$sqlx" "$sea_orm" "$diesel"; do
    if ! resolves "$without" "$crate" \
        && ! grep -q 'links to the native library' "$place/words"; then
        echo "!!!!! SKIPPED: the registry does not give ${crate%% *} !!!!!"
        exit 0
    fi
done
wrong=0
while IFS='|' read -r expected features other; do
    if [ -z "${expected// /}" ]; then continue; fi
    does=no
    if resolves "$features" "$other"; then does=yes; fi
    printf '%-3s (expected %s):%s |%s\n' "$does" "${expected// /}" "$features" "$other"
    if [ "$does" != "${expected// /}" ]; then
        wrong=1
        head -5 "$place/words"
    fi
done <<<"$table"
exit "$wrong"
