#!/usr/bin/env bash
# Fail where the code has outgrown its budget: growth is a decision that somebody writes down here.
set -euo pipefail
cd "$(dirname "$0")/.."

# A newcomer reads the whole in a week at this size. Whoever raises a number says what it buys.
check() { # NAME MOST PATTERN...
    local name=$1 most=$2 lines
    shift 2
    lines=$(git ls-files -z -- "$@" | xargs -0 cat | wc -l)
    echo "$name: $lines lines of at most $most"
    [ "$lines" -le "$most" ] || { echo "check-size.sh: $name is too large" >&2; return 1; }
}

failed=0
check "product Python" 28000 {mlbench,master,worker,exporter,grafana,helm}/'*.py' || failed=1
check "JavaScript" 6000 'master/web/*.js' || failed=1
check "tests" 33000 'tests/*.py' 'tests/*.js' || failed=1
exit "$failed"
