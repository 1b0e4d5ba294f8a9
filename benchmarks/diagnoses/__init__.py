"""Accuracy of diagnoses: real ranks that hang, each in a known way.

``python -m benchmarks.run diagnoses`` makes 120 hangs with PyTorch, in half an hour.
``DIAGNOSES="torch-signal torch-spy-sleep-2"`` selects those whose names begin with one of these. In
``torch-signal``, py-spy is forbidden, so all stacks come by the signal. ``jax`` and ``tensorflow``
do not report their collectives; ``shell`` and ``c`` are not Python. Each result is a line of JSON
in ``DIAGNOSES_FILE`` and is not measured again.
"""

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

from benchmarks.diagnoses import rank
from mlbench.contract.assignment import Assignment
from mlbench.contract.diagnosis import Verdict
from mlbench.tracking.totals import Totals
from mlbench_diagnosis import gather as gathering
from mlbench_diagnosis.gather import gather
from mlbench_diagnosis.judgement import judge
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.fork_servers import ForkServer
from mlbench_worker.agent.training_process import adopt_orphans
from tests.conftest import free_port, wait_for

_HERE = Path(__file__).parent
_SETTLE_SECONDS = 2.0
# All are: it is the network's, or all do the same.
_NOBODY = {"network", "everywhere"}
# Some rank ends, which is when a master would ask.
_ENDS = {"disk", "exited", "other_size"}
# With two ranks that disagree, both are at fault.
_BOTH_OF_TWO = {"other_name", "other_size", "skipped"}
# The process is gone, or the frame is PyTorch's alone.
_WITHOUT_LINE = {"disk", "exited", *_NOBODY}
# Hangs of frameworks without collectives, and programs without Python frames.
_BY_STACKS = ("sleep", "lock", "interpreter", "stopped", "endless", "fifo", "loader", "exited")
_NO_PYTHON = ("shell", "c")
_OUTCOMES = ("right", "wrong", "cannot tell")


@dataclass(frozen=True)
class Case:
    """A hang of some ranks."""

    program: str
    reader: str
    """``spy``, or ``signal`` where py-spy is forbidden."""
    hang: str
    ranks: int
    seed: int

    @property
    def name(self) -> str:
        """Name by which the case is selected."""
        return "-".join(map(str, asdict(self).values()))

    @property
    def culprit(self) -> int:
        """The rank that hangs."""
        return self.seed % self.ranks

    @property
    def guilty(self) -> set[int]:
        """Whom a verdict shall name."""
        if self.hang in _NOBODY or (self.program in _NO_PYTHON and self.hang == "sleep"):
            return set()
        return {0, 1} if self.hang in _BOTH_OF_TWO and self.ranks == 2 else {self.culprit}

    @property
    def has_line(self) -> bool:
        """Whether there is one line of Python to name."""
        is_python = self.program not in _NO_PYTHON
        return is_python and len(self.guilty) == 1 and self.hang not in _WITHOUT_LINE

    def is_at(self, where: str) -> bool:
        """Check that a frame is one of the lines that hang."""
        function = rank.HANGS[self.hang]
        lines, first = inspect.getsourcelines(function)
        file = Path(inspect.getfile(function)).name
        here = [n for n, line in enumerate(lines, first) if line.endswith("# here\n")]
        return where in [f"{self.hang} ({file}:{number})" for number in here]


def cases() -> Iterator[Case]:
    """Yield all there are: 120 for each reader with PyTorch first."""
    for reader in ("spy", "signal"):
        for hang in rank.HANGS:
            for seed in (1,) if hang == "everywhere" else (1, 2, 3):
                yield from (Case("torch", reader, hang, ranks, seed) for ranks in (2, 3, 4))
    for program in ("jax", "tensorflow"):
        for hang in _BY_STACKS:
            yield from (Case(program, "spy", hang, ranks, 1) for ranks in (2, 3))
    for program in _NO_PYTHON:
        yield from (Case(program, "spy", hang, 2, 1) for hang in ("sleep", "stopped"))


def measure(folder: Path) -> Iterator[str]:
    """Yield a line for each hang with a wrong verdict, for each kind, and for all."""
    adopt_orphans()
    prefixes = tuple(os.environ.get("DIAGNOSES", "torch-spy").split())
    chosen = [case for case in cases() if case.name.startswith(prefixes)]
    file = Path(os.environ.get("DIAGNOSES_FILE", folder / "diagnoses.jsonl"))
    lines = file.read_text().splitlines() if file.exists() else []
    measured = {fields["name"]: fields for fields in map(json.loads, lines)}
    for case in chosen:
        if case.name in measured:
            continue
        load = os.getloadavg()[0]
        with ExitStack() as stack:
            if case.reader == "signal":
                stack.enter_context(patch.object(gathering, "find_spy", lambda: None))
            seconds, verdict = diagnosis(case, folder)
        measured[case.name] = {
            "name": case.name,
            "outcome": assess(case, verdict),
            "line": case.is_at(verdict.where) if case.has_line else None,
            "sentence": verdict.sentence,
            "seconds": round(seconds, 3),
            "load": load,
        }
        with file.open("a") as output:
            output.write(json.dumps(measured[case.name]) + "\n")
    outcomes = [(case, measured[case.name]) for case in chosen]
    for case, fields in outcomes:
        if fields["outcome"] != "right" or (case.has_line and not fields["line"]):
            yield f"  {case.name}: {fields['outcome']}: {fields['sentence']}"
    for name in dict.fromkeys(f"{case.program}-{case.reader}-{case.hang}" for case in chosen):
        yield _row(name, [pair for pair in outcomes if pair[0].name.startswith(name)])
    yield _row("all", outcomes)


