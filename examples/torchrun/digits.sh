#!/bin/sh
# Train MLBench's digits on two processes, which torchrun begins anew as often as they fail.
exec torchrun --nproc-per-node 2 --max-restarts 100 \
    -m mlbench_worker.tasks.digits --checkpoint-steps 20 --seed "$MLBENCH_SEED"
