"""Which job a process is a rank of, by what its launcher tells it and by what the user says."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from mlbench.errors import JobError
from mlbench.launchers import LAUNCHERS, Variables


@dataclass(frozen=True)
class Job:
    """What a process is told by its launcher: which job it is a rank of."""

    key: str  # that all ranks of the job share, and no other job of its time
    rank: int
    num_workers: int
    launcher: str  # the name of one in mlbench.launchers; "shell" is one process alone
    attempt: int = 1
    max_restarts: int = 0


def find_job(
    environ: Mapping[str, str],
    *,
    key: str | None = None,
    workers: int | None = None,
    hostname: str | None = None,
) -> Job:
    """Return the job that a process with these environment variables is a rank of.

    Args:
        environ: the variables. Those of the innermost launcher count, as torchrun's in a task of
            Slurm. A process without any is a job of its own.
        key: the key, whatever the variables say.
        workers: the number of ranks, whatever the variables say.
        hostname: the name of the machine or pod, by default this one's.

    Raises:
        JobError: variables and options say too little, or contradict each other.
    """
    variables = Variables(environ, hostname or socket.gethostname(), workers)
    read = ((launcher, launcher.read(variables)) for launcher in LAUNCHERS)
    launcher, stated = next((launcher, stated) for launcher, stated in read if stated)
    size = stated.size if workers is None else workers
    if size is None:
        raise JobError(f"{launcher.variables} do not tell the number of ranks: say --workers")
    if stated.rank is None and size != 1:
        raise JobError(
            f"nothing says which of {size} ranks this process is: start each with srun, torchrun "
            f"or mpirun, or set {launcher.variables}"
        )
    rank = stated.rank or 0
    if rank >= size:
        raise JobError(
            f"there is no rank {rank} of {size}, as they count from 0: "
            f"correct {launcher.variables}, or --workers"
        )
    if not key and not stated.key:
        raise JobError(
            f"nothing names the job that {launcher.variables} belong to: "
            "say --key, the same for all of its ranks and for no other job"
        )
    return Job(
        key=key or f"{launcher.name}-{stated.key}",
        rank=rank,
        num_workers=size,
        launcher=launcher.name,
        attempt=stated.attempt,
        max_restarts=stated.max_restarts,
    )
