"""Real comparisons: of equal runs, which must not differ, and of runs slower by 15 %, which must.

Each comparison is the one that ``GET /api/compare/`` makes of two sets whose runs are submitted in
turn, as ``mlbench bench`` does. The runs are ``slowed_training``, on one worker of one core. Its
copy is outside the repository, so that a commit meanwhile does not make the runs differ.
"""

import shlex
import shutil
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure
from benchmarks.stacks import local_stack, run_to_end

_seeds = count(1)


# How much slower each step of the second set is (a share), how long each step waits (seconds), the
# runs of a set, and the number of comparisons. Equal sets have the default number of runs, unequal
# ones the number that MLPerf requires. Steps of unequal sets mostly wait, as for an accelerator: on
# a busy machine, the time to compute varies by a third from run to run, which hides 15 %.
_SETS = ((0.0, 0.0, 5, 20), (0.15, 0.05, 10, 3))


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the p-values of all comparisons."""
    script = folder / "train.py"
    shutil.copy(Path(__file__).with_name("slowed_training.py"), script)
    with local_stack(folder, workers=1) as (_, client):
        for slower, wait, runs, times in _SETS:
            tests = []
            for _ in range(times):
                ids = []
                for share, label in ((0, "first"), (slower, "second")) * runs:
                    command = shlex.join(map(str, [sys.executable, script, share, wait, label]))
                    options: dict[str, Any] = {"num_cpus": 1, "command": command, "backend": "gloo"}
                    ids.append(run_to_end(client, 1, seed=next(_seeds), **options).id)
                first, second = client.compare(ids).result().value.groups
                assert len(first.run_ids) == len(second.run_ids) == runs
                test = second.evidence
                assert test
                speedup = f"{second.throughput_speedup:.3f} times as fast"
                print(f"  {speedup}, p = {test.p:.2g}", flush=True)
                tests.append(test)
            differ = sum(test.distinguishable for test in tests)
            name = f"slower by {slower:.0%}, {runs} runs each: {differ} of {times} differ; p"
            yield Figure(name, "", [test.p for test in tests])
