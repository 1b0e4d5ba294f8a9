"""The job and rank of a process, from the environment variables of its launcher and from its user.

Slurm, torchrun, MPI and Kubeflow set their variables automatically. Pods of a Job or a JobSet get
few variables; their manifest can pass on these labels by the downward API:

| variable | label |
|---|---|
| ``JOB_UID`` | ``batch.kubernetes.io/controller-uid`` |
| ``JOBSET_NAME``, ``JOBSET_UID`` | ``jobset.sigs.k8s.io/jobset-name``, ``…/jobset-uid`` |
| ``JOBSET_JOB_GLOBAL_INDEX`` | ``jobset.sigs.k8s.io/job-global-index`` |
| ``JOBSET_GLOBAL_REPLICAS`` | ``jobset.sigs.k8s.io/global-replicas``, the number of its Jobs |
| ``JOBSET_RESTART_ATTEMPT`` | ``jobset.sigs.k8s.io/restart-attempt`` |
"""

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mlbench.contract.errors import JobError


@dataclass(frozen=True)
class Job:
    """The job and rank of a process."""

    key: str  # shared by all ranks of the job, and by no other job at the time
    rank: int
    num_workers: int
    launcher: str  # a name in _LAUNCHERS; "shell" is a single process
    attempt: int = 1
    max_restarts: int = 0


@dataclass(frozen=True)
class Found:
    """Content of the variables of a launcher; None where they are not set."""

    key: str | None
    rank: int | None
    size: int | None
    attempt: int = 1
    max_restarts: int = 0


@dataclass(frozen=True)
class Variables:
    """Environment, host name and options. An empty variable counts as not set."""

    environ: Mapping[str, str]
    hostname: str
    workers: int | None = None  # as the user says

    def text(self, *names: str) -> str | None:
        """Return the first of these variables that is set."""
        return next((self.environ[name] for name in names if self.environ.get(name)), None)

    def number(self, *names: str) -> int | None:
        """Return the number in the first of these variables that is set."""
        return next((_number(self.environ[n], n) for n in names if self.environ.get(n)), None)

    def count(self, name: str) -> int:
        """Return a number that is 0 unless the variable is set."""
        return self.number(name) or 0

    def master(self) -> str | None:
        """Return the address of rank 0; a loopback address is replaced by the host name."""
        address = self.text("MASTER_ADDR")
        if address and re.fullmatch(r"localhost|127\.[\d.]+|::1", address):
            address = self.hostname
        return _joined(address, self.text("MASTER_PORT"), by=":")

    def slurm_job(self) -> str | None:
        """Return a name for the Slurm job; each task of an array is a job."""
        job = self.text("SLURM_JOB_ID")
        return job and _joined(self.text("SLURM_CLUSTER_NAME"), job)


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise JobError(f"{name}: must be a whole number of at least 0 (got {text!r})")
    return int(text)


def _joined(*words: str | None, by: str = "-") -> str | None:
    return by.join(filter(None, words)) or None


def _index(hostname: str) -> tuple[str, int | None]:
    """Return the name of a pod's owner and the pod's number: ("train", 3) for ``train-3.train``."""
    owner, _, index = hostname.partition(".")[0].rpartition("-")
    return (owner, int(index)) if index.isdecimal() else (hostname, None)


def _torchrun(v: Variables) -> Found | None:
    """Read torchrun's variables; a requeue by Slurm continues the count of attempts."""
    run_id = v.text("TORCHELASTIC_RUN_ID")
    if run_id is None:
        return None
    restarts = v.count("TORCHELASTIC_MAX_RESTARTS")
    earlier = v.count("SLURM_RESTART_COUNT") * (restarts + 1)
    return Found(
        _joined(v.slurm_job(), v.master() if run_id == "none" else run_id),
        v.number("RANK"),
        v.number("WORLD_SIZE"),
        earlier + v.count("TORCHELASTIC_RESTART_COUNT") + 1,
        restarts,
    )


def _open_mpi(v: Variables) -> Found | None:
    """Read Open MPI's variables; the key is random in version 4, mpirun's process in 5."""
    rank = v.number("OMPI_COMM_WORLD_RANK")
    if rank is None:
        return None
    key = v.text("OMPI_MCA_orte_precondition_transports", "PMIX_NAMESPACE")
    return Found(key, rank, v.number("OMPI_COMM_WORLD_SIZE"))


def _pmi(v: Variables) -> Found | None:
    """Read PMI variables; Intel MPI sets a key, for MPICH the batch system does."""
    rank, size = v.number("PMI_RANK"), v.number("PMI_SIZE")
    if rank is None or v.text("PMI_JOBID") == f"{v.text('SLURM_JOB_ID')}.{v.text('SLURM_STEP_ID')}":
        return None
    if uuid := v.text("I_MPI_HYDRA_UUID"):
        return Found(uuid, rank, size)
    batch = v.text("PBS_JOBID") or _joined(v.text("LSB_JOBID"), v.text("LSB_JOBINDEX"))
    return Found(v.slurm_job() or batch, rank, size, v.count("SLURM_RESTART_COUNT") + 1)


