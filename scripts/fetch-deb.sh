#!/usr/bin/env bash
# Download one Debian package and unpack it into a folder: needs no root, installs and starts nothing.
# usage: fetch-deb.sh PACKAGE FOLDER
set -euo pipefail

package=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
lists=$(cd "$(dirname "$0")/.." && pwd)/.tools/apt-lists

fail() {
    echo "fetch-deb.sh: $*" >&2
    exit 1
}

# Apt would download as the user _apt, who may not see our folders.
apt() { apt-get -qq -o APT::Sandbox::User=root "$@"; }

# The same with package lists of our own: updating those of the system takes root.
own_apt() {
    apt -o "Dir::State::lists=$lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o Acquire::Languages=none "$@"
}

command -v apt-get >/dev/null || fail "no apt here to take Debian's package $package from"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

if ! apt download "$package" >log 2>&1; then
    echo "Fetching apt's package lists" >&2
    mkdir -p "$lists/partial"
    own_apt update >log 2>&1 || true # what counts is whether the download works then
    own_apt download "$package" >>log 2>&1 ||
        fail "apt cannot download $package: $(grep -m 1 '^[EW]: ' log || echo 'it gives no reason')"
fi
dpkg-deb -x "$package"_*.deb "$folder"
