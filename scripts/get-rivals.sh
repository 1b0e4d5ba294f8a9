#!/usr/bin/env bash
# Install what `python -m benchmarks.run rivals` measures beside us, each into .benchmarks/NAME.
# usage: get-rivals.sh NAME… (of: dashboard mlflow)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

# The versions that MLBench's dashboard names cannot be installed with a Python of today: these are
# the newest with which its source works. The source itself is the user's to fetch.
packages() {
    case $1 in
        dashboard)
            echo 'django==5.2.*' 'djangorestframework<4' 'django-constance<5' 'django-rq<5' \
                docker gunicorn kubernetes pid pytz websocket-client
            ;;
        mlflow) echo 'mlflow==3.*' ;;
        *) fail "there is no $1: choose of dashboard, mlflow" ;;
    esac
}

for name in "$@"; do
    list=$(packages "$name")
    read -ra wanted <<<"$list"
    folder=.benchmarks/$name
    [ ! "$folder/.installed" -nt scripts/get-rivals.sh ] || continue
    echo "Installing ${wanted[*]} into $folder" >&2
    make_venv "$folder"
    pip_install "$folder/bin/python" "${wanted[@]}"
    touch "$folder/.installed" # last: an interrupted installation leaves none
done
