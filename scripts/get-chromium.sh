#!/usr/bin/env bash
# Print the path of Chromium, for tests in a browser; if it is missing, install Debian's package. That
# requires root, because the package depends on a hundred libraries.
set -euo pipefail
. "$(dirname "$0")/common.sh"

# Prefer the variant without a desktop, which takes two thirds of the time.
names=(chromium-headless-shell chromium chromium-browser google-chrome)

install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
        fail "there is no Chromium: install it (Debian: the package chromium-headless-shell), or name the program" \
            "you have: CHROMIUM=/path/to/chromium"
    echo "Installing Chromium (Debian's package)" >&2
    local log
    log=$(mktemp)
    # shellcheck disable=SC2064 # the file as it is named now
    trap "rm -f '$log'" EXIT
    apt-get -qq update >"$log" 2>&1 || true # what counts is whether the installation works then
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends \
        chromium-headless-shell fonts-dejavu-core >>"$log" 2>&1 ||
        fail "apt cannot install Chromium: $(grep -m 1 '^[EW]: ' "$log" || echo 'it gives no reason')"
}

# A path, or a name to look up.
find_program() {
    local candidate
    for candidate in "$@"; do
        command -v "$candidate" && return
    done
    return 1
}

if [ -n "${CHROMIUM:-}" ]; then
    found=$(find_program "$CHROMIUM") || fail "CHROMIUM=$CHROMIUM is no executable file"
elif ! found=$(find_program "${names[@]}"); then
    install
    found=$(find_program "${names[@]}") || fail "apt installed Chromium, but there is no ${names[*]}"
fi
check_runs "$found"
echo "$found"
