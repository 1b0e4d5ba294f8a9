#!/usr/bin/env bash
# Print a Python that has MLBench's original client, for tests; where there is none, install it
# into .tools/mlbench-core.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

folder=$tools/mlbench-core
python=$folder/bin/python
lock mlbench-core
if [ ! "$folder/.installed" -nt scripts/get-mlbench-core.sh ]; then
    echo "Installing MLBench's client into .tools/mlbench-core" >&2
    make_venv "$folder"
    # The versions that it names are of 2020, and most of them for what its client never uses. To
    # find a master it needs the kubernetes package as it was then.
    pip_install "$python" 'requests>=2.31,<3' 'kubernetes==11.0.0'
    pip_install "$python" --no-deps 'mlbench-core==3.0.0'
    "$python" -c 'import mlbench_core.api' || fail "mlbench-core does not work with this Python"
    touch "$folder/.installed" # last: an interrupted installation leaves none
fi
echo "$python"
