#!/bin/sh
# One run of four processes on two machines. On each, with $MLBENCH_URL and $MLBENCH_TOKEN set:
#   sh torchrun.sh FIRST_MACHINE 0        and on the second one:        sh torchrun.sh FIRST_MACHINE 1
set -eu
exec torchrun --nnodes 2 --nproc-per-node 2 --node-rank "$2" \
    --master-addr "$1" --master-port "${MASTER_PORT:-29500}" \
    --no-python mlbench record --name sum -- python train.py
