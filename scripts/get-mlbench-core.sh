#!/usr/bin/env bash
# Print a Python that has MLBench's original client, for tests; where there is none, install it
# into .tools/mlbench-core.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$PWD/.tools/mlbench-core
python=$folder/bin/python

fail() {
    echo "get-mlbench-core.sh: $*" >&2
    exit 1
}

pip_install() {
    .venv/bin/python -m pip --python "$python" install --quiet --quiet --disable-pip-version-check \
        --retries 2 --timeout 15 "$@" || fail "cannot install $*"
}

mkdir -p .tools
if command -v flock >/dev/null; then
    exec 9>.tools/mlbench-core.lock
    flock 9
fi

if [ ! "$folder/.installed" -nt scripts/get-mlbench-core.sh ]; then
    echo "Installing MLBench's client into .tools/mlbench-core" >&2
    [ -x .venv/bin/python ] || fail "there is no .venv: make install"
    .venv/bin/python -m venv --clear --without-pip "$folder"
    # The versions that it names are of 2020, and most of them for what its client never uses. To
    # find a master it needs the kubernetes package as it was then.
    pip_install 'requests>=2.31,<3' 'kubernetes==11.0.0'
    pip_install --no-deps 'mlbench-core==3.0.0'
    "$python" -c 'import mlbench_core.api' || fail "mlbench-core does not work with this Python"
    touch "$folder/.installed" # last: an interrupted installation leaves none
fi
echo "$python"
