"""What is gathered of the ranks of a run that hangs or fails, and what it says of who is at fault.

An agent gathers the ``Evidence`` of its rank; ``mlbench.evaluation.hang_diagnosis.judge`` makes a
``Verdict`` of that of all ranks.
"""

from dataclasses import dataclass
from typing import Literal

from mlbench.contract.records import Record, Time

Reason = Literal["asked", "stalled", "deadline", "failed", "stopped"]


@dataclass(frozen=True)
class Frame(Record):
    """A place in code that a thread is at."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Thread(Record):
    """A thread of Python and where it is."""

    pid: int
    name: str
    is_main: bool
    frames: tuple[Frame, ...]
    """The innermost first."""


@dataclass(frozen=True)
class Process(Record):
    """A process of the rank, as the kernel describes it."""

    pid: int
    parent: int
    command: str
    state: str
    """The kernel's letter: R, S, D (waits for a device), T (stopped), Z (a zombie)."""
    waits_in: str
    """The function of the kernel that it waits in (``wchan``); "" if unknown."""
    threads: int
    rank: int | None = None
    """Its rank where the worker's command starts several, as torchrun does; null for others."""
    phase: str = ""
    """The phase of ``Tracker.phase`` that its training is in; "" outside of all, or if unknown."""


@dataclass(frozen=True)
class Collective(Record):
    """The last collective operation that the rank has entered in a process group of PyTorch."""

    group: str
    number: int
    """It counts the group's collectives, from 1; 0 if there was none."""
    name: str
    """For instance ``gloo:all_reduce``."""
    sizes: tuple[tuple[int, ...], ...]
    """The shapes of what it was given."""
    retired: bool
    """Whether it is over: done, or failed."""
    rank: int | None = None
    """Of the process that has entered it, as of a ``Process``."""


@dataclass(frozen=True)
class Evidence(Record):
    """What an agent has gathered of its rank, or of the ranks of its processes."""

    rank: int
    at: float
    """In Unix seconds."""
    gathered_in_seconds: float
    steps: int
    """The steps that the rank has reported."""
    exit_code: int | None
    """Of its process; null while it lives."""
    processes: tuple[Process, ...]
    """The process that was started first, then its descendants."""
    threads: tuple[Thread, ...]
    stacks_by: str
    """``py-spy``, ``faulthandler`` or, of one that has failed, ``traceback``; "" if none has."""
    collectives: tuple[Collective, ...]
    """One for each process group; the default group's first."""
    memory_bytes: int | None
    memory_limit_bytes: int | None
    out_of_memory_kills: int
    """Since the rank was started."""
    throttled_seconds: float | None
    """Since the rank was started; null where the control group does not count it."""
    stdout_end: str
    stderr_end: str
    gpu_errors: tuple[str, ...]
    """The kernel's lines about GPUs (Xid)."""
    missing: tuple[str, ...]
    """What could not be gathered, and why: sentences."""
    quiet_seconds: float | None = None
    """Since its last step, or the beginning of an evaluation; null if it has told of none."""
    usual_step_seconds: float | None = None
    """The mean of its steps so far; null if there was none."""
    failure: str = ""
    """Why it has failed, as it says itself; "" if it has not."""
    ranks: tuple[int, ...] = ()
    """Those of its processes where it is a worker's that has several; none for any other."""
    world_size: int = 0
    """How many there are in all, as these know; 0 if they do not."""
    native: tuple[Thread, ...] = ()
    """The threads with their frames of C beside those of Python, if they were asked for."""


@dataclass(frozen=True)
class StackLine(Record):
    """A frame in the tree that the stacks of all ranks make; below it are deeper ones."""

    depth: int
    """0 for where a process begins."""
    frame: Frame
    here: tuple[int, ...]
    """The ranks that are in it."""
    elsewhere: tuple[int, ...]
    """The ranks that are in the frame above it, and not here."""


@dataclass(frozen=True)
class Verdict(Record):
    """Why a run does not go on, as far as the evidence says."""

    kind: str
    """``gone``, ``stopped``, ``device``, ``behind``, ``mismatch``, ``network``, ``shared``,
    ``going``, as ranks did a step meanwhile, or ``unknown``."""
    culprits: tuple[int, ...]
    """The ranks at fault; none where nobody is, or it cannot be told."""
    where: str
    """The frame that they are at, as ``function (file:line)``; "" if unknown."""
    collective: str
    """What the others wait in, as ``all_reduce 22``; "" if unknown."""
    sentence: str
    certainty: str
    """``certain``, ``likely`` or ``none``."""


@dataclass(frozen=True)
class Autopsy(Record):
    """What was found of a run when it was asked why it does not go on."""

    id: int
    attempt: int
    reason: Reason
    """Why it was asked: by a user, because it makes no progress, as it is past its deadline, or, in
    the seconds before its processes are ended, because a rank has failed or a user stops it."""
    asked_at: Time
    done: bool
    """Whether all ranks have told what they can, or had the time to."""
    verdict: Verdict
    stacks: tuple[StackLine, ...]
    """The stacks of all ranks, merged."""
    evidence: tuple[Evidence, ...]
    """Of the ranks that have answered; that of a worker with several is split."""
