"""Why worker pods are not there, in words."""

import pytest

from master.pools.api import ApiError
from master.pools.manifests import SHAPE_LABEL
from master.pools.plan import Wanted
from master.pools.seen import SeenPod
from master.pools.waiting import explain_pods, explain_refusal
from tests.master.pools.made import NAME, make_pod

WANTED = "wanted"
BUSY = "a pod of the run, from before the manifest changed"
NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


def explain(*pods: SeenPod) -> str:
    template = {"metadata": {"labels": {SHAPE_LABEL: WANTED}}}
    wanted = Wanted({}, {"spec": {"replicas": 4, "template": template}}, frozenset({BUSY}))
    return explain_pods(pods, wanted, "`kubectl describe`")


def four(**changes_of_last: object) -> list[SeenPod]:
    return [*(make_pod(i, WANTED) for i in range(3)), make_pod(3, WANTED, **changes_of_last)]


def test_nothing_where_all_run() -> None:
    assert explain(*four()) == ""
    assert explain(*four(trouble="it ended once")) == "", "it runs again"
    assert explain(*four(uid=BUSY, labels={})) == "", "it is good for its run"


def test_no_room() -> None:
    pending = {"phase": "Pending", "running": False, "scheduled": False}
    assert explain(*four(**pending, unschedulable=NO_ROOM)) == (
        f"the cluster has room for 3 of 4 workers: {NO_ROOM}"
    )


def test_what_keeps_a_pod_from_running() -> None:
    broken = four(running=False, trouble="worker image x cannot be pulled: no")
    assert explain(*broken) == f"worker image x cannot be pulled: no ({NAME}-3)"


def test_pods_of_before_must_end_first() -> None:
    old = make_pod(3, "old")
    said = "3 of 4 worker pods are made; the former ones (1) end first"
    assert explain(*four()[:3], old) == said
    ending = make_pod(3, WANTED, phase="Terminating")
    assert explain(*four()[:3], ending) == said


def test_pods_that_are_not_made() -> None:
    """What the StatefulSet is refused, as by a quota, no pod can tell."""
    assert explain(*four()[:1]) == (
        "1 of 4 worker pods are made; if it stays so, `kubectl describe` tells why"
    )


def test_pods_that_start() -> None:
    assert explain(*four(running=False)) == (
        "3 of 4 worker pods have started; the others pull their image, or are being set up"
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "the cluster's API does not answer: so"),
        (400, "the cluster finds the worker pods invalid (400): so"),
        (403, "the cluster refuses to make worker pods (403 Forbidden): so"),
        (409, "the cluster cannot make worker pods (409): so"),
        (422, "the cluster finds the worker pods invalid (422): so"),
        (500, "the cluster cannot make worker pods (500): so"),
    ],
)
def test_what_the_cluster_refuses(status: int, words: str) -> None:
    assert explain_refusal(ApiError(status, "so")) == words
