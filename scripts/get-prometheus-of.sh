#!/usr/bin/env bash
# Print the path of the Prometheus of another release of Debian, which is fetched into .tools.
# usage: get-prometheus-of.sh RELEASE, such as trixie or sid
set -euo pipefail
. "$(dirname "$0")/common.sh"

folder=$tools/prometheus-$1

fetch() {
    echo "Fetching Prometheus of Debian $1 into .tools" >&2
    RELEASE=$1 unpack prometheus promtool
    check_runs "$unpacked/usr/bin/prometheus"
    mv -T "$unpacked/usr" "$folder"
}

lock "prometheus-$1"
[ -x "$folder/bin/prometheus" ] || fetch "$1"
echo "$folder/bin/prometheus"
