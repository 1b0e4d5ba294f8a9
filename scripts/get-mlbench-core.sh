#!/usr/bin/env bash
# Print a Python that has MLBench's original library, for tests; its command line is in the same
# folder. If it is missing, install it into .tools/mlbench-core, on top of .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

folder=$tools/mlbench-core
python=$folder/bin/python
lock mlbench-core
if [ ! "$folder/.installed" -nt scripts/get-mlbench-core.sh ]; then
    echo "Installing MLBench's original library into .tools/mlbench-core" >&2
    make_venv "$folder"
    # PyTorch and NumPy come from .venv: pip sees and keeps them.
    packages() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
    echo "import site; site.addsitedir('$(packages .venv/bin/python)')" \
        >"$(packages "$python")/venv.pth"
    # The library requires versions of 2020. It needs the kubernetes package of that time to find a
    # master. Its command line imports the others, most of them to create clusters.
    pip_install "$python" 'kubernetes==11.0.0' 'requests>=2.31,<3' 'deprecation>=2,<3' 'dill<1' \
        'appdirs<2' 'boto3<2' 'click<9' 'docker<8' 'GitPython<4' 'google-api-python-client<3' \
        'google-cloud-container<3' 'matplotlib<4' 'pyyaml<7' 'supermutes==0.2.5' 'tabulate<1'
    pip_install "$python" --no-deps 'mlbench-core==3.0.0'
    # The library cannot be imported together with tqdm and a current NumPy, except in a run.
    pip_install "$python" --no-deps --target "$folder/tqdm" 'tqdm>=4,<5'
    "$python" -c 'import mlbench_core.api, mlbench_core.utils.pytorch.checkpoint' ||
        fail "mlbench-core does not work with this Python"
    "$folder/bin/mlbench" --version >/dev/null || fail "its command line does not work"
    touch "$folder/.installed" # last: an interrupted installation leaves none
fi
echo "$python"
