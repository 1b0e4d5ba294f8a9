#!/usr/bin/env bash
# Check that each migration of the database is as it was committed, and that none is missing. A
# database that has had a migration never gets it again, so that a changed one would be lost there.
# For a new one: (cd master/mlbench_master/migrations && sha256sum NNNN_what.py >>sha256sums)
set -euo pipefail
cd "$(dirname "$0")/../master/mlbench_master/migrations"

sha256sum --check --quiet --strict sha256sums ||
    { echo "A migration never changes: restore it, and write another one" >&2; exit 1; }
diff <(sed 's/.* //' sha256sums) <(ls [0-9]*.py) ||
    { echo "Each migration has a line in sha256sums, in order: see $0" >&2; exit 1; }
