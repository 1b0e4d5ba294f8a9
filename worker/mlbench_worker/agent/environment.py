"""The environment of a rank's processes: who they are in their run, and where they record."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlbench.contract import names
from mlbench_worker.agent import torchrun

if TYPE_CHECKING:
    from mlbench_worker.agent.attempt import Attempt

# As PyTorch, and the libraries that it and NumPy compute with, read them.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def of_rank(
    attempt: "Attempt", environ: Mapping[str, str], clock_offset_seconds: float
) -> dict[str, str]:
    """Return the environment of a rank that its agent starts, which has itself ``environ``.

    ``clock_offset_seconds`` is the lead of this machine's clock over the master's.
    """
    a = attempt.assignment
    variables = {
        **torchrun.variables(a, attempt.error_file),
        **environ,
        "RANK": str(a.rank),
        "LOCAL_RANK": "0",
        "NODE_RANK": str(a.rank),  # PyTorch Lightning's
        "WORLD_SIZE": str(a.world_size),
        "MASTER_ADDR": a.master_addr,
        "MASTER_PORT": str(a.master_port),
        **of_any_rank(attempt),
        names.ENV_RUN_ID: str(a.run_id),
        names.ENV_MULTIPROC_DIR: str(attempt.counters),
    }
    if a.cpus:
        variables |= dict.fromkeys(_THREADS, str(len(a.cpus)))
    if a.keeps_checkpoints:
        variables[names.ENV_CHECKPOINTS] = str(attempt.checkpoints)
    if a.seed is not None:
        variables[names.ENV_SEED] = str(a.seed)
    if a.deadline_at is not None:
        variables[names.ENV_DEADLINE] = repr(a.deadline_at + clock_offset_seconds)
    return variables


def beside(attempt: "Attempt", environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a rank that others start with ``environ``, whose own stay."""
    added = torchrun.variables(attempt.assignment, attempt.error_file)
    return {
        **{name: value for name, value in added.items() if name not in environ},
        **of_any_rank(attempt),
    }


def of_any_rank(attempt: "Attempt") -> dict[str, str]:
    """Return the variables that the processes of any rank have, whoever starts them."""
    a = attempt.assignment
    return {
        # So that the lines before a crash reach their file.
        "PYTHONUNBUFFERED": "1",
        names.ENV_ATTEMPT: str(a.attempt),
        names.ENV_RANK: str(a.rank),
        names.ENV_WORLD_SIZE: str(a.world_size),
        names.ENV_METRICS_FILE: str(attempt.file("metrics")),
        names.ENV_OUTPUT: str(attempt.output),
        names.ENV_AUTOPSY: str(attempt.autopsy),
    }
