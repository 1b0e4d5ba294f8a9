"""The environment of a rank's processes: their place in the run, and the files for their values."""

from collections.abc import Mapping

from mlbench.contract import names
from mlbench_worker.agent import torchrun
from mlbench_worker.agent.attempt_files import AttemptFiles


def of_rank(
    attempt: AttemptFiles, environ: Mapping[str, str], clock_offset_seconds: float
) -> dict[str, str]:
    """Return the environment of a rank started by the agent, whose environment is ``environ``.

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
        for library in ("OMP", "MKL", "OPENBLAS"):  # used by PyTorch and NumPy
            variables[f"{library}_NUM_THREADS"] = str(len(a.cpus))
    if a.keeps_checkpoints:
        variables[names.ENV_CHECKPOINTS] = str(attempt.checkpoints)
    if a.seed is not None:
        variables[names.ENV_SEED] = str(a.seed)
    if a.deadline_at is not None:
        variables[names.ENV_DEADLINE] = repr(a.deadline_at + clock_offset_seconds)
    return variables


def beside(attempt: AttemptFiles, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to the environment ``environ`` of an external rank."""
    added = torchrun.variables(attempt.assignment, attempt.error_file)
    return {
        **{name: value for name, value in added.items() if name not in environ},
        **of_any_rank(attempt),
    }


def of_any_rank(attempt: AttemptFiles) -> dict[str, str]:
    """Return the variables common to ranks of the agent and external ranks."""
    a = attempt.assignment
    return {
        # Output before a crash must reach its file.
        "PYTHONUNBUFFERED": "1",
        names.ENV_ATTEMPT: str(a.attempt),
        names.ENV_RANK: str(a.rank),
        names.ENV_WORLD_SIZE: str(a.world_size),
        names.ENV_METRICS_FILE: str(attempt.file("metrics")),
        names.ENV_OUTPUT: str(attempt.output),
        names.ENV_DIAGNOSIS: str(attempt.diagnosis),
    }
