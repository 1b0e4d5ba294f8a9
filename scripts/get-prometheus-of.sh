#!/usr/bin/env bash
# Print the path of the Prometheus of another release of Debian, which is fetched into .tools.
# usage: get-prometheus-of.sh RELEASE, such as trixie or sid
set -euo pipefail
. "$(dirname "$0")/common.sh"

release=$1
folder=$tools/prometheus-$release

fetch() {
    local lists server
    command -v apt-get >/dev/null || fail "no apt here to take Debian's packages from"
    # From where this machine takes its own release.
    # shellcheck disable=SC2016 # apt's own variables
    server=$(. /etc/os-release && apt-get indextargets --format '$(RELEASE) $(SITE)' \
        'Created-By: Packages' | sed -n "s/^$VERSION_CODENAME //p" | head -1)
    [ -n "$server" ] || fail "apt names no server for this machine's release"
    echo "Fetching Prometheus of Debian $release into .tools" >&2
    work=$(mktemp -d "$tools/unpacked.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    lists=$work/lists
    mkdir -p "$lists/partial"
    echo "deb $server $release main" >"$work/sources.list"
    apt() {
        apt-get -qq -o APT::Sandbox::User=root -o Dir::State::lists="$lists" \
            -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
            -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
            -o Acquire::Languages=none "$@"
    }
    apt update >&2
    (cd "$work" && apt download prometheus promtool >&2)
    for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/unpacked"; done
    check_runs "$work/unpacked/usr/bin/prometheus"
    mv -T "$work/unpacked/usr" "$folder"
}

lock "prometheus-$release"
[ -x "$folder/bin/prometheus" ] || fetch
echo "$folder/bin/prometheus"
