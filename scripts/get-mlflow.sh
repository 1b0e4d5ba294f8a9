#!/usr/bin/env bash
# Print MLflow's program, with which `python -m benchmarks.run rivals` compares the master. If it is
# missing, install it into .benchmarks/mlflow.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

folder=$PWD/.benchmarks/mlflow
if [ ! "$folder/.installed" -nt scripts/get-mlflow.sh ]; then
    echo "Installing MLflow into .benchmarks/mlflow" >&2
    make_venv "$folder"
    pip_install "$folder/bin/python" 'mlflow==3.*'
    touch "$folder/.installed" # last: an interrupted installation leaves none
fi
echo "$folder/bin/mlflow"
