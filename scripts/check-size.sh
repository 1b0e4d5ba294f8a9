#!/usr/bin/env bash
# Fail where the code has outgrown its budget: growth is a decision that somebody writes down here.
set -euo pipefail
cd "$(dirname "$0")/.."

# A newcomer shall read the whole in a week: 28,000 lines of product Python, 6,000 of JavaScript and
# 33,000 of tests. Where a number below is larger, it is where the code stands, and may only fall:
# what keeps a hostile rank from harming others came after these sizes had been set.
check() { # NAME MOST PATTERN...
    local name=$1 most=$2 lines
    shift 2
    lines=$(git ls-files -z -- "$@" | xargs -0 cat | wc -l)
    echo "$name: $lines lines of at most $most"
    [ "$lines" -le "$most" ] || { echo "check-size.sh: $name is too large" >&2; return 1; }
}

failed=0
check "product Python" 32500 {mlbench,master,worker,exporter,grafana,helm}/'*.py' || failed=1
check "JavaScript" 6000 'master/web/*.js' || failed=1
check "tests" 40000 'tests/*.py' 'tests/*.js' || failed=1
exit "$failed"
