#!/usr/bin/env bash
# Print a Python that has what checks the chart: Kubernetes' schemas, and Helm 4. They are large, so
# they are installed into .tools/chart, not into .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$PWD/.tools/chart
python=$folder/bin/python

fail() {
    echo "get-chart-tools.sh: $*" >&2
    exit 1
}

mkdir -p .tools
if command -v flock >/dev/null; then
    exec 9>.tools/chart.lock
    flock 9
fi

if [ ! "$folder/.installed" -nt scripts/get-chart-tools.sh ]; then
    echo "Installing the chart's checkers into .tools/chart" >&2
    [ -x .venv/bin/python ] || fail "there is no .venv: make install"
    .venv/bin/python -m venv --clear --without-pip "$folder"
    .venv/bin/python -m pip --python "$python" install --quiet --quiet --disable-pip-version-check \
        --retries 2 --timeout 15 'kubernetes-validate==1.37.0' 'helm-python-sdk==0.2.2' \
        'pyyaml>=6,<7' || fail "cannot install the chart's checkers"
    touch "$folder/.installed" # last: an interrupted installation leaves none
fi
echo "$python"
