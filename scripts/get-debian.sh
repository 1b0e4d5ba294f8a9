#!/usr/bin/env bash
# Print the path of a server for tests; if it is missing, fetch Debian's package into .tools.
# usage: get-debian.sh nginx|caddy|prometheus-alertmanager
set -euo pipefail
. "$(dirname "$0")/common.sh"

program=$1
if ! path=$(command -v "$program" || command -v "/usr/sbin/$program"); then
    folder=$tools/$program
    lock "$program"
    if [ ! -d "$folder" ]; then
        echo "Fetching $program (Debian's package) into .tools/$program" >&2
        unpack "$program" || fail "install $program"
        mv -T "$unpacked/usr" "$folder"
    fi
    path=$(echo "$folder"/*bin/"$program")
fi
[ -x "$path" ] || fail "Debian's package has no $path"
echo "$path"
