#!/usr/bin/env bash
# Write locks/*.txt: the exact versions that the images are built from, the newest that
# pyproject.toml allows, with the hashes of all their files on PyPI. PyTorch has
# no hash: PyPI, PyTorch's own indexes and mirrors have different builds of one version. Run this in a
# checkout after `make tools`; then commit the changes.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

# The images' Python: other versions may resolve to other packages.
python=.venv/bin/python
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
    fail "the images have Python 3.11, and so must .venv: make clean, then PYTHON=python3.11 make tools"

# Without local suffixes of versions, such as PyTorch's +cpu.
names_and_versions='
import json, sys
for package in json.load(sys.stdin)["install"]:
    found = package["metadata"]
    if found["name"] != "mlbench-stack":
        print(found["name"].lower().replace("_", "-"), found["version"].partition("+")[0], sep="==")
'

write_lock() { # FILE WHAT…
    local file=locks/$1.txt
    shift
    echo "Resolving $* into $file" >&2
    {
        echo "# Written by scripts/lock.sh."
        "$python" -m pip install --quiet --quiet --disable-pip-version-check \
            --dry-run --ignore-installed --report - "$@" |
            "$python" -c "$names_and_versions" | sort | grep -v '^torch==' |
            "$python" -m uv --quiet pip compile --generate-hashes --no-deps --no-header \
                --no-annotate --python-version 3.11 -
    } >"$file.new"
    mv "$file.new" "$file"
}

build_requires=$("$python" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["build-system"]["requires"], sep="\n")')
mapfile -t build_requires <<<"$build_requires"

torch=$("$python" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    extras = tomllib.load(file)["project"]["optional-dependencies"]
print(*(one.removeprefix("torch") for one in extras["worker"] if one.startswith("torch")))')

write_lock build "${build_requires[@]}"
write_lock master '.[master,kubernetes]'
write_lock worker '.[worker]'
write_lock jax '.[worker,jax]'
write_lock tensorflow '.[worker,tensorflow]'
write_lock exporter '.[exporter]'
{
    echo "# Written by scripts/lock.sh."
    "$python" -m pip install --quiet --quiet --disable-pip-version-check \
        --dry-run --ignore-installed --no-deps --report - 'torch'"$torch" |
        "$python" -c "$names_and_versions"
} >locks/torch.txt.new
mv locks/torch.txt.new locks/torch.txt
