"""Training code without MLBench: the cost of timing it, planted stragglers, and healthy runs.

Steps of ``tests.support.ddp_training`` mostly sleep, so that other programs hardly disturb them.
"""

from collections.abc import Iterator
from itertools import count, product
from pathlib import Path

from benchmarks.measure import Figure
from mlbench.contract import names
from tests.support.known import known
from tests.support.watched import DDP_TRAINING, WatchedJob, run_watched

_PLACES, _RANKS = ("data", "forward", "backward"), (2, 3, 4)
_PAIRS, _REPEATS, _HEALTHY = 20, 3, 10
# A step without late ranks takes about 10 ms and 60 ms.
_SHORT_MS, _LONG_MS, _LATE_MS = "2.7", "20", "60"
_numbers = count()


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the cost of a step, errors of predicted speedups, and findings of healthy runs."""
    steps = 300
    costs, shares = [], []
    for number in range(_PAIRS):
        seconds, processor = {}, {}
        for switch in ("0", "1") if number % 2 else ("1", "0"):
            job = _run(folder, 2, "data", "0", steps, _SHORT_MS, switch)
            _, elapsed, used = job.printed[0].split()
            seconds[switch], processor[switch] = float(elapsed) / steps, float(used) / steps
        costs.append(1e6 * (processor["1"] - processor["0"]))
        shares.append(100 * (seconds["1"] / seconds["0"] - 1))
    yield Figure("cost of timing a step, processor time", "us", costs)
    yield Figure(f"longer steps of {1000 * seconds['0']:.1f} ms, wall time", "%", shares)

    errors, is_named = [], 0
    for ranks, where in product(_RANKS, _PLACES):
        # The fastest of several alternating runs: other programs slowed them least.
        pairs = [
            [_run(folder, ranks, where, late, 60, _LONG_MS) for late in (_LATE_MS, "0")]
            for _ in range(_REPEATS)
        ]
        late, healthy = (min(jobs, key=_seconds) for jobs in zip(*pairs, strict=True))
        stragglers = known(late.stragglers)
        is_named += stragglers.named == 1
        measured = _seconds(late) / _seconds(healthy)
        predicted = next(r.speedup_without for r in stragglers.ranks if r.rank == 1)
        errors.append(100 * abs(predicted / measured - 1))
        speedups = f"{predicted:.3f} predicted, {measured:.3f}"
        print(f"  {ranks} ranks, {where}: {speedups}: {stragglers.text}")
    yield Figure(f"planted stragglers: {is_named} of 9 named; error of the speedup", "%", errors)

    for ranks in _RANKS:
        texts = [
            known(_run(folder, ranks, "data", "0", 60, _LONG_MS).stragglers).text
            for _ in range(_HEALTHY)
        ]
        print(*(f"  {text}\n" for text in texts if text), sep="", end="")
        yield Figure(f"healthy runs of {ranks} ranks with a finding", "", [sum(map(bool, texts))])


def _seconds(job: WatchedJob) -> float:
    return job.last(names.TRAIN_SECONDS)


def _run(
    folder: Path, ranks: int, where: str, late_ms: str, steps: int, work_ms: str, switch: str = "1"
) -> WatchedJob:
    """Run a training in which rank 1 is late."""
    command = (*DDP_TRAINING, where, "1", late_ms, str(steps), work_ms)
    run_folder = folder / str(next(_numbers))
    return run_watched(run_folder, ranks, *command, **{names.ENV_TIME_COMMUNICATION: switch})
