"""External jobs in the cluster: their pods join one run, and their resources are measured."""

import time
from typing import Any

import pytest

from mlbench.contract.join_token import make, new_holder
from mlbench.contract.records import Run
from tests.e2e.commands import wait_until
from tests.e2e.place import apply
from tests.e2e.release import Release
from tests.support.stacks import losses

_TRAIN = """
import time
from mlbench import Tracker
with Tracker() as t:
    for step in range(300):
        time.sleep(0.05)
        t.step(samples=8, train_loss=1 / (step + 1))
"""


@pytest.fixture
def recorded(release: Release) -> Run:
    """The run of two Jobs with a pod each, because old clusters lack indexed Jobs."""
    token = make(release.token(), int(time.time()) + 3600, new_holder())
    jobs = [_job(release, index, token) for index in range(2)]
    apply(*jobs)

    def find() -> list[Run]:
        return [r for r in release.client.get_runs().result().value if r.name == "recorded"]

    [joined] = wait_until(find, lambda runs: len(runs) == 1, 120, "a pod has joined")
    return joined


def _job(release: Release, index: int, token: str) -> dict[str, Any]:
    environ = {
        "JOB_COMPLETION_INDEX": str(index),
        "JOB_UID": "4711",
        "MLBENCH_URL": f"http://{release.service}.{release.name}",
        "MLBENCH_TOKEN": token,
    }
    command = ["python3", "-m", "mlbench", "record", "--name", "recorded", "--workers", "2", "--"]
    container = {
        "name": "train",
        "image": release.images["worker"],
        "command": [*command, "python3", "-c", _TRAIN],
        "env": [{"name": name, "value": value} for name, value in environ.items()],
    }
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"recorded-{index}", "namespace": release.name},
        "spec": {"backoffLimit": 0, "template": pod},
    }


def test_pods_of_external_jobs_become_one_run_with_resources(
    release: Release, recorded: Run
) -> None:
    series = "container_network_transmit_bytes_total"
    pods = {f"run-{recorded.id}-rank-{rank}" for rank in range(2)}
    wait_until(
        lambda: {row["metric"]["pod"] for row in release.query(f'{series}{{pod=~"run-.*"}} > 0')},
        lambda names: names == pods,
        90,
        "the resources of both are shown",
    )
    ended = release.finish(recorded)
    assert ended.launcher == "job"
    assert [len(losses(release.client, ended, rank)) for rank in range(2)] == [300, 300]
