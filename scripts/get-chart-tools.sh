#!/usr/bin/env bash
# Print a Python that has the tools to check the chart: Kubernetes' schemas and Helm 4. They are
# large, so they are installed into .tools/chart, not into .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

folder=$tools/chart
lock chart
if [ ! "$folder/.installed" -nt scripts/get-chart-tools.sh ]; then
    echo "Installing the chart's checkers into .tools/chart" >&2
    make_venv "$folder"
    pip_install "$folder/bin/python" 'kubernetes-validate==1.37.0' 'helm-python-sdk==0.2.2' \
        'pyyaml>=6,<7'
    touch "$folder/.installed" # last: an interrupted installation leaves none
fi
echo "$folder/bin/python"
