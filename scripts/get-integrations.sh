#!/usr/bin/env bash
# Print a Python that has the training libraries that MLBench records unchanged, for tests. If they are
# missing, install them into .tools/integrations, on top of .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

folder=$tools/integrations
python=$folder/bin/python
lock integrations
if [ ! "$folder/.installed" -nt scripts/get-integrations.sh ]; then
    echo "Installing training libraries into .tools/integrations (a few minutes)" >&2
    make_venv "$folder"
    # PyTorch, NumPy, scikit-learn and mlbench come from .venv: pip sees and keeps them.
    packages() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
    echo "import site; site.addsitedir('$(packages .venv/bin/python)')" \
        >"$(packages "$python")/venv.pth"
    pip_install "$python" 'accelerate>=1.15,<2' 'jax>=0.10,<0.11' 'ipykernel>=7,<8' \
        'keras>=3.12,<4' 'lightning>=2.6,<2.7' 'matplotlib>=3.9,<4' 'mlflow-skinny>=3.17,<4' 'nbconvert>=7,<8' 'ray[train]>=2.50,<3' \
        'tensorboard>=2.20,<3' 'tensorflow-cpu>=2.20,<3' 'transformers>=5,<6' 'xgboost-cpu>=3,<4'
    KERAS_BACKEND=torch "$python" -c 'import accelerate, ipykernel, jax, keras, lightning, mlflow, mlbench, nbconvert, xgboost' ||
        fail "what was installed does not work together"
    touch "$folder/.installed" # last: an interrupted installation leaves none
fi
echo "$python"
