"""Hang evidence of ranks, as agents would gather it."""

from collections.abc import Sequence
from typing import Any

from mlbench.contract.diagnosis import Collective, Evidence, Frame, Process, Thread

_USER, _TORCH = "/home/me/{}", "/venv/lib/python3.11/site-packages/torch/{}"
MAIN = Frame("<module>", _USER.format("train.py"), 50)
STEP = Frame("step", _USER.format("train.py"), 12)
LOAD = Frame("load_batch", _USER.format("data.py"), 41)
C10D = Frame("all_reduce", _TORCH.format("distributed/distributed_c10d.py"), 2900)
BACKWARD = Frame("backward", _TORCH.format("autograd/graph.py"), 80)
LOADER = Frame("_next_data", _TORCH.format("utils/data/dataloader.py"), 1200)
LOCK = Frame("acquire", "/usr/lib/python3.11/threading.py", 300)
JAX = Frame("_value", "/venv/lib/python3.11/site-packages/jax/_src/array.py", 600)

TRAINING = (C10D, STEP, MAIN)
"""Stack of a rank that waits for others in a collective."""


def entered(
    number: int, name: str = "all_reduce", sizes: Any = ((4,),), group: str = "0"
) -> Collective:
    return Collective(group, number, f"gloo:{name}", sizes, retired=False)


def over(number: int, group: str = "0") -> Collective:
    return Collective(group, number, "gloo:all_reduce", ((4,),), retired=True)


def evidence_of(
    number: int,
    *collectives: Collective,
    at: Sequence[Frame] = TRAINING,
    states: str = "S",
    **changed: Any,
) -> Evidence:
    """Make the evidence of a rank. ``states`` has one letter per process."""
    pid = 100 * (number + 1)
    processes = [
        Process(pid + i, pid if i else 1, "python", state, "nfs_wait", 3)
        for i, state in enumerate(states)
    ]
    fields: dict[str, Any] = {
        **{"rank": number, "at": 1000.0 + number, "gathered_in_seconds": 0.1, "steps": 21},
        **{"exit_code": None, "processes": tuple(processes), "collectives": collectives},
        "threads": (Thread(pid, "MainThread", True, tuple(at)),) if at else (),
        **{"stacks_by": "py-spy", "memory_bytes": None, "memory_limit_bytes": None},
        **{"out_of_memory_kills": 0, "throttled_seconds": None, "stdout_end": ""},
        **{"stderr_end": "", "gpu_errors": (), "missing": (), "quiet_seconds": 60.0},
    }
    return Evidence(**fields | changed)
