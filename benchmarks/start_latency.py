"""How long it takes from ``POST /api/runs/`` to the first training step."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import repeat as repeat_for_ever
from pathlib import Path

from benchmarks.measure import Figure, repeat
from mlbench import ApiClient
from mlbench.home import Home
from mlbench.stack import launch


def measure(folder: Path) -> list[Figure]:
    """Return seconds, for a task without PyTorch and for one with it."""
    home = Home(folder / "home")
    launch.start_detached(home, workers=2, port=None)
    try:
        with ApiClient.from_home(home) as client:
            steps = {"steps": "20", "rate": "1000"}
            return [
                repeat(
                    "POST /api/runs/ to the first step: steps",
                    "s",
                    5,
                    to_first_step(client, "steps", steps, repeat_for_ever(None)),
                ),
                repeat(
                    "POST /api/runs/ to the first step: digits",
                    "s",
                    3,
                    to_first_step(client, "digits", {"epochs": "1"}, repeat_for_ever(None)),
                ),
            ]
    finally:
        launch.stop(home)


def to_first_step(
    client: ApiClient, benchmark: str, args: dict[str, str], cores: Iterable[float | None]
) -> Callable[[], float]:
    """Return what orders a run and says after how many seconds it made its first step.

    Args:
        client: of the master that is measured.
        benchmark: the task.
        args: its options.
        cores: what each worker is to have, run by run.
    """
    each = iter(cores)

    def once() -> float:
        ordered_at = datetime.now(UTC)
        ordered = client.create_run(
            "latency", 2, num_cpus=next(each), benchmark=benchmark, args=args
        )
        run = ordered.result().value
        while run.active:
            time.sleep(0.1)
            run = client.get_run(run.id).result().value
        assert run.state == "FINISHED", run.reason
        points = client.get_run_metrics(run.id, metric_filter="step").result().value["step @ 0"]
        first = next(point for point in points if point.number >= 1)
        return (datetime.fromisoformat(first.date) - ordered_at).total_seconds()

    return once
