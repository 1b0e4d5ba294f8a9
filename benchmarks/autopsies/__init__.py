"""Whether an autopsy finds who is at fault: real ranks that hang, each in a known way.

``python -m benchmarks.run autopsies`` takes a quarter of an hour. ``AUTOPSIES="2 1 sleep fifo"``
has 2 ranks alone, and 1 seed, of those hangs. ``AUTOPSIES_WITHOUT_SPY=1`` has all stacks come by
the signal.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

import psutil

from benchmarks.autopsies import rank
from mlbench.assignment import Assignment
from mlbench.autopsy import Evidence, Verdict
from mlbench.evaluation.autopsy import judge
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.autopsy import gather as gathering
from mlbench_worker.agent.autopsy.gather import gather
from mlbench_worker.agent.forkserver import ForkServer
from mlbench_worker.agent.process import adopt_orphans
from tests.conftest import wait_for

_SETTLE_SECONDS = 1.0
# All are: it is the network's.
_NOBODY = {"network"}
# Some rank ends, which is when a master would ask.
_ENDS = {"disk", "left", "other_size"}
# Of two ranks that disagree, both.
_BOTH_OF_TWO = {"other_name", "other_size", "skipped"}
# The process is gone, or the frame is PyTorch's alone.
_WITHOUT_LINE = {"disk", "left", "network"}


@dataclass(frozen=True)
class Case:
    """A hang of some ranks."""

    hang: str
    ranks: int
    seed: int

    @property
    def culprit(self) -> int:
        """The rank that hangs."""
        return self.seed % self.ranks

    @property
    def guilty(self) -> set[int]:
        """Whom a verdict shall name."""
        if self.hang in _NOBODY:
            return set()
        return {0, 1} if self.hang in _BOTH_OF_TWO and self.ranks == 2 else {self.culprit}

    @property
    def has_line(self) -> bool:
        """Whether there is one line of Python to name."""
        return len(self.guilty) == 1 and self.hang not in _WITHOUT_LINE

    def is_at(self, where: str) -> bool:
        """Check that a frame is one of the lines that hang."""
        lines = Path(rank.__file__).read_text().splitlines()
        hang = lines.index(f"def {self.hang}(folder: Path) -> None:")
        here = [number for number, line in enumerate(lines, 1) if line.endswith("# here")]
        places = [f"{self.hang} (rank.py:{n})" for n in here if hang < n < hang + 10]
        return where in places


def measure(folder: Path) -> Iterator[str]:
    """Yield a line for each kind of hang, and for all."""
    adopt_orphans()
    most, seeds, *hangs = os.environ.get("AUTOPSIES", "4 3").split()
    worlds = range(2, int(most) + 1)
    found, slowest = Counter[str](), 0.0
    with ExitStack() as leaving:
        if os.environ.get("AUTOPSIES_WITHOUT_SPY"):
            leaving.enter_context(patch.object(gathering, "find_spy", lambda: None))
        for hang in hangs or rank.HANGS:
            cases = [Case(hang, n, seed) for n in worlds for seed in range(1, int(seeds) + 1)]
            counts = Counter[str]()
            for case in cases:
                seconds, verdict = autopsy(case, folder)
                outcome = assess(case, verdict)
                counts[outcome] += 1
                counts["line"] += case.has_line and case.is_at(verdict.where)
                slowest = max(slowest, seconds)
                if outcome != "right":
                    yield f"  {case}: {outcome}: {verdict.sentence}"
            counts["cases"] = len(cases)
            counts["lines"] = sum(case.has_line for case in cases)
            found.update(counts)
            yield _row(hang, counts)
    yield _row("all", found)
    yield f"slowest: {slowest:.1f} s"


def assess(case: Case, verdict: Verdict) -> str:
    """Return whether a verdict is right, wrong, or cannot tell."""
    if {*verdict.culprits} == case.guilty:
        return "right"
    return "wrong" if verdict.culprits else "cannot tell"


def _row(name: str, counts: Counter[str]) -> str:
    told = ", ".join(f"{counts[one]} {one}" for one in ("right", "wrong", "cannot tell"))
    lines = f"line right {counts['line']} of {counts['lines']}"
    return f"{name:<12} {counts['cases']:>3} hangs: {told}; {lines}"


def autopsy(case: Case, parent: Path) -> tuple[float, Verdict]:
    """Have ranks hang; return the seconds that their autopsy took, and its verdict."""
    folder = parent / f"{case.hang}-{case.ranks}-{case.seed}"
    folder.mkdir()
    with ExitStack() as leaving:
        if case.hang == "network":
            leaving.enter_context(_own_network(folder.name))
        attempts = leaving.enter_context(_ranks(case, folder))
        for number in range(case.ranks):
            begun = folder / f"begun-{number}"
            wait_for(begun.exists, 60, f"rank {number} has come so far: {folder}")
        if case.hang == "network":
            wait_for((folder / "cut").exists, 10, "the network is to be cut")
            _ip("-n", folder.name, "link", "set", "lo", "down")
            (folder / "is-cut").touch()
        if case.hang in _ENDS:
            wait_for(lambda: any(one.ended.is_set() for one in attempts), 20, "a rank has ended")
        time.sleep(_SETTLE_SECONDS)
        began = time.monotonic()
        with ThreadPoolExecutor(case.ranks) as pool:
            evidence: list[Evidence] = [*pool.map(_gather, attempts)]
        return time.monotonic() - began, judge(evidence, case.ranks)


def _gather(attempt: Attempt) -> Evidence:
    return gather(attempt, attempt.pid, 0, 0.0)


@contextmanager
def _ranks(case: Case, folder: Path) -> Iterator[list[Attempt]]:
    """Begin the ranks of a run, as agents do; they end with the block."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = (case.hang, str(case.culprit), str(case.seed), str(folder))
    assignment = partial(
        Assignment,
        run_id=1,
        attempt=1,
        world_size=case.ranks,
        master_addr="127.0.0.1",
        master_port=_free_port(),
        command=(sys.executable, "-P", "-m", "benchmarks.autopsies.rank", *words),
        cpus=(),
        keeps_checkpoints=False,
        working_dir=None,
    )
    attempts: list[Attempt] = []
    with patch("mlbench_worker.agent.process._end_children", lambda keep: None):
        server = _server(environ)
        try:
            for number in range(case.ranks):
                attempt = Attempt.create(folder / "attempts", assignment(rank=number))
                attempts.append(attempt)
                attempt.start(environ, lambda: None, forkserver=server)
            yield attempts
        finally:
            for attempt in attempts:
                _kill(attempt)


_servers: list[ForkServer] = []


def _server(environ: dict[str, str]) -> ForkServer:
    """Return what has PyTorch imported, the same for all: it takes seconds."""
    if not _servers:
        _servers.append(ForkServer(environ))
        assert _servers[0].is_ready(60.0)
    return _servers[0]


def _kill(attempt: Attempt) -> None:
    if attempt.pid is not None and not attempt.ended.is_set():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            for one in psutil.Process(attempt.pid).children(recursive=True):
                one.kill()
            os.killpg(attempt.pid, signal.SIGKILL)
    attempt.ended.wait(10)


@contextmanager
def _own_network(name: str) -> Iterator[None]:
    """Have a network of its own, of one machine, by a name."""
    assert shutil.which("ip"), "it needs iproute2, and root"
    _ip("netns", "add", name)
    try:
        _ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        _ip("netns", "delete", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
