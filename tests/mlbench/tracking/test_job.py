"""Job and rank of a process. The variables were observed with the real launchers."""

import sys
from pathlib import Path
from uuid import UUID

import orjson
import pytest

from mlbench.contract.errors import JobError
from mlbench.tracking.job import Job, find_job
from tests.support.processes import run_text


def _variables(text: str) -> dict[str, str]:
    """Return variables written as in a shell."""
    return dict(word.split("=", 1) for word in text.split())


_TORCHRUN = _variables("""
    RANK=3 LOCAL_RANK=1 GROUP_RANK=1 WORLD_SIZE=4 GROUP_WORLD_SIZE=2
    MASTER_ADDR=node-1 MASTER_PORT=29500
    TORCHELASTIC_RUN_ID=lm-7 TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0
""")
_BATCH = _variables("""
    SLURM_CLUSTER_NAME=alps SLURM_JOB_ID=42 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0
""")
_SLURM = _BATCH | _variables("SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3")
_OPEN_MPI_4 = _variables("""
    OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2
    OMPI_MCA_orte_precondition_transports=79b7f7aecf8e7a95-1ce3e1bd2ffb5f9f
    OMPI_MCA_ess_base_jobid=3422027777 PMIX_NAMESPACE=3422027777 PMIX_RANK=1
""")
_OPEN_MPI_5 = _variables("""
    OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=prterun-login-2201@1 PMIX_RANK=1
""")
_PMI = _variables("PMI_RANK=1 PMI_SIZE=2 PMI_FD=9 MPI_LOCALRANKID=1")
_INTEL_MPI = _PMI | {"I_MPI_HYDRA_UUID": "5d530000-e9f3-9f0a-3661-060019c3d65f"}
_PMI2 = _variables("PMI_RANK=3 PMI_SIZE=4 PMI_FD=13 PMI_JOBID=42.0")  # srun --mpi=pmi2
_TRAIN_JOB = _variables("""
    PET_NNODES=2 PET_NPROC_PER_NODE=auto PET_NODE_RANK=1 JOB_COMPLETION_INDEX=1
    PET_MASTER_ADDR=lm-node-0-0.lm PET_MASTER_PORT=29400
""")
_PYTORCH_JOB = _variables("""
    PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=lm-master-0 PET_MASTER_PORT=23456
    MASTER_ADDR=lm-master-0 MASTER_PORT=23456 RANK=1 WORLD_SIZE=2
""")
_ELASTIC = _variables("""
    PET_NNODES=1:4 PET_MAX_RESTARTS=100
    PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=lm-worker-0:23456 PET_RDZV_ID=first
""")
_INDEXED = _variables("JOB_COMPLETION_INDEX=2 HOSTNAME=lm-2 KUBERNETES_SERVICE_PORT=443")
_JOBSET = _variables("JOB_COMPLETION_INDEX=1 JOBSET_NAME=lm")
_JOBS = _JOBSET | _variables("""
    JOBSET_UID=4b1f JOBSET_JOB_GLOBAL_INDEX=2 JOBSET_GLOBAL_REPLICAS=3 JOBSET_RESTART_ATTEMPT=1
""")
_BARE = _variables("RANK=1 WORLD_SIZE=2 MASTER_ADDR=node-1 MASTER_PORT=29500")
_IN_PBS = {"PBS_JOBID": "7[1].head"}
_IN_LSF = _variables("LSB_JOBID=7 LSB_JOBINDEX=1")


def _of(environ: dict[str, str], *left_out: str, **changed: str) -> dict[str, str]:
    return {name: value for name, value in (environ | changed).items() if name not in left_out}


