# Functions that the scripts that fetch tools share: they source this file.
# shellcheck shell=bash

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.tools

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Only one process fetches a tool. Another one waits, and may then find it fetched.
lock() { # NAME
    mkdir -p "$tools"
    if command -v flock >/dev/null; then
        exec 9>"$tools/$1.lock"
        flock 9
    fi
}

pip_install() { # PYTHON WHAT…
    .venv/bin/python -m pip --python "$1" install --quiet --quiet --disable-pip-version-check \
        --retries 2 --timeout 15 "${@:2}" >&2 || fail "pip cannot install ${*:2}"
}

make_venv() { # FOLDER
    [ -x .venv/bin/python ] || fail "there is no .venv: make install"
    .venv/bin/python -m venv --clear --without-pip "$1"
}

check_runs() { # PROGRAM
    local complaint
    complaint=$("$1" --version 2>&1 >/dev/null) || fail "$1 does not run: ${complaint%%$'\n'*}"
}

# Unpack Debian packages into a new folder, "unpacked", which is deleted when the script ends.
unpack() { # PACKAGE…
    mkdir -p "$tools"
    unpacked=$(mktemp -d "$tools/unpacked.XXXXXX")
    trap 'rm -rf "$unpacked"' EXIT
    "$tools/../scripts/fetch-deb.sh" "$unpacked" "$@"
}

# npm of the Node.js in $node, as get-node.sh prints it.
npm() {
    local program
    # shellcheck disable=SC2154 # the script that calls it sets it
    program=$(type -P npm) || program=${node%/bin/node}/lib/node_modules/npm/bin/npm-cli.js
    "$node" "$program" "$@"
}
