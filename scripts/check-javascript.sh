#!/usr/bin/env bash
# Check the types of the web pages' modules and of their tests by TypeScript. The API's records are
# global types made of its OpenAPI document. npm fetches the tools into .tools.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

packages=(typescript@5.9.3 openapi-typescript@7.13.0)
folder=$tools/javascript
node=$(scripts/get-node.sh)

get_tools() {
    [ "$(cat "$folder/.installed" 2>/dev/null)" = "${packages[*]}" ] && return
    echo "Fetching TypeScript into .tools" >&2
    npm install --loglevel=error --no-audit --no-fund --ignore-scripts --prefix "$folder" \
        "${packages[@]}" >&2 || fail "npm cannot fetch ${packages[*]}"
    echo "${packages[*]}" >"$folder/.installed" # last: an interrupted installation leaves none
}

# This takes some seconds, so do it only if the document has changed.
make_types() {
    MLBENCH_TOKEN=- MLBENCH_AGENT_SECRET=- MLBENCH_PROMETHEUS_URL=http://localhost \
        .venv/bin/python -c '
from falcon.testing import TestClient
from mlbench_master.app import create_app
from mlbench_master.settings import Settings
app = create_app(Settings.from_environ(), prometheus=None)
print(TestClient(app).simulate_get("/openapi.json").text)' >"$folder/openapi.json"
    [ -e "$folder/records.d.ts" ] && cmp -s "$folder/openapi.json" "$folder/typed.json" && return
    "$node" "$folder/node_modules/openapi-typescript/bin/cli.js" "$folder/openapi.json" \
        --root-types --root-types-no-schema-prefix --root-types-keep-casing \
        --output "$folder/openapi.d.ts" >/dev/null 2>&1 || fail "the OpenAPI document has no types"
    # Without exports, the types of a file are global. Browsers define another Error and Storage.
    sed -E 's/^export //; /^type (Error|Storage) =/d' "$folder/openapi.d.ts" >"$folder/records.d.ts"
    mv "$folder/openapi.json" "$folder/typed.json"
}

mkdir -p "$folder"
lock javascript
get_tools
make_types
for project in master/mlbench_master/web tests/web/js; do
    "$node" "$folder/node_modules/typescript/lib/tsc.js" --project "$project/jsconfig.json"
done
