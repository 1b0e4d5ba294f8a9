"""Real comparisons: of equal runs, which must not differ, and of runs slower by 15 %, which must.

Each comparison is the one that ``GET /api/compare/`` makes of two sets whose runs are ordered in
turn, as ``mlbench bench`` does. The runs are ``slowed_training``, on one worker of one core. Its
copy lies in no repository, so that nobody's commit meanwhile makes the runs differ.
"""

import shlex
import shutil
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks.measure import Figure
from benchmarks.stacks import local_stack, run_to_end
from mlbench import ApiClient
from mlbench.results import Evidence

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
    script = folder / "train.py"
    shutil.copy(Path(__file__).with_name("slowed_training.py"), script)
    with local_stack(folder, workers=1) as (_, client):
        return [_figure(client, script, sets) for sets in (_EQUAL, _UNEQUAL)]


def _figure(client: ApiClient, script: Path, sets: _Sets) -> Figure:
    evidence = [_compare(client, script, sets) for _ in range(sets.times)]
    differ = sum(each.distinguishable for each in evidence)
    what = f"slower by {sets.slower:.0%}, {sets.runs} runs each: {differ} of {sets.times} differ"
    return Figure(f"{what}; p", "", [each.p for each in evidence])


def _compare(client: ApiClient, script: Path, sets: _Sets) -> Evidence:
    """Run two sets in turn, and return what tells them apart."""
    ids = []
    for _ in range(sets.runs):
        for share, label in ((0, "first"), (sets.slower, "second")):
            words = [sys.executable, script, share, sets.wait_seconds, label]
            command = shlex.join(map(str, words))
            run = run_to_end(
                client, 1, num_cpus=1, command=command, backend="gloo", seed=next(_seeds)
            )
            ids.append(run.id)
    groups = client.compare(ids).result().value.groups
    assert [len(group.run_ids) for group in groups] == [sets.runs, sets.runs]
    evidence = groups[1].evidence
    assert evidence
    print(f"  {groups[1].throughput_speedup:.3f} times as fast, p = {evidence.p:.2g}", flush=True)
    return evidence
