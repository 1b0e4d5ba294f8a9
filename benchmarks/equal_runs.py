"""Real comparisons: of equal runs, which must not differ, and of runs slower by 15 %, which must.

Each comparison is the one that ``GET /api/compare/`` makes of two sets whose runs are ordered in
turn, as ``mlbench bench`` does. The runs are ``slowed_training``, on one worker of one core. Its
copy lies in no repository, so that nobody's commit meanwhile makes the runs differ.
"""

import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks.measure import Figure
from mlbench import ApiClient
from mlbench.home import Home
from mlbench.names import THIS_MACHINE
from mlbench.results import Evidence
from mlbench.stack import launch

_seeds = count(1)


@dataclass(frozen=True)
class _Sets:
    """Two sets to compare, again and again."""

    slower: float
    """The share by which each step of the second is slower."""
    wait_seconds: float
    """What each step waits, as for an accelerator."""
    runs: int
    times: int


# As many runs as a set has by default.
_EQUAL = _Sets(0.0, 0.0, runs=5, times=20)
# As many as MLPerf asks for. Their steps mostly wait: on a busy machine, computing takes a third
# more or less from run to run, which hides 15 %.
_UNEQUAL = _Sets(0.15, 0.05, runs=10, times=3)


def measure(folder: Path) -> list[Figure]:
    """Return the p-values of all comparisons."""
    home = Home(folder / "home")
    script = folder / "train.py"
    shutil.copy(Path(__file__).with_name("slowed_training.py"), script)
    launch.start_detached(home, workers=1, port=None)
    try:
        with ApiClient.from_home(home) as client:
            return [_figure(client, script, sets) for sets in (_EQUAL, _UNEQUAL)]
    finally:
        launch.stop(home)


def _figure(client: ApiClient, script: Path, sets: _Sets) -> Figure:
    found = [_compare(client, script, sets) for _ in range(sets.times)]
    told = sum(one.distinguishable for one in found)
    what = f"slower by {sets.slower:.0%}, {sets.runs} runs each: {told} of {sets.times} told apart"
    return Figure(f"{what}; p", "", [one.p for one in found])


def _compare(client: ApiClient, script: Path, sets: _Sets) -> Evidence:
    """Run two sets in turn, and return what tells them apart."""
    words = [sys.executable, str(script)]
    wait = str(sets.wait_seconds)
    commands = [[*words, "0", wait, "first"], [*words, str(sets.slower), wait, "second"]]
    ids = [_run(client, shlex.join(command)) for _ in range(sets.runs) for command in commands]
    groups = client.compare(ids).result().value.groups
    assert [len(group.run_ids) for group in groups] == [sets.runs, sets.runs]
    evidence = groups[1].evidence
    assert evidence
    print(f"  {groups[1].throughput_speedup:.3f} times as fast, p = {evidence.p:.2g}", flush=True)
    return evidence


def _run(client: ApiClient, command: str) -> int:
    ordered = client.create_run(
        "equal",
        1,
        1,
        custom_image_name=THIS_MACHINE,
        custom_image_command=command,
        backend="gloo",
        seed=next(_seeds),
    )
    run = ordered.result().value
    while run.active:
        time.sleep(0.2)
        run = client.get_run(run.id).result().value
    assert run.state == "FINISHED", run.reason
    return run.id
