"""Runs of documented example scripts with their libraries, while the master is killed."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mlbench import ApiClient
from mlbench.contract.records import Manifest, Point, Run
from mlbench.contract.results import Result
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.known import known
from tests.support.stacks import assert_counted, kill_service, reload, run_to_end

Values = list[tuple[float, float]]
"""Pairs of step and value."""


@dataclass(frozen=True)
class Trained:
    """An ended run with all its recorded data."""

    run: Run
    series: Mapping[str, Sequence[Point]]
    result: Result
    manifest: Manifest
    logs: Sequence[str]
    """Output of each rank on stdout."""

    def values(self, metric: str, rank: int) -> Values:
        """Return the values of a metric, each with the last step recorded before it."""
        steps = self.series[f"step @ {rank}"]
        dates = [point.date for point in steps]
        points = self.series[f"{metric} @ {rank}"]
        return [(steps[bisect_right(dates, p.date) - 1].number, p.number) for p in points]

    def last(self, metric: str, rank: int) -> float:
        """Return the last value of a metric."""
        return self.series[f"{metric} @ {rank}"][-1].number


def follow(client: ApiClient, stack: Home, run: Run) -> Trained:
    """Wait for the end of a run, and kill the master during it with SIGKILL."""
    wait_for(lambda: _is_training(client, run), 120, "the first epoch of all ranks")
    killed_at = datetime.now(UTC)
    kill_service(stack, "gunicorn", "mlbench_master.controller")
    run = run_to_end(client, run)
    texts = [client.get_logs(run.id, rank).result().value.text for rank in range(run.num_workers)]
    errors = client.get_logs(run.id, 0, stream="stderr").result().value.text
    assert run.state == "FINISHED", f"{run.reason}\n{errors}"
    assert "mlbench: " not in errors
    assert_counted(run)
    series = client.get_run_metrics(run.id, exact=True).result().value
    last = max(datetime.fromisoformat(points[-1].date) for points in series.values())
    assert last > killed_at, "the training ended before the kill"
    assert sum(map(len, series.values())) == known(run.delivery).recorded
    result, manifest = client.get_result(run.id).result(), client.get_manifest(run.id).result()
    return Trained(run, series, result.value, manifest.value, texts)


def _is_training(client: ApiClient, run: Run) -> bool:
    if not reload(client, run).active:
        return True
    series = client.get_run_metrics(run.id, metric_filter="epoch").result().value
    return len(series) == run.num_workers