def _kubeflow(v: Variables) -> Found | None:
    """Read Kubeflow's variables for torchrun; pods of an elastic job do not know their rank."""
    nodes = v.text("PET_NNODES")
    if nodes is None:
        return None
    least, _, most = nodes.partition(":")
    rank = v.number("PET_NODE_RANK", "RANK")
    master = _joined(v.text("PET_MASTER_ADDR"), v.text("PET_MASTER_PORT"), by=":")
    return Found(
        _joined(v.text("PET_RDZV_ENDPOINT") or master, v.text("PET_RDZV_ID")),
        _index(v.hostname)[1] if rank is None else rank,
        _number(least, "PET_NNODES") if most in ("", least) else None,
    )


def _environment(v: Variables) -> Found | None:
    """An address does not identify a job of one rank: images set the same one for all."""
    rank, size = v.number("RANK"), v.number("WORLD_SIZE")
    if rank is None:
        return None
    attempt = v.count("SLURM_RESTART_COUNT") + 1
    address = None if (v.workers or size) == 1 else v.master()
    return Found(_joined(v.slurm_job(), address), rank, size, attempt)


def _slurm(v: Variables) -> Found | None:
    """Read Slurm's variables; a batch script is a single process, although it sees the tasks."""
    job, step = v.slurm_job(), v.text("SLURM_STEP_ID")
    attempt = v.count("SLURM_RESTART_COUNT") + 1
    if job is None:
        return None
    if step is None:
        return Found(job, None, 1, attempt)
    size = v.number("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    return Found(f"{job}.{step}", v.number("SLURM_PROCID"), size, attempt)


def _jobset(v: Variables) -> Found | None:
    """Read JobSet's variables; all Jobs must have the same size to number the ranks."""
    name, index = v.text("JOBSET_UID", "JOBSET_NAME"), v.number("JOB_COMPLETION_INDEX")
    if name is None or index is None:
        return None
    jobs, size = v.number("JOBSET_GLOBAL_REPLICAS") or 1, v.workers or 0
    pods = size // jobs
    if size % jobs or index >= pods > 0:
        raise JobError(
            f"--workers: does not match JOBSET_GLOBAL_REPLICAS {jobs} and JOB_COMPLETION_INDEX "
            f"{index} (got {size}). Set it to the number of Jobs times the pods of each."
        )
    rank = v.count("JOBSET_JOB_GLOBAL_INDEX") * pods + index
    return Found(name, rank, None, v.count("JOBSET_RESTART_ATTEMPT") + 1)


def _job(v: Variables) -> Found | None:
    """Read the index in a Job; the host name is JOB-INDEX, except on the node's network."""
    index = v.number("JOB_COMPLETION_INDEX")
    if index is None:
        return None
    owner, number = _index(v.hostname)
    return Found(v.text("JOB_UID") or (owner if number == index else None), index, None)


@dataclass(frozen=True)
class Launcher:
    """A launcher, and the reader of its variables."""

    name: str
    variables: str  # of rank and size, for messages
    read: Callable[[Variables], Found | None]


# From the innermost outwards: torchrun may run in a task of Slurm.
_LAUNCHERS: Final = (
    Launcher("torchrun", "RANK and WORLD_SIZE", _torchrun),
    Launcher("mpi", "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE", _open_mpi),
    Launcher("mpi", "PMI_RANK and PMI_SIZE", _pmi),
    Launcher("kubeflow", "PET_NODE_RANK and PET_NNODES", _kubeflow),
    Launcher("shell", "RANK and WORLD_SIZE", _environment),
    Launcher("slurm", "SLURM_PROCID and SLURM_STEP_NUM_TASKS", _slurm),
    Launcher("jobset", "JOBSET_JOB_GLOBAL_INDEX and JOB_COMPLETION_INDEX", _jobset),
    Launcher("job", "JOB_COMPLETION_INDEX", _job),
    Launcher(
        "shell", "RANK and WORLD_SIZE", lambda v: Found(None, None, v.number("WORLD_SIZE") or 1)
    ),
)


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
            Slurm. A process without any is a separate job.
        key: the key, whatever the variables say.
        workers: the number of ranks, whatever the variables say.
        hostname: the name of the machine or pod, by default this one's.

    Raises:
        JobError: variables and options say too little, or contradict each other.
    """
    variables = Variables(environ, hostname or socket.gethostname(), workers)
    read = ((launcher, launcher.read(variables)) for launcher in _LAUNCHERS)
    launcher, content = next((launcher, content) for launcher, content in read if content)
    size = content.size if workers is None else workers
    if size is None:
        raise JobError(
            f"--workers: required, because the number of ranks is not in {launcher.variables}"
        )
    if size < 1:
        source = launcher.variables if workers is None else "--workers"
        raise JobError(
            f"{source}: the number of ranks must be at least 1 (got {size}). "
            "Give the number of processes of the job."
        )
    if content.rank is None and size != 1:
        raise JobError(
            f"rank: not in {launcher.variables}, but the job has several ranks (got {size}). "
            f"Start the ranks with srun, torchrun or mpirun, or set {launcher.variables}."
        )
    rank = content.rank or 0
    if rank >= size:
        raise JobError(
            f"rank: must be less than the number of ranks, {size} (got {rank}). "
            f"Correct {launcher.variables}, or --workers."
        )
    own_key = content.key or (os.urandom(8).hex() if size == 1 else None)
    if not key and not own_key:
        raise JobError(
            f"--key: required, because nothing in {launcher.variables} identifies the job. "
            "Use the same key for all ranks of this job, and for no other job."
        )
    return Job(
        key=key or f"{launcher.name}-{own_key}",
        rank=rank,
        num_workers=size,
        launcher=launcher.name,
        attempt=content.attempt,
        max_restarts=content.max_restarts,
    )
