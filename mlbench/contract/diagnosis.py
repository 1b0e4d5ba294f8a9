"""Records of hang diagnoses: the evidence of each rank, and the verdict.

Each agent gathers the ``Evidence`` of its rank. ``judge`` in ``mlbench_diagnosis.judgement``
derives the ``Verdict`` from the evidence of all ranks.
"""

from dataclasses import dataclass
from typing import Literal

from mlbench.contract.records import Record, Time

Reason = Literal["asked", "stalled", "deadline", "failed", "stopped"]


@dataclass(frozen=True)
class Frame(Record):
    """A frame of a stack: a line of code that a thread is executing."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Thread(Record):
    """A Python thread and its stack."""

    pid: int
    """Id of the thread's process."""
    name: str
    is_main: bool
    """Whether this is the main thread of its process."""
    frames: tuple[Frame, ...]
    """Frames of the stack, innermost first."""


@dataclass(frozen=True)
class Process(Record):
    """A process of the rank, as the kernel reports it."""

    pid: int
    parent: int
    """Id of the parent process."""
    command: str
    """Command line of the process."""
    state: str
    """State letter of the kernel: R, S, D (blocked in I/O), T (stopped) or Z (zombie)."""
    waits_in: str
    """Kernel function in which the process waits (``wchan``); empty if unknown."""
    threads: int
    """Number of threads."""
    rank: int | None = None
    """Rank of the process if the worker's command starts several (torchrun); otherwise None."""
    phase: str = ""
    """Current phase of the process's tracker; empty outside all phases, or if unknown."""


@dataclass(frozen=True)
class Collective(Record):
    """The last collective operation that a rank has entered in a PyTorch process group."""

    group: str
    """Name of the process group."""
    number: int
    """Number of the collective in its group, from 1; 0 before the first one."""
    name: str
    """Backend and operation, such as ``gloo:all_reduce``."""
    sizes: tuple[tuple[int, ...], ...]
    """Shapes of the input tensors."""
    retired: bool
    """Whether the collective has completed or failed."""
    rank: int | None = None
    """Rank of the process if the worker's command starts several (torchrun); otherwise None."""


@dataclass(frozen=True)
class Evidence(Record):
    """The evidence that an agent gathered from its rank, or from all ranks of its worker."""

    rank: int
    at: float
    """Time of the evidence, in Unix seconds."""
    gathered_in_seconds: float
    """Time that gathering the evidence took, in seconds."""
    steps: int
    """Number of steps that the rank has reported."""
    exit_code: int | None
    """Exit code of the rank's process; None while it runs."""
    processes: tuple[Process, ...]
    """Processes of the rank: the first process, then its descendants."""
    threads: tuple[Thread, ...]
    """Python threads of these processes."""
    stacks_by: str
    """Source of the stacks: ``py-spy``, ``faulthandler``, or ``traceback`` for a failed process.

    Empty without stacks.
    """
    collectives: tuple[Collective, ...]
    """Last collective of each process group, the default group first."""
    memory_bytes: int | None
    """Memory that the rank's control group uses, in bytes; None if unknown."""
    memory_limit_bytes: int | None
    """Memory limit of the rank's control group, in bytes; None if unlimited or unknown."""
    out_of_memory_kills: int
    """Number of processes that the kernel killed for lack of memory since the rank's start."""
    throttled_seconds: float | None
    """Seconds for which the CPU limit throttled the rank since its start; None if unknown."""
    stdout_end: str
    """Last lines of the standard output."""
    stderr_end: str
    """Last lines of the standard error."""
    gpu_errors: tuple[str, ...]
    """GPU errors (Xid) in the kernel's log."""
    missing: tuple[str, ...]
    """Evidence that could not be gathered, with the reasons, a sentence each."""
    quiet_seconds: float | None = None
    """Seconds since the rank's last step or the start of an evaluation; None before the first."""
    usual_step_seconds: float | None = None
    """Mean time per step so far, in seconds; None before the first step."""
    failure: str = ""
    """Error that the process reported; empty if it has not failed."""
    ranks: tuple[int, ...] = ()
    """Ranks of the worker's processes if it has several (torchrun); otherwise empty."""
    world_size: int = 0
    """Number of training processes in the run, as these processes report it; 0 if unknown."""
    native: tuple[Thread, ...] = ()
    """Threads with native (C) frames, if they were requested."""


@dataclass(frozen=True)
class StackLine(Record):
    """A frame in the merged tree of all ranks' stacks, in depth-first order."""

    depth: int
    """Depth of the frame in the tree; 0 is the outermost frame of a process."""
    frame: Frame
    here: tuple[int, ...]
    """Ranks that are in this frame."""
    elsewhere: tuple[int, ...]
    """Ranks that are in the parent frame, but not in this one."""


@dataclass(frozen=True)
class Verdict(Record):
    """The verdict of a hang diagnosis: why the run hangs, according to the evidence."""

    kind: str
    """Kind of the hang:

    - ``exited``: ranks have exited
    - ``stopped``: a signal has stopped ranks
    - ``blocked_io``: ranks are blocked in I/O
    - ``not_in_collective``: ranks have not entered the collective in which the others wait
    - ``mismatch``: ranks disagree about a collective
    - ``network``: all ranks wait in the same collective
    - ``same_line``: all ranks are at the same line
    - ``progressing``: the run progresses
    - ``unknown``: the evidence is not sufficient
    """
    at_fault: tuple[int, ...]
    """Ranks at fault; empty if none is, or if unknown."""
    where: str
    """Frame of the ranks at fault, as ``function (file:line)``; empty if unknown."""
    collective: str
    """Collective in which the other ranks wait, such as ``all_reduce 22``; empty if unknown."""
    sentence: str
    """Verdict in a sentence."""
    certainty: str
    """Certainty of the verdict: ``certain``, ``likely`` or ``none``."""


@dataclass(frozen=True)
class Diagnosis(Record):
    """A hang diagnosis of a run."""

    id: int
    attempt: int
    reason: Reason
    """Reason for the diagnosis:

    - ``asked``: a user requested it
    - ``stalled``: the run makes no progress
    - ``deadline``: the run is past its deadline
    - ``failed``: a rank has failed, and the other processes are about to be stopped
    - ``stopped``: a user has stopped the run, and its processes are about to be stopped
    """
    asked_at: Time
    """Time of the request."""
    done: bool
    """Whether all ranks have responded, or the time to respond is over."""
    verdict: Verdict
    stacks: tuple[StackLine, ...]
    """Stacks of all ranks, merged into a tree."""
    evidence: tuple[Evidence, ...]
    """Evidence of each rank that has responded."""
