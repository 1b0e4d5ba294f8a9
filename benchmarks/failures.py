"""Goodput of trainings with failures, compared with Young's and Daly's formula.

Steps, checkpoints and restarts wait instead of computing, so that a busy machine matters little.
Twelve combinations of two runs of about five minutes, six at a time on three stacks, take half an
hour. All costs of a combination are measured: the step, the checkpoint, the time without a process
after a kill, the time from its start to its first step, and the time between two kills.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean

from benchmarks.stacks import local_stack, wait_for_end
from mlbench import ApiClient
from mlbench.contract.names import THIS_MACHINE
from mlbench.contract.records import Run
from mlbench.evaluation.failures import Costs, best_interval, goodput

_STEP_SECONDS, _CHECKPOINT_SECONDS = 0.02, 0.25
_INTERVALS, _BETWEEN, _SEEDS = (0.5, 1.0, 2.0, 4.0), (4, 8, 16), (1, 2)
# Duration of a run. No schedule has more than 100 kills.
_SECONDS = 270.0
# As far as the number of steps that fill this time goes.
_LIKELY_RESTART, _LIKELY_DOWN = 0.2, 1.5

_TRAIN = """
import json, os, sys, time
from pathlib import Path

steps, every, step_seconds, checkpoint_seconds, log = sys.argv[1:]
folder = Path(os.environ["MLBENCH_CHECKPOINTS"])
folder.mkdir(parents=True, exist_ok=True)
checkpoint = folder / "step"

def record(name, value):
    with open(log, "a") as file:
        file.write(json.dumps([name, value]) + "\\n")

done = int(checkpoint.read_text()) if checkpoint.exists() else 0
ticks = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")
record("born", time.time() - age)
record("began", time.time())
at = time.monotonic()
for step in range(done + 1, int(steps) + 1):
    time.sleep(float(step_seconds))
    if step % int(every) == 0:
        began = time.monotonic()
        record("steps", (began - at) / int(every))
        time.sleep(float(checkpoint_seconds))
        draft = folder / "draft"
        draft.write_text(str(step))
        draft.replace(checkpoint)
        at = time.monotonic()
        record("checkpoint", at - began)
record("ended", time.time())
"""


@dataclass(frozen=True)
class RunTimes:
    """Useful time and costs of a run, in seconds."""

    step: float
    useful: float
    wall: float
    checkpoint: float
    down: list[float]
    """Seconds from each failure to the start of the next process."""
    restart: list[float]
    """Seconds from the start of each process, except the first, to its first step."""
    failures: int


def measure(folder: Path) -> Iterator[str]:
    """Run the combinations, and hold each against the formula."""
    os.environ["MLBENCH_CONCURRENT_RUNS"] = "2"
    (folder / "train.py").write_text(_TRAIN)
    with ExitStack() as stack:
        clients = [stack.enter_context(local_stack(folder / str(mtbf)))[1] for mtbf in _BETWEEN]
        submitted = [
            [[_submit(client, folder, tau, between, seed) for seed in _SEEDS] for tau in _INTERVALS]
            for client, between in zip(clients, _BETWEEN, strict=True)
        ]
        deviations, near_best = [], 0
        for client, between, of_each in zip(clients, _BETWEEN, submitted, strict=True):
            shares, expected = [], []
            for interval, runs in zip(_INTERVALS, of_each, strict=True):
                times = [_look(client, wait_for_end(client, run, 1.0)) for run in runs]
                share, costs, tau = _costs(times, interval)
                shares.append(share)
                expected.append(goodput(tau, costs))
                of_runs = ", ".join(f"{run.useful / run.wall:.1%}" for run in times)
                yield (
                    f"a kill every {between:2} s, a checkpoint every {tau:4.2f} s: kept {share:.1%}"
                    f" ({of_runs}), by the formula {expected[-1]:.1%};"
                    f" {sum(run.failures for run in times)} failures, {costs},"
                    f" best every {max(_STEP_SECONDS, best_interval(costs)):.2f} s"
                )
            deviations += [
                abs(share - formula) for share, formula in zip(shares, expected, strict=True)
            ]
            near_best += abs(shares.index(max(shares)) - expected.index(max(expected))) <= 1
    near = sum(points <= 0.03 for points in deviations)
    yield f"within 3 points of the formula: {near} of {len(deviations)}"
    yield f"off by {fmean(deviations):.1%} in the mean, {max(deviations):.1%} at most"
    yield f"the best interval is the formula's, or next to it: {near_best} of {len(_BETWEEN)}"


def _submit(client: ApiClient, folder: Path, interval: float, between: int, seed: int) -> Run:
    likely = Costs(_CHECKPOINT_SECONDS, _LIKELY_RESTART, between, _LIKELY_DOWN)
    every = round(interval / _STEP_SECONDS)
    steps = round(_SECONDS * goodput(interval, likely) / _STEP_SECONDS / every) * every
    name = f"kept-{between}-{interval}-{seed}"
    words = [steps, every, _STEP_SECONDS, _CHECKPOINT_SECONDS, folder / name]
    return (
        client.create_run(
            name,
            1,
            num_cpus=1,
            custom_image_name=THIS_MACHINE,
            custom_image_command=shlex.join(
                [sys.executable, str(folder / "train.py"), *map(str, words)]
            ),
            faults=f"kill:every={between}s",
            seed=seed,
            queue=True,
        )
        .result()
        .value
    )


def _look(client: ApiClient, run: Run) -> RunTimes:
    """Return the useful time and the costs of a run."""
    values: dict[str, list[float]] = {}
    words = shlex.split(run.command)
    for line in Path(words[-1]).read_text().splitlines():
        name, value = json.loads(line)
        values.setdefault(name, []).append(value)
    events = client.get_run_events(run.id).result().value
    dates = [datetime.fromisoformat(event.time) for event in events if event.kind == "planned"]
    hits = [date.timestamp() for date in dates]
    born, began = values["born"], values["began"]
    step = fmean(values["steps"])
    return RunTimes(
        step,
        step * int(words[2]),
        values["ended"][-1] - began[0],
        fmean(values["checkpoint"]),
        # One may be killed before it tells of itself: what counts is the last kill.
        [at - max(hit for hit in hits if hit < at) for at in born[1:]],
        [first - at for first, at in zip(began[1:], born[1:], strict=False)],
        len(hits),
    )


def _costs(runs: Sequence[RunTimes], interval: float) -> tuple[float, Costs, float]:
    """Return the useful share of the time of runs, their costs, and the checkpoint interval."""
    wall, failures = sum(run.wall for run in runs), sum(run.failures for run in runs)
    down = fmean(seconds for run in runs for seconds in run.down)
    costs = Costs(
        fmean(run.checkpoint for run in runs),
        fmean(seconds for run in runs for seconds in run.restart),
        wall / failures - down,
        down,
    )
    tau = fmean(run.step for run in runs) * round(interval / _STEP_SECONDS)
    return sum(run.useful for run in runs) / wall, costs, tau
