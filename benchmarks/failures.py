"""How much of its time a training keeps between failures, beside Young's and Daly's formula.

Steps, checkpoints and restarts wait, so that a busy machine matters little. All costs are measured:
the step, the checkpoint, the restart from the kill to the first step, and the time between
failures, over the four runs that have the same schedule. Twelve combinations, two at a time, each
of one run with a schedule whose first failures are as far apart as they should: seven minutes.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from statistics import fmean

from benchmarks.stacks import local_stack, wait_for_end
from mlbench import ApiClient
from mlbench.evaluation.young_daly import Costs, best_interval, goodput
from mlbench.faults import draw
from mlbench.names import THIS_MACHINE
from mlbench.records import Run, RunEvent

_STEP_SECONDS, _CHECKPOINT_SECONDS, _USEFUL_SECONDS = 0.02, 0.25, 30.0
_INTERVALS = (0.5, 1.0, 2.0, 4.0)
_BETWEEN = (4, 8, 16)
_FIRST, _TYPICAL = (3, 6, 12), 0.1

_TRAIN = """
import json, os, sys, time
from pathlib import Path

steps, every, step_seconds, checkpoint_seconds, told = sys.argv[1:]
folder = Path(os.environ["MLBENCH_CHECKPOINTS"])
folder.mkdir(parents=True, exist_ok=True)
kept = folder / "step"

def tell(what, value):
    with open(told, "a") as file:
        file.write(json.dumps([what, value]) + "\\n")

done = int(kept.read_text()) if kept.exists() else 0
tell("began", time.time())
at = time.monotonic()
for step in range(done + 1, int(steps) + 1):
    time.sleep(float(step_seconds))
    if step % int(every) == 0:
        began = time.monotonic()
        tell("steps", (began - at) / int(every))
        time.sleep(float(checkpoint_seconds))
        draft = folder / "draft"
        draft.write_text(str(step))
        draft.replace(kept)
        at = time.monotonic()
        tell("checkpoint", at - began)
tell("ended", time.time())
"""


@dataclass(frozen=True)
class Kept:
    """What a run kept of its time, and what it met."""

    interval: float
    useful: float
    wall: float
    checkpoint: float
    restarts: list[float]
    failures: int

    @property
    def share(self) -> float:
        """Return which part of its time it kept."""
        return self.useful / self.wall


def measure(folder: Path) -> Iterator[str]:
    """Run the combinations, and hold each against the formula."""
    os.environ["MLBENCH_CONCURRENT_RUNS"] = "2"
    script = folder / "train.py"
    script.write_text(_TRAIN)
    off, right = [], 0
    with local_stack(folder) as (_, client):
        for between in _BETWEEN:
            runs = [_order(client, folder, one, between) for one in _INTERVALS]
            every = [
                _look(client, wait_for_end(client, run, 1.0), folder, one)
                for run, one in zip(runs, _INTERVALS, strict=True)
            ]
            costs = Costs(
                fmean(one.checkpoint for one in every),
                fmean(seconds for one in every for seconds in one.restarts),
                sum(one.wall for one in every) / sum(one.failures for one in every),
            )
            expected = [goodput(one.interval, costs) for one in every]
            for one, by_formula in zip(every, expected, strict=True):
                off.append(abs(one.share - by_formula))
                yield (
                    f"a kill every {between:2} s, a checkpoint every {one.interval:4.2f} s: kept "
                    f"{one.share:.1%}, by the formula {by_formula:.1%} ({one.failures} failures)"
                )
            yield f"{costs}, best every {best_interval(costs):.2f} s"
            most = max(range(len(every)), key=lambda i: every[i].share)
            best = max(range(len(every)), key=lambda i: expected[i])
            right += abs(most - best) <= 1
    yield f"within 3 points of the formula: {sum(one <= 0.03 for one in off)} of {len(off)}"
    yield f"off by {fmean(off):.1%} in the mean, {max(off):.1%} at most"
    yield f"the best interval is the formula's, or next to it: {right} of {len(_BETWEEN)}"


def _order(client: ApiClient, folder: Path, interval: float, between: int) -> Run:
    steps, every = round(_USEFUL_SECONDS / _STEP_SECONDS), round(interval / _STEP_SECONDS)
    told = folder / f"{between}-{interval}"
    words = [steps, every, _STEP_SECONDS, _CHECKPOINT_SECONDS, told]
    return (
        client.create_run(
            f"kept-{between}-{interval}",
            1,
            num_cpus=1,
            custom_image_name=THIS_MACHINE,
            custom_image_command=shlex.join(
                [sys.executable, str(folder / "train.py"), *map(str, words)]
            ),
            faults=f"kill:every={between}s",
            seed=_typical_seed(between),
            queue=True,
        )
        .result()
        .value
    )


def _look(client: ApiClient, run: Run, folder: Path, interval: float) -> Kept:
    """Return what a run kept, and what it should have."""
    between = run.name.split("-")[1]
    told: dict[str, list[float]] = {}
    for line in (folder / f"{between}-{interval}").read_text().splitlines():
        what, value = json.loads(line)
        told.setdefault(what, []).append(value)
    events = client.get_run_events(run.id).result().value
    hits = [_at(one) for one in events if one.kind == "exited"]
    # A failure may hit a restart: what counts is the last one.
    restarts = [began - max(hit for hit in hits if hit < began) for began in told["began"][1:]]
    wall = told["ended"][-1] - told["began"][0]
    step = fmean(told["steps"])
    tau = step * round(interval / _STEP_SECONDS)
    useful = step * round(_USEFUL_SECONDS / _STEP_SECONDS)
    return Kept(tau, useful, wall, fmean(told["checkpoint"]), restarts, len(hits))


def _typical_seed(between: int) -> int:
    """Return the first seed whose first failures come as often as in the mean."""

    def is_typical(seed: int) -> bool:
        drawn = draw(f"kill:every={between}s", seed, 1)
        return all(abs(drawn[n - 1].seconds / n / between - 1) < _TYPICAL for n in _FIRST)

    return next(filter(is_typical, count()))


def _at(event: RunEvent) -> float:
    return datetime.fromisoformat(event.time).timestamp()
