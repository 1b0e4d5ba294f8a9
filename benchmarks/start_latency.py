"""How long it takes from ``POST /api/runs/`` to the first training step."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
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
                    _start(client, "steps", steps),
                ),
                repeat(
                    "POST /api/runs/ to the first step: digits",
                    "s",
                    3,
                    _start(client, "digits", {"epochs": "1"}),
                ),
            ]
    finally:
        launch.stop(home)


def _start(client: ApiClient, benchmark: str, args: dict[str, str]) -> Callable[[], float]:
    def once() -> float:
        ordered_at = datetime.now(UTC)
        run = client.create_run("latency", 2, benchmark=benchmark, args=args).result().value
        while run.active:
            time.sleep(0.1)
            run = client.get_run(run.id).result().value
        assert run.state == "FINISHED", run.reason
        points = client.get_run_metrics(run.id, metric_filter="step").result().value["step @ 0"]
        first = next(point for point in points if point.number >= 1)
        return (datetime.fromisoformat(first.date) - ordered_at).total_seconds()

    return once
