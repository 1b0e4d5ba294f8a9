"""How long it takes from ``POST /api/runs/`` to the first training step, here and in a cluster.

``cluster_start`` measures the master at ``$MLBENCH_URL``, with the token ``$MLBENCH_TOKEN``, on
warm pods and on pods of another shape. Nothing else may use it.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import cycle, repeat
from pathlib import Path

from benchmarks.measure import Figure, Measure, alternate
from benchmarks.stacks import local_stack, run_to_end
from mlbench import ApiClient, names

_STEPS = {"steps": "20", "rate": "1000"}


def start_latency(folder: Path) -> Iterator[Figure]:
    """Yield seconds, for a task without PyTorch and for one with it."""
    with local_stack(folder) as (_, client):
        for benchmark, args, times in (("steps", _STEPS, 5), ("digits", {"epochs": "1"}, 3)):
            what = f"POST /api/runs/ to the first step: {benchmark}"
            yield from alternate(
                times, "s", {what: _to_first_step(client, benchmark, args, repeat(None))}
            )


def _to_first_step(
    client: ApiClient, benchmark: str, args: dict[str, str], cores: Iterator[float | None]
) -> Measure:
    """Return what runs a task and returns after how many seconds it made its first step.

    Args:
        client: of the master that is measured.
        benchmark: the task.
        args: its options.
        cores: what each worker is to have, run by run.
    """

    def measure_once() -> float:
        ordered_at = datetime.now(UTC)
        run = run_to_end(
            client, 2, num_cpus=next(cores), look_seconds=0.1, benchmark=benchmark, args=args
        )
        points = client.get_run_metrics(run.id, metric_filter="step").result().value["step @ 0"]
        first = next(point for point in points if point.number >= 1)
        return (datetime.fromisoformat(first.date) - ordered_at).total_seconds()

    return measure_once


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
            what = f"POST /api/runs/ to the first step in a cluster: {pods}"
            yield from alternate(5, "s", {what: _to_first_step(client, "steps", _STEPS, cores)})
