#!/usr/bin/env bash
# Fail where the code has outgrown its budget: growth is a decision that somebody writes down here.
set -euo pipefail
cd "$(dirname "$0")/.."

# A newcomer shall read the whole in a week: the aim is 28,000 lines of product Python, 6,000 of
# JavaScript and 33,000 of tests. A number below that is larger is where the code stands, and may
# only fall; it rises for a capability that users asked for, and then a sentence here says which.
# Above the aim are: what keeps a hostile rank from harming others (5,000 lines came with it, and
# 3,500 went again), options that are checked when they are ordered, dashboards that are right for
# short runs and for 200 workers, and all that lets a stranger believe a number (5,000 lines and
# 2,400 of tests): disturbance measured by the kernel, sets with their ledger and MLPerf's rules,
# archives that are sealed, verified, exchanged and published, and clocks that may be wrong. What
# code logs already, by ten libraries and MLBench's own client, took 3,100 more, and as many of tests.
# Two more frameworks, nine more algorithms, language models, networks of local workers, sweeps with
# their frontier, and the page of results took 5,000, and 2,200 of tests. One result on every screen,
# with the ranks' figures, a run's alerts, and additions after its end took 1,200, and 1,300 of tests.
# What a referee asks (tests that are paired and corrected, intervals of speed-ups, sets that cannot
# be forged by their digests alone, signatures, facts of processors) took 800, and 300 of tests.
# Files that are compared and verified without a master, Trainers that are recorded without a line,
# data sets without a repository, and damage that is found at the start took 700, and 900 of tests.
# Longer names of packages, whose imports take more lines, took 100, and 70 of tests.
# `make quick`, and tests that take two thirds of the time, took 60 of tests.
check() { # NAME MOST PATTERN...
    local name=$1 most=$2 lines
    shift 2
    lines=$(git ls-files -z -- "$@" | xargs -0 cat | wc -l)
    echo "$name: $lines lines of at most $most"
    [ "$lines" -le "$most" ] || { echo "check-size.sh: $name is too large" >&2; return 1; }
}

failed=0
check "product Python" 48400 {mlbench,master,worker,exporter,grafana,helm}/'*.py' || failed=1
check "JavaScript" 6420 'master/mlbench_master/web/*.js' || failed=1
check "tests" 47340 'tests/*.py' 'tests/*.js' || failed=1
exit "$failed"
