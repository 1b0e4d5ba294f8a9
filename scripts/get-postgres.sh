#!/usr/bin/env bash
# Print the folder of PostgreSQL's binaries; if they are missing, fetch Debian's into .tools.
set -euo pipefail
. "$(dirname "$0")/common.sh"

# The server, and its libraries that a small system lacks.
packages=(
    postgresql-15
    libgssapi-krb5-2 libicu72 libk5crypto3 libkeyutils1 libkrb5-3 libkrb5support0 libldap-2.5-0
    libpq5 libsasl2-2 libxml2 libxslt1.1
)

# The folder also has the libraries of the binaries. Nothing else should use them.
write_starters() {
    local name
    mkdir "$1/bin"
    for name in initdb postgres; do
        cat >"$1/bin/$name" <<'STARTER'
#!/bin/sh
usr=$(dirname "$(dirname "$(readlink -f "$0")")")
export LD_LIBRARY_PATH="$(echo "$usr"/lib/*-linux-gnu*)"
exec "$usr"/lib/postgresql/*/bin/"$(basename "$0")" "$@"
STARTER
        chmod 755 "$1/bin/$name"
    done
}

fetch() {
    echo "Fetching PostgreSQL (Debian's package) into .tools/postgres" >&2
    unpack "${packages[@]}" ||
        fail "install PostgreSQL, or name the folder of its binaries: POSTGRES=/path/to/bin"
    rm -rf "$unpacked/usr/bin"
    write_starters "$unpacked/usr"
    check_runs "$unpacked/usr/bin/postgres"
    # Move in one step, so that the folder exists only if it is complete.
    mv -T "$unpacked/usr" "$tools/postgres" 2>/dev/null ||
        [ -x "$tools/postgres/bin/postgres" ] # another make was faster
}

if [ -n "${POSTGRES:-}" ]; then
    folder=$POSTGRES
elif initdb=$(command -v initdb); then
    folder=$(dirname "$initdb")
else
    folder=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    [ -x "$folder/initdb" ] || folder=$tools/postgres/bin
    [ -x "$folder/initdb" ] || fetch
fi
check_runs "$folder/postgres"
echo "$folder"