def assess(case: Case, verdict: Verdict) -> str:
    """Return whether a verdict is right, wrong, or cannot tell."""
    if {*verdict.at_fault} == case.guilty:
        return "right"
    return "wrong" if verdict.at_fault else "cannot tell"


def _row(name: str, outcomes: Sequence[tuple[Case, Any]]) -> str:
    counts = Counter(fields["outcome"] for _, fields in outcomes)
    words = ", ".join(f"{counts[outcome]} {outcome}" for outcome in _OUTCOMES)
    with_line = [fields["line"] for case, fields in outcomes if case.has_line]
    seconds = sorted(fields["seconds"] for _, fields in outcomes)
    late = seconds[min(len(seconds) - 1, len(seconds) * 95 // 100)] if seconds else 0.0
    return (
        f"{name:<24} {len(outcomes):>3} hangs: {words}; line right {sum(with_line)} of "
        f"{len(with_line)}; 95 % within {late:.1f} s"
    )


def diagnosis(case: Case, parent: Path) -> tuple[float, Verdict]:
    """Have ranks hang; return the seconds that their diagnosis took, and its verdict."""
    folder = parent / case.name
    folder.mkdir()
    with ExitStack() as leaving:
        if case.hang == "network":
            leaving.enter_context(_own_network(folder.name))
        attempts = leaving.enter_context(_ranks(case, folder))
        for number in range(case.ranks):
            begun = folder / f"begun-{number}"
            wait_for(begun.exists, 180, f"rank {number} has come so far: {folder}")
        if case.hang == "network":
            wait_for((folder / "cut").exists, 10, "the network is to be cut")
            _ip("-n", folder.name, "link", "set", "lo", "down")
            (folder / "is-cut").touch()
        if case.hang in _ENDS:
            wait_for(lambda: any(rank.ended.is_set() for rank in attempts), 60, "a rank has ended")
        time.sleep(_SETTLE_SECONDS)
        began = time.monotonic()
        with ThreadPoolExecutor(case.ranks) as pool:
            gathering_evidence = [
                pool.submit(gather, attempt, attempt.pid, Totals()) for attempt in attempts
            ]
            evidence = [future.result() for future in gathering_evidence]
        return time.monotonic() - began, judge(evidence, case.ranks)


@contextmanager
def _ranks(case: Case, folder: Path) -> Iterator[list[Attempt]]:
    """Begin the ranks of a run, as agents do; they end with the block."""
    environ = _environ()
    assignment = partial(
        Assignment,
        run_id=1,
        attempt=1,
        world_size=case.ranks,
        master_addr="127.0.0.1",
        master_port=free_port(),
        command=_command(case, folder),
        cpus=(),
        keeps_checkpoints=False,
        working_dir=None,
    )
    attempts: list[Attempt] = []
    with patch("mlbench_worker.agent.training_process.children", lambda: ()):
        server = _fork_server() if case.program == "torch" else None
        try:
            for number in range(case.ranks):
                attempt = Attempt.create(folder / "attempts", assignment(rank=number))
                attempts.append(attempt)
                attempt.start(environ, lambda: None, forkserver=server)
            yield attempts
        finally:
            for attempt in attempts:
                if attempt.pid is not None and not attempt.ended.is_set():
                    with suppress(psutil.NoSuchProcess, ProcessLookupError):
                        for child in psutil.Process(attempt.pid).children(recursive=True):
                            child.kill()
                        os.killpg(attempt.pid, signal.SIGKILL)
                attempt.ended.wait(10)


def _command(case: Case, folder: Path) -> tuple[str, ...]:
    words = (case.hang, str(case.culprit), str(case.seed), str(folder))
    if case.program == "shell":
        return "sh", str(_HERE / "rank.sh"), *words
    if case.program == "c":
        binary = folder / "rank"
        subprocess.run(["cc", "-o", binary, _HERE / "rank.c"], check=True)
        return str(binary), *words
    python, module = sys.executable, "benchmarks.diagnoses.rank"
    if case.program != "torch":
        python = subprocess.check_output(["scripts/get-integrations.sh"], text=True).strip()
        module += f"_{case.program}"
    return python, "-P", "-m", module, *words


def _environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


@cache
def _fork_server() -> ForkServer:
    """Return the fork server of all cases; it imports PyTorch, which takes seconds."""
    server = ForkServer(_environ())
    assert server.is_ready(60.0)
    return server


@contextmanager
def _own_network(name: str) -> Iterator[None]:
    """Make a network namespace with a name."""
    assert shutil.which("ip"), "it needs iproute2, and root"
    _ip("netns", "add", name)
    try:
        _ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        _ip("netns", "delete", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