def _job(key: str, rank: int, num_workers: int, attempt: int = 1, max_restarts: int = 0) -> Job:
    """Return a job whose key begins with its launcher."""
    return Job(key, rank, num_workers, key.partition("-")[0], attempt, max_restarts)


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        (_TORCHRUN, _job("torchrun-lm-7", 3, 4)),
        (
            _of(_TORCHRUN, TORCHELASTIC_RESTART_COUNT="2", TORCHELASTIC_MAX_RESTARTS="3"),
            _job("torchrun-lm-7", 3, 4, attempt=3, max_restarts=3),
        ),
        (_of(_TORCHRUN, TORCHELASTIC_RUN_ID="none"), _job("torchrun-node-1:29500", 3, 4)),
        (
            _of(_TORCHRUN, TORCHELASTIC_RUN_ID="none", MASTER_ADDR="127.0.0.1"),
            _job("torchrun-lm-2:29500", 3, 4),
        ),
        # The innermost launcher determines the job.
        (_SLURM | _TORCHRUN, _job("torchrun-alps-42-lm-7", 3, 4)),
        (
            _SLURM | _of(_TORCHRUN, TORCHELASTIC_MAX_RESTARTS="3") | {"SLURM_RESTART_COUNT": "2"},
            _job("torchrun-alps-42-lm-7", 3, 4, attempt=9, max_restarts=3),
        ),
        (_BATCH | _OPEN_MPI_4, _job("mpi-79b7f7aecf8e7a95-1ce3e1bd2ffb5f9f", 1, 2)),
        (_SLURM | _BARE, _job("shell-alps-42-node-1:29500", 1, 2)),
        (_INDEXED | _BARE, _job("shell-node-1:29500", 1, 2)),
        # Slurm.
        (_SLURM, _job("slurm-alps-42.0", 3, 4)),
        (_of(_SLURM, "SLURM_CLUSTER_NAME"), _job("slurm-42.0", 3, 4)),
        (_of(_SLURM, "SLURM_STEP_NUM_TASKS"), _job("slurm-alps-42.0", 3, 4)),
        (
            _of(_SLURM, SLURM_STEP_ID="1", SLURM_STEP_NUM_TASKS="1", SLURM_PROCID="0"),
            _job("slurm-alps-42.1", 0, 1),
        ),
        (_of(_SLURM, SLURM_RESTART_COUNT="1"), _job("slurm-alps-42.0", 3, 4, attempt=2)),
        (_SLURM | _PMI2, _job("slurm-alps-42.0", 3, 4)),
        (_BATCH, _job("slurm-alps-42", 0, 1)),
        # MPI.
        (_OPEN_MPI_4, _job("mpi-79b7f7aecf8e7a95-1ce3e1bd2ffb5f9f", 1, 2)),
        (_OPEN_MPI_5, _job("mpi-prterun-login-2201@1", 1, 2)),
        (_SLURM | _INTEL_MPI, _job("mpi-5d530000-e9f3-9f0a-3661-060019c3d65f", 1, 2)),
        (_PMI | _IN_PBS, _job("mpi-7[1].head", 1, 2)),
        (_PMI | _IN_LSF, _job("mpi-7-1", 1, 2)),
        (_SLURM | _PMI, _job("mpi-alps-42", 1, 2)),
        # Kubernetes.
        (_TRAIN_JOB, _job("kubeflow-lm-node-0-0.lm:29400", 1, 2)),
        (_PYTORCH_JOB, _job("kubeflow-lm-master-0:23456", 1, 2)),
        (_of(_ELASTIC, PET_NNODES="4:4"), _job("kubeflow-lm-worker-0:23456-first", 2, 4)),
        # Variables set by the user.
        (_BARE, _job("shell-node-1:29500", 1, 2)),
        (_of(_BARE, MASTER_ADDR="::1"), _job("shell-lm-2:29500", 1, 2)),
    ],
)
def test_a_launcher_describes_the_job(environ: dict[str, str], job: Job) -> None:
    assert find_job(environ, hostname="lm-2") == job


@pytest.mark.parametrize(
    ("environ", "hostname", "job"),
    [
        (_INDEXED, "lm-2", Job("job-lm", 2, 6, "job")),
        (_INDEXED, "lm-2.lm.default.svc.cluster.local", Job("job-lm", 2, 6, "job")),
        (_of(_INDEXED, JOB_UID="4b1f"), "node-1", Job("job-4b1f", 2, 6, "job")),
        (_JOBSET, "lm-worker-0-1", Job("jobset-lm", 1, 6, "jobset")),
        (_JOBS, "lm-worker-2-1", Job("jobset-4b1f", 5, 6, "jobset", attempt=2)),
        (_ELASTIC, "lm-worker-1", Job("kubeflow-lm-worker-0:23456-first", 1, 6, "kubeflow")),
    ],
)
def test_the_number_of_workers_is_required_in_some_pods(
    environ: dict[str, str], hostname: str, job: Job
) -> None:
    assert find_job(environ, workers=6, hostname=hostname) == job
    with pytest.raises(JobError, match="--workers: required"):
        find_job(environ, hostname=hostname)


def test_options_take_precedence() -> None:
    assert find_job(_PMI, key="mine") == Job("mine", 1, 2, "mpi")
    assert find_job(_SLURM, key="mine", workers=8) == Job("mine", 3, 8, "slurm")
    assert find_job({}, key="mine", workers=1) == Job("mine", 0, 1, "shell")


