"""Real comparisons: of equal runs, which must not differ, and of runs slower by 15 %, which must.

Each comparison is the one that ``GET /api/compare/`` makes of two sets whose runs are ordered in
turn, as ``mlbench bench`` does. The runs are ``slowed_training``, on one worker of one core. Its
copy lies in no repository, so that nobody's commit meanwhile makes the runs differ.
"""

import shlex
import shutil
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from benchmarks.measure import Figure
from benchmarks.stacks import local_stack, run_to_end
from mlbench import ApiClient
from mlbench.contract.comparisons import SignificanceTest

_seeds = count(1)


# The share by which each step of the second set is slower, what each step waits, the runs of a set,
# and how often two are compared. Equal sets have as many runs as a set by default, unequal ones as
# many as MLPerf asks for; and their steps mostly wait, as for an accelerator: on a busy machine,
# computing takes a third more or less from run to run, which hides 15 %.
_SETS = ((0.0, 0.0, 5, 20), (0.15, 0.05, 10, 3))


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the p-values of all comparisons."""
    script = folder / "train.py"
    shutil.copy(Path(__file__).with_name("slowed_training.py"), script)
    with local_stack(folder, workers=1) as (_, client):
        for slower, wait, runs, times in _SETS:
            evidence = [_compare(client, script, slower, wait, runs) for _ in range(times)]
            differ = sum(each.distinguishable for each in evidence)
            what = f"slower by {slower:.0%}, {runs} runs each: {differ} of {times} differ; p"
            yield Figure(what, "", [each.p for each in evidence])


def _compare(
    client: ApiClient, script: Path, slower: float, wait: float, runs: int
) -> SignificanceTest:
    """Run two sets in turn, and return what tells them apart."""
    ids = []
    for _ in range(runs):
        for share, label in ((0, "first"), (slower, "second")):
            command = shlex.join(map(str, [sys.executable, script, share, wait, label]))
            run = run_to_end(
                client, 1, num_cpus=1, command=command, backend="gloo", seed=next(_seeds)
            )
            ids.append(run.id)
    groups = client.compare(ids).result().value.groups
    assert [len(group.run_ids) for group in groups] == [runs, runs]
    evidence = groups[1].evidence
    assert evidence
    print(f"  {groups[1].throughput_speedup:.3f} times as fast, p = {evidence.p:.2g}", flush=True)
    return evidence
