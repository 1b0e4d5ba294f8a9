#!/usr/bin/env bash
# Write locks/*.txt: the exact versions that the images are built from, the newest that
# pyproject.toml allows. Run it in a checkout with `make install` done; then commit what changed.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "lock.sh: $*" >&2
    exit 1
}

# The images' Python: other versions may resolve to other packages.
python=.venv/bin/python
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
    fail "the images have Python 3.11, and so must .venv: make clean, then PYTHON=python3.11 make install"

# Without what one machine adds to a version, such as PyTorch's +cpu.
names_and_versions='
import json, sys
for package in json.load(sys.stdin)["install"]:
    found = package["metadata"]
    if found["name"] != "mlbench":
        print(found["name"].lower().replace("_", "-"), found["version"].partition("+")[0], sep="==")
'

lock() { # FILE WHAT…
    local file=locks/$1.txt
    shift
    echo "Resolving $* into $file" >&2
    {
        echo "# Written by scripts/lock.sh."
        "$python" -m pip install --quiet --quiet --disable-pip-version-check \
            --dry-run --ignore-installed --report - "$@" | "$python" -c "$names_and_versions" | sort
    } >"$file.new"
    mv "$file.new" "$file"
}

build_requires=$("$python" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["build-system"]["requires"], sep="\n")')
mapfile -t build_requires <<<"$build_requires"

lock build "${build_requires[@]}"
lock master '.[master,kubernetes]'
lock worker '.[worker]'
lock exporter '.[exporter]'