@pytest.mark.parametrize(
    ("environ", "workers", "launcher"),
    [
        *((text, None, "shell") for text in ("PATH=/bin RANK=", "WORLD_SIZE=1")),
        ("RANK=0 WORLD_SIZE=1", None, "shell"),
        ("RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=1", None, "shell"),
        ("RANK=0 MASTER_ADDR=localhost MASTER_PORT=1", 1, "shell"),
        *((f"{mpi}_RANK=0 {mpi}_SIZE=1", None, "mpi") for mpi in ("PMI", "OMPI_COMM_WORLD")),
        *(("PET_NNODES=1", None, "kubeflow"), ("JOB_COMPLETION_INDEX=0", 1, "job")),
    ],
)
def test_a_job_of_one_rank_needs_no_key(environ: str, workers: int | None, launcher: str) -> None:
    job, other = (find_job(_variables(environ), workers=workers) for _ in range(2))
    assert (job.rank, job.num_workers, job.launcher) == (0, 1, launcher)
    assert job.key.startswith(f"{launcher}-")
    assert job.key != other.key


@pytest.mark.parametrize(
    ("environ", "workers", "message"),
    [
        (_of(_BARE, RANK="2"), None, r"rank: .* than .* 2 \(got 2\).*Correct RANK and WORLD_SIZE"),
        (_SLURM, 2, r"rank: must be less than .* 2 \(got 3\).*Correct SLURM_PROCID.* or --workers"),
        (_of(_BARE, RANK="first"), None, r"RANK: must be a whole number .* 0 \(got 'first'\)"),
        (_of(_SLURM, SLURM_RESTART_COUNT="²"), None, r"SLURM_RESTART_COUNT: .* \(got '²'\)"),
        (_of(_TRAIN_JOB, PET_NNODES="some"), None, r"PET_NNODES: .* \(got 'some'\)"),
        (_of(_BARE, "WORLD_SIZE"), None, "--workers: required, .* RANK and WORLD_SIZE"),
        (_of(_BARE, "MASTER_ADDR", "MASTER_PORT"), None, "--key: required, .* RANK and WORLD_SIZE"),
        (_PMI, None, "--key: required"),
        (_INDEXED, 4, "--key: required, .* JOB_COMPLETION_INDEX"),
        (_JOBS, 4, "--workers: does not match JOBSET_GLOBAL_REPLICAS 3"),
        (_JOBS, 3, "--workers: does not match .* JOB_COMPLETION_INDEX 1"),
        ({}, 4, r"rank: not in RANK and WORLD_SIZE, .* \(got 4\)"),
        ({"WORLD_SIZE": "4"}, None, r"rank: not in .* \(got 4\).* set RANK and WORLD_SIZE"),
        (_BATCH, 4, r"rank: not in .* \(got 4\)\. Start the ranks with srun"),
        (_ELASTIC, 4, r"rank: not in .* \(got 4\).* set PET_NODE_RANK"),
        ({}, 0, r"--workers: the number of ranks must be at least 1 \(got 0\)\. Give "),
        (_SLURM, -1, r"--workers: .* at least 1 \(got -1\)"),
        (_of(_SLURM, SLURM_STEP_NUM_TASKS="0"), None, r"SLURM_PROCID and .* \(got 0\)"),
    ],
)
def test_a_wrong_job_is_refused(environ: dict[str, str], workers: int | None, message: str) -> None:
    with pytest.raises(JobError, match=message):
        find_job(environ, workers=workers, hostname="node-x")


# --- Variables of a real torchrun. ---

_TORCHRUN_COMMAND = Path(sys.executable).with_name("torchrun")
# All attempts except the last one fail.
_PRINT = r"""
import dataclasses, json, os, sys
from mlbench.tracking.job import find_job

job = find_job(os.environ)
sys.stdout.write(json.dumps(dataclasses.asdict(job)) + "\n")  # at once, as ranks share it
sys.stdout.flush()
sys.exit(job.attempt <= job.max_restarts)
"""


def _jobs(*options: str) -> list[Job]:
    """Return the jobs found by the processes of torchrun, by attempt and rank."""
    if not _TORCHRUN_COMMAND.exists():
        pytest.skip("torchrun not found. Install PyTorch")
    how = ("--nproc-per-node=2", *options, "--no-python", sys.executable, "-c", _PRINT)
    ended = run_text([_TORCHRUN_COMMAND, *how], timeout=120)
    assert ended.returncode == 0, ended.stderr
    jobs = [Job(**orjson.loads(line)) for line in ended.stdout.splitlines()]
    return sorted(jobs, key=lambda job: (job.attempt, job.rank))


def test_torchrun_gives_each_run_a_unique_key_and_a_restart_the_same() -> None:
    jobs = _jobs("--standalone")
    key = jobs[0].key
    assert jobs == [_job(key, rank, 2) for rank in range(2)]
    UUID(key.removeprefix("torchrun-"))  # a different one each time
    rendezvous = ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv-id=lm")
    first, *jobs = _jobs(*rendezvous, "--max-restarts=1")
    assert (first.key, first.attempt, first.max_restarts) == ("torchrun-lm", 1, 1)
    assert jobs[-2:] == [_job("torchrun-lm", rank, 2, 2, 1) for rank in range(2)]
