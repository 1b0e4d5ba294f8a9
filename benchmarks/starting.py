"""How long it takes from ``POST /api/runs/`` to the first training step, here and in a cluster.

``cluster_start`` measures the master at ``$MLBENCH_URL``, with the token ``$MLBENCH_TOKEN``, on
warm pods and on pods of another shape. Nothing else may use it.
"""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import cycle, pairwise, repeat
from pathlib import Path

from benchmarks.measure import Figure, Measure, alternate
from benchmarks.stacks import local_stack, run_to_end, wait_for_end
from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.records import Run

_STEPS = {"steps": "20", "rate": "1000"}
_EPOCH = {"epochs": "1"}
# Until agents that are idle have their fork servers ready.
_IDLE_SECONDS = 6.0
_QUEUED = 6


def start_latency(folder: Path) -> Iterator[Figure]:
    """Yield seconds by forked and by new processes, which import PyTorch themselves.

    CIFAR-10 is left out, unless its archive is in ``$MLBENCH_DATASETS``.
    """
    tasks = {"steps": _STEPS, "digits": _EPOCH, "digits-linear": _EPOCH}
    if list(Path(os.environ.get(names.ENV_DATASETS, "none")).glob("cifar-10*")):
        tasks["cifar10-resnet"] = {**_EPOCH, "worker_batch_size": "1024", "depth": "20"}
    for way, value in (("forked", "1"), ("new", "0")):
        os.environ[names.ENV_FORK_SERVER] = value
        with local_stack(folder / way) as (_, client):
            for benchmark, args in tasks.items():
                time.sleep(_IDLE_SECONDS)
                name = f"POST /api/runs/ to the first step, {way}: {benchmark}"
                measure = _to_first_step(client, benchmark, args, repeat(None))
                yield from alternate(5, "s", {name: measure})
            name = f"the end of a queued run to the next one's first step, {way}: digits"
            # All runs are submitted at once; each starts when the one before it has ended.
            queued = [
                client.create_run(
                    "queued", 2, None, benchmark="digits", args=_EPOCH, queue=True
                ).result()
                for _ in range(_QUEUED)
            ]
            runs = [wait_for_end(client, submitted.value, 0.2) for submitted in queued]
            gaps = [
                _first_step(client, run) - datetime.fromisoformat(str(before.finished_at))
                for before, run in pairwise(runs)
            ]
            yield Figure(name, "s", [gap.total_seconds() for gap in gaps])


def _to_first_step(
    client: ApiClient, benchmark: str, args: dict[str, str], cores: Iterator[float | None]
) -> Measure:
    """Return what measures the seconds until a task's first step; run by run with other cores."""

    def measure_once() -> float:
        submitted_at = datetime.now(UTC)
        run = run_to_end(
            client, 2, num_cpus=next(cores), look_seconds=0.1, benchmark=benchmark, args=args
        )
        return (_first_step(client, run) - submitted_at).total_seconds()

    return measure_once


def _first_step(client: ApiClient, run: Run) -> datetime:
    points = client.get_run_metrics(run.id, metric_filter="step").result().value["step @ 0"]
    return datetime.fromisoformat(next(point for point in points if point.number >= 1).date)


# Two workers of this must fit.
_CORES = (0.2, 0.25)


def cluster_start(folder: Path) -> Iterator[Figure]:
    """Yield seconds; ``folder`` is not needed."""
    url, token = os.environ[names.ENV_URL], os.environ[names.ENV_TOKEN]
    with ApiClient(url=url, token=token) as client:
        for pods, cores in (
            ("warm pods", repeat(_CORES[0])),
            ("pods of another shape", cycle(reversed(_CORES))),
        ):
            name = f"POST /api/runs/ to the first step in a cluster: {pods}"
            yield from alternate(5, "s", {name: _to_first_step(client, "steps", _STEPS, cores)})
