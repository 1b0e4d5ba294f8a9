"""Reading pods from the JSON of the Kubernetes API."""

import math
from typing import Any

import pytest

from mlbench_master.pools.manifests import Object
from mlbench_master.pools.status import SeenPod, read_pod

PORTS = [{"name": "metrics", "containerPort": 9500, "protocol": "TCP"}]


def pod(status: Object | None = None, **metadata: Any) -> Object:
    return {
        "metadata": {"name": "r-mlbench-worker-3", "uid": "u", **metadata},
        "spec": {"nodeName": "n", "containers": [{"name": "worker", "ports": PORTS}]},
        "status": status or {},
    }


def container(name: str = "worker", **state: Any) -> Object:
    return {"name": name, "image": "me/train:1", "imageID": "me/train@sha256:0", **state}


def waiting(reason: str, message: str = "") -> Object:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def ended(code: int, reason: str = "Error", message: str = "") -> Object:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


RUNNING: Object = {"state": {"running": {"startedAt": "2026-03-01T09:21:29Z"}}}
BACK_OFF = waiting("CrashLoopBackOff", "back-off 10s")
NO_START = "the worker's container cannot be started"
ENDED = "the worker's container ended"
TOO_MUCH = "more memory was used than its limit (OOMKilled)"


def test_running_new_and_terminating_pods() -> None:
    running = {"podIP": "10.0.0.1", "containerStatuses": [container(**RUNNING)]}
    seen = read_pod(pod({"phase": "Running", **running}, labels={"mlbench.shape": "s"}))
    assert seen == SeenPod(
        name="r-mlbench-worker-3",
        number=3,
        phase="Running",
        ip="10.0.0.1",
        node="n",
        labels={"mlbench.shape": "s"},
        port=9500,
        uid="u",
        image="me/train@sha256:0",
        usable=False,
        running=True,
        scheduled=True,
        unschedulable="",
        ends_by=None,
    )
    assert seen.shape == "s"
    seen = read_pod({"metadata": {"name": "stranger", "uid": "u"}})
    assert (seen.number, seen.phase, seen.running, seen.scheduled) == (-1, "Pending", False, False)
    seen = read_pod(pod({"phase": "Running"}, deletionTimestamp="1970-01-01T00:01:40Z"))
    assert (seen.phase, seen.ends_by) == ("Terminating", 100.0)


def test_an_unschedulable_pod() -> None:
    message = "0/1 nodes are available: 1 Insufficient cpu."
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    seen = read_pod({**pod({"conditions": [condition]}), "spec": {}})
    assert (seen.scheduled, seen.unschedulable) == (False, message)
    taken = read_pod(pod({"conditions": [{**condition, "status": "True"}]}))
    assert (taken.scheduled, taken.unschedulable) == (True, "")


@pytest.mark.parametrize(
    ("state", "trouble"),
    [
        (RUNNING, ""),
        (waiting("ContainerCreating"), ""),
        (waiting("ErrImagePull", "none"), "worker image me/train:1 cannot be pulled: none"),
        (waiting("ImagePullBackOff"), "worker image me/train:1 cannot be pulled: ImagePullBackOff"),
        (waiting("ConfigError", "no secret"), f"{NO_START} (ConfigError): no secret"),
        ({**BACK_OFF, "lastState": ended(137, "OOMKilled")}, f"{ENDED}: {TOO_MUCH}"),
        ({**RUNNING, "lastState": ended(137, "OOMKilled")}, f"{ENDED}: {TOO_MUCH}"),
        ({"state": ended(128, message="no python3")}, f"{ENDED}: Error, exit code 128: no python3"),
        (BACK_OFF, f"{NO_START} (CrashLoopBackOff): back-off 10s"),
    ],
)
def test_trouble_of_a_container(state: Object, trouble: str) -> None:
    assert read_pod(pod({"containerStatuses": [container(**state)]})).trouble == trouble


@pytest.mark.parametrize(
    ("name", "state", "trouble"),
    [
        ("network", {"state": ended(0, "Completed")}, ""),
        ("network", {"state": ended(2)}, "shaping what it sends failed: Error, exit code 2"),
        ("agent", BACK_OFF | {"lastState": ended(1)}, "bringing in the agent failed: Error, exit "),
        ("other", {"state": ended(1)}, "the init container other failed: Error, exit code 1"),
        ("agent", waiting("ErrImagePull", "x"), "worker image me/train:1 cannot be pulled: x"),
    ],
)
def test_trouble_of_an_init_container(name: str, state: Object, trouble: str) -> None:
    worker = container(**waiting("PodInitializing"))
    status = {"initContainerStatuses": [container(name, **state)], "containerStatuses": [worker]}
    found = read_pod(pod(status)).trouble
    assert found.startswith(trouble)
    assert bool(found) == bool(trouble)


def test_a_failed_pod() -> None:
    for status, trouble in (
        ({"reason": "Evicted", "message": "low on memory"}, "Evicted: low on memory"),
        ({}, "the pod failed"),
        ({"message": "x" * 10_000}, f"the pod failed: {'x' * 500}"),
    ):
        assert read_pod(pod({"phase": "Failed", **status})).trouble == trouble


def test_the_time_of_trouble() -> None:
    """A container that runs again was in trouble only until its last end."""
    last = ended(137, "OOMKilled")
    last["terminated"]["finishedAt"] = "1970-01-01T00:01:40Z"
    for state, at in ((RUNNING, 100.0), (BACK_OFF, math.inf)):
        status = {"containerStatuses": [container(**state, lastState=last)]}
        assert read_pod(pod(status)).troubled_at == at


def test_the_last_output_of_a_container_is_shown_in_one_line() -> None:
    wrote = "Traceback:\n" + 100 * "  File x\n" + "\x1b[31mImportError: tôrch\0\n"
    status = {"containerStatuses": [container(state=ended(1, message=wrote))]}
    trouble = read_pod(pod(status)).trouble
    assert trouble.startswith("the worker's container ended: Error, exit code 1: ")
    assert trouble.endswith("File x [31mImportError: tôrch")
    assert len(trouble) < 600
    assert trouble.isprintable(), "terminals and PostgreSQL reject control characters"
