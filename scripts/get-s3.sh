#!/usr/bin/env bash
# Print a server of S3's protocol, for tests; if it is missing, install moto's into .tools/s3.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

folder=$tools/s3
lock s3
if [ ! "$folder/.installed" -nt scripts/get-s3.sh ]; then
    echo "Installing an S3 server into .tools/s3" >&2
    make_venv "$folder"
    # Separate from .venv, because botocore requires an older python-dateutil than kubernetes.
    pip_install "$folder/bin/python" 'moto[server]>=5,<6'
    touch "$folder/.installed" # last: an interrupted installation leaves none
fi
echo "$folder/bin/moto_server"
