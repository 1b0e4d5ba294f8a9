#!/usr/bin/env bash
# Build the images of the end-to-end tests: MLBench's images, and stand-ins for third-party ones.
set -euo pipefail
cd "$(dirname "$0")/../.."

prefix=${E2E_IMAGES:-localhost/mlbench}
tag=${E2E_TAG:-e2e}

make --no-print-directory images IMAGES="$prefix" TAG="$tag"
for name in prometheus custom; do
    folder=tests/e2e/images/$name
    scripts/build-image.sh "$prefix/$name:$tag" "$folder/Dockerfile" "$folder"
done
scripts/build-image.sh "$prefix/original:$tag" tests/e2e/images/original/Dockerfile \
    tests/contract/original --build-arg WORKER="$prefix/worker:$tag"
