#!/usr/bin/env bash
# Check that each migration of the database is as it was committed, and that none is missing. A
# database applies a migration once, so a later change of it would have no effect there.
# For a new one: (cd master/mlbench_master/migrations && sha256sum NNNN_what.py >>sha256sums)
set -euo pipefail
cd "$(dirname "$0")/../master/mlbench_master/migrations"

sha256sum --check --quiet --strict sha256sums ||
    { echo "A migration never changes: restore it, and write another one" >&2; exit 1; }
diff <(sed 's/.* //' sha256sums) <(ls [0-9]*.py) ||
    { echo "Each migration has a line in sha256sums, in order: see $0" >&2; exit 1; }
