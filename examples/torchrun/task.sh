#!/bin/sh
# Train one of MLBench's tasks, $1, on two processes, which torchrun restarts whenever they fail.
task=$1
shift
# Each has a core of its own; the worker has two.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
exec torchrun --nproc-per-node 2 --max-restarts 100 \
    -m "mlbench_worker.tasks.$task" --seed "$MLBENCH_SEED" "$@"
