"""A rank's assignment that tests can modify."""

from mlbench.contract.assignment import Assignment

ASSIGNMENT = Assignment(
    run_id=7,
    attempt=2,
    rank=1,
    world_size=4,
    master_addr="127.0.0.2",
    master_port=29500,
    command=("python", "-c", "pass"),
    cpus=(2, 3),
    keeps_checkpoints=True,
    working_dir="/tmp",
    seed=42,
    deadline_at=1_900_000_000.25,
)
