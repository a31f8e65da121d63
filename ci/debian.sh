#!/usr/bin/env bash
# Installs Debian packages, if this is root on such a machine. Whoever calls it looks afterwards
# whether what it needs is there.
#
#     ci/debian.sh postgresql openssl
#
# One call at a time, because steps run side by side and apt refuses a second one at once.
set -euo pipefail
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi

export DEBIAN_FRONTEND=noninteractive
exec 9>"${TMPDIR:-/tmp}/lars-debian.lock"
flock 9
apt-get update -qq || true
apt-get install --yes -qq --no-install-recommends "$@" >/dev/null || true
