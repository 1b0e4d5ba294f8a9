#!/usr/bin/env bash
# Make .venv, install mlbench into it (editable), and mark that as .venv/.EXTRA.
# usage: make-venv.sh EXTRA (local: what users need; dev: with what tests and checks need)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

extra=$1
mark=.venv/.$extra

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate candidates=(python3.11 python3.12 python3.13 python3.14 python3)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer among: ${candidates[*]}." \
        "Install python3, or name it: make install PYTHON=/path/to/python3"
}

# On Debian, ensurepip is missing if the package python3-venv is not installed.
install_pip() {
    .venv/bin/python -m ensurepip >/dev/null 2>&1 && return
    echo "Fetching pip (Debian's package python3-pip-whl)"
    scripts/fetch-deb.sh .tools/pip python3-pip-whl ||
        fail "this Python comes without pip: install python3-venv, then run this again"
    local wheel
    wheel=$(echo .tools/pip/usr/share/python-wheels/pip-*.whl)
    .venv/bin/python "$wheel/pip" install --quiet --no-index "$wheel"
}

lock install
[ ! "$mark" -nt pyproject.toml ] || exit 0

if ! new_enough .venv/bin/python; then
    python=$(find_python)
    echo "Making .venv with $("$python" --version) ($(command -v "$python"))"
    "$python" -m venv --clear --without-pip .venv
fi
.venv/bin/python -m pip --version >/dev/null 2>&1 || install_pip

echo "Installing mlbench[$extra] into .venv (PyTorch is large: a few minutes the first time)"
# The mark is as old as the start, so that a pyproject.toml changed meanwhile is newer.
touch .venv/.installing
.venv/bin/python -m pip install --disable-pip-version-check --progress-bar off \
    --editable ".[$extra]" |
    sed -un 's/^ *Downloading \([^-]*-[^-]*\)-.*\( ([0-9]\{2,\}\.[0-9]* MB)\)$/  \1\2/p'
[ "$extra" = local ] || cp -p .venv/.installing .venv/.local
mv .venv/.installing "$mark"
