"""Every value that a task logs is in Prometheus or kept, whatever is killed meanwhile."""

from collections.abc import Callable

import psutil
import pytest

from mlbench import ApiClient
from mlbench.client import Run
from mlbench.home import Home
from tests.chain.processes import service
from tests.conftest import wait_for
from tests.ordering import order_steps


def run_to_end(client: ApiClient, run: Run, seconds: float = 60.0) -> Run:
    wait_for(lambda: not client.get_run(run.id).result().value.active, seconds, "the run ends")
    return client.get_run(run.id).result().value


def assert_complete(client: ApiClient, run: Run, steps: int) -> None:
    assert run.state == "FINISHED", run.reason
    assert run.delivery is not None
    assert run.delivery.recorded == run.delivery.in_prometheus + run.delivery.kept
    series = client.get_run_metrics(run.id).result().value
    assert sum(len(points) for points in series.values()) == run.delivery.recorded
    for rank in range(run.num_workers):
        losses = series[f"train_loss @ {rank}"]
        assert len(losses) == steps
        assert [point.date for point in losses] == sorted(point.date for point in losses)


@pytest.mark.parametrize(("steps", "rate"), [(1000, 2000), (150, 75)])
def test_none_is_lost(stack: Home, steps: int, rate: int) -> None:
    with ApiClient.from_home(stack) as client:
        ordered = order_steps(client, f"rate-{rate}", steps=steps, rate=rate)
        ended = run_to_end(client, ordered)
        assert_complete(client, ended, steps)
        # Prometheus has one value of each series and millisecond: the first.
        assert ended.delivery is not None
        series = client.get_run_metrics(ended.id).result().value
        moments = {(name, point.date[:-4]) for name, points in series.items() for point in points}
        assert ended.delivery.in_prometheus == len(moments)


def test_values_are_read_while_the_run_goes_on(stack: Home) -> None:
    with ApiClient.from_home(stack) as client:
        ordered = order_steps(client, "reading", steps=600, rate=200)
        seen = 0
        while (run := client.get_run(ordered.id).result().value).active:
            points = client.get_run_metrics(run.id, metric_filter="train_loss").result().value
            count = len(points.get("train_loss @ 0", []))
            assert count >= seen, "a value that was read is gone"
            seen = count
        assert_complete(client, run, steps=600)


@pytest.mark.timeout(180)
def test_kill_everything_between_worker_and_prometheus(own_stack: Home) -> None:
    with ApiClient.from_home(own_stack) as client:
        ordered = order_steps(client, "kills", steps=3300, rate=150)
        wait_for(lambda: _losses(client, ordered.id) > 50, what="the run has begun")
        for word in ("master.controller", "gunicorn", "--config.file"):
            before = service(own_stack, word).pid
            psutil.Process(before).kill()
            wait_for(_restarted(own_stack, word, before), what=f"{word} was started again")
            wait_for(lambda: _answers(client), what="the API answers")
            so_far = _losses(client, ordered.id)
            wait_for(_more_than(client, ordered.id, so_far), what="values arrive again")
        now = client.get_run(ordered.id).result().value
        assert now.state == "STARTED", "the run was over before the kills"
        assert_complete(client, run_to_end(client, ordered), steps=3300)


def _restarted(home: Home, word: str, before: int) -> Callable[[], bool]:
    def check() -> bool:
        try:
            return service(home, word).pid != before
        except (ValueError, psutil.Error):
            return False

    return check


def _answers(client: ApiClient) -> bool:
    try:
        client.get_runs().result()
    except Exception:
        return False
    return True


def _losses(client: ApiClient, run_id: int) -> int:
    """Return how many values can be read; 0 while a part of the way is down."""
    try:
        found = client.get_run_metrics(run_id, metric_filter="train_loss").result().value
    except Exception:
        return 0
    return len(found.get("train_loss @ 0", []))


def _more_than(client: ApiClient, run_id: int, count: int) -> Callable[[], bool]:
    return lambda: _losses(client, run_id) > count
