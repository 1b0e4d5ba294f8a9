#!/usr/bin/env bash
# Print a Python that has openapi-python-client, whose generated client a test calls. If it is
# missing, install it into .tools/openapi-client.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

folder=$tools/openapi-client
lock openapi-client
if [ ! "$folder/.installed" -nt scripts/get-openapi-client.sh ]; then
    echo "Installing openapi-python-client into .tools/openapi-client" >&2
    make_venv "$folder"
    pip_install "$folder/bin/python" 'openapi-python-client==0.29.1'
    touch "$folder/.installed" # last: an interrupted installation leaves none
fi
echo "$folder/bin/python"
