#!/usr/bin/env bash
# Print the path of Prometheus (or of its promtool); if it is missing, fetch Debian's into .tools.
# usage: get-prometheus.sh [promtool]
set -euo pipefail
. "$(dirname "$0")/common.sh"

# Prometheus, and the JavaScript packages of its web pages.
packages=(
    prometheus
    fonts-glyphicons-halflings libjs-bootstrap4 libjs-d3 libjs-eonasdan-bootstrap-datetimepicker
    libjs-jquery libjs-jquery-hotkeys libjs-moment libjs-moment-timezone libjs-mustache
    libjs-popper.js libjs-rickshaw
)

fetch() {
    echo "Fetching Prometheus (Debian's package) into .tools/prometheus" >&2
    unpack "${packages[@]}" ||
        fail "install Prometheus, or name the binary you have: PROMETHEUS=/path/to/prometheus"
    # From Debian 13 on, promtool is a separate package.
    [ -x "$unpacked/usr/bin/promtool" ] || "$(dirname "$0")/fetch-deb.sh" "$unpacked" promtool ||
        fail "install promtool"
    check_runs "$unpacked/usr/bin/prometheus"
    # Move in one step, so that the folder exists only if it is complete.
    mv -T "$unpacked/usr" "$tools/prometheus" 2>/dev/null ||
        [ -x "$tools/prometheus/bin/prometheus" ] # another make was faster
}

if [ -n "${PROMETHEUS:-}" ] && ! command -v "$PROMETHEUS" >/dev/null; then
    echo "PROMETHEUS=$PROMETHEUS is no executable file: looking elsewhere" >&2
    PROMETHEUS=
fi
if ! prometheus=$(command -v "${PROMETHEUS:-prometheus}"); then
    prometheus=$tools/prometheus/bin/prometheus
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
