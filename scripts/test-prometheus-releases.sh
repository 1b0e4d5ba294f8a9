#!/usr/bin/env bash
# Run the tests of delivery with the versions of Prometheus in other releases of Debian.
set -euo pipefail
cd "$(dirname "$0")/.."

for release in trixie sid; do
    if ! PROMETHEUS=$(scripts/get-prometheus-of.sh "$release"); then
        echo "delivery with the Prometheus of Debian $release: it cannot be fetched" |
            tee -a "${MLBENCH_SKIPPED:-/dev/null}" >&2
        continue
    fi
    export PROMETHEUS
    "$PROMETHEUS" --version 2>&1 | head -n 1
    .venv/bin/pytest -n 3 --dist worksteal -p no:cacheprovider --with-prometheus -k "not postgresql" \
        tests/master/recording tests/master/reading tests/master/controller/test_sample_verification.py \
        tests/master/archives tests/chain/test_nothing_is_lost.py
done
