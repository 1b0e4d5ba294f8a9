#!/usr/bin/env bash
# Print the path of Prometheus (or of its promtool); where there is none, fetch Debian's into .tools/bin.
# usage: get-prometheus.sh [promtool]
set -euo pipefail

scripts=$(cd "$(dirname "$0")" && pwd)
tools=$(dirname "$scripts")/.tools

fail() {
    echo "get-prometheus.sh: $*" >&2
    exit 1
}

check_runs() {
    local complaint
    complaint=$("$1" --version 2>&1 >/dev/null) || fail "$1 does not run: ${complaint%%$'\n'*}"
}

fetch() {
    local unpacked
    echo "Fetching Prometheus (Debian's package) into .tools/bin" >&2
    mkdir -p "$tools/bin"
    unpacked=$(mktemp -d "$tools/prometheus.XXXXXX")
    # shellcheck disable=SC2064 # the folder as it is named now
    trap "rm -rf '$unpacked'" EXIT
    "$scripts/fetch-deb.sh" prometheus "$unpacked" ||
        fail "install Prometheus, or name the binary you have: PROMETHEUS=/path/to/prometheus"
    check_runs "$unpacked/usr/bin/prometheus"
    # Prometheus last: where it is, promtool is too.
    mv "$unpacked/usr/bin/promtool" "$tools/bin/"
    mv "$unpacked/usr/bin/prometheus" "$tools/bin/"
}

if [ -n "${PROMETHEUS:-}" ] && ! command -v "$PROMETHEUS" >/dev/null; then
    echo "PROMETHEUS=$PROMETHEUS is no executable file: looking elsewhere" >&2
    PROMETHEUS=
fi
if ! prometheus=$(command -v "${PROMETHEUS:-prometheus}"); then
    prometheus=$tools/bin/prometheus
    [ -x "$prometheus" ] || fetch
fi
prometheus=$(cd "$(dirname "$prometheus")" && pwd)/$(basename "$prometheus")
check_runs "$prometheus"

if [ "${1:-}" != promtool ]; then
    echo "$prometheus"
elif [ -x "$(dirname "$prometheus")/promtool" ]; then
    echo "$(dirname "$prometheus")/promtool"
else
    command -v promtool || fail "there is no promtool, neither beside $prometheus nor on PATH"
fi
