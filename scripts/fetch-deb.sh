#!/usr/bin/env bash
# Download Debian packages and unpack them into a folder: needs no root, installs and starts nothing.
# usage: [RELEASE=trixie] fetch-deb.sh FOLDER PACKAGE…
set -euo pipefail
. "$(dirname "$0")/common.sh"

mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
release=${RELEASE:-}
lists=$tools/apt-lists${release:+-$release}

# By default apt downloads as the user _apt, who may lack access to this folder.
apt() { apt-get -qq -o APT::Sandbox::User=root "$@"; }

# Use separate package lists, because updating the system's lists requires root.
own_apt() {
    apt -o "Dir::State::lists=$lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o Acquire::Languages=none ${sources+"${sources[@]}"} "$@"
}

# Another release of Debian, from the mirror that this machine uses.
write_sources() {
    local server
    # shellcheck disable=SC2016 # apt's own variables
    server=$(. /etc/os-release && apt-get indextargets --format '$(RELEASE) $(SITE)' \
        'Created-By: Packages' | sed -n "s/^$VERSION_CODENAME //p" | head -1)
    [ -n "$server" ] || fail "apt names no server for this machine's release"
    echo "deb $server $release main" >"$work/sources.list"
    sources=(-o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=-)
}

command -v apt-get >/dev/null || fail "no apt here to take Debian's package $1 from"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

[ -z "$release" ] || write_sources
if [ -n "$release" ] || ! apt download "$@" >log 2>&1; then
    echo "Fetching apt's package lists" >&2
    mkdir -p "$lists/partial"
    own_apt update >log 2>&1 || true # what counts is whether the download works then
    own_apt download "$@" >>log 2>&1 ||
        fail "apt cannot download $1: $(grep -m 1 '^[EW]: ' log || echo 'it gives no reason')"
fi
for package in *.deb; do
    dpkg-deb -x "$package" "$folder"
done
