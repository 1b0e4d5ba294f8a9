"""The steps that the Kubernetes pool plans for the observed pods."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from mlbench_master.pools.manifests import APPLIED, SHAPE_LABEL, Object, PodManifest
from mlbench_master.pools.pool_plan import (
    OVERDUE_SECONDS,
    Apply,
    Delete,
    DesiredPool,
    Step,
    explain_pods,
    is_usable,
    plan,
    surplus,
)
from mlbench_master.pools.status import SeenPod
from tests.master.pools.made import NAME, make_pod, make_wanted

NOW = 1_000_000.0
OLD = "an older shape"


@pytest.fixture
def wanted(manifest: PodManifest) -> DesiredPool:
    return make_wanted(manifest)


def plan_for(wanted: DesiredPool, *pods: SeenPod, doomed: Iterable[str] = ()) -> list[Step]:
    """Return the steps if Service and StatefulSet are up to date."""
    return plan(wanted, wanted.service, wanted.stateful_set, pods, frozenset(doomed), NOW)


def test_missing_objects_are_created(wanted: DesiredPool) -> None:
    both = [Apply(wanted.service), Apply(wanted.stateful_set)]
    assert plan(wanted, None, None, [], frozenset(), NOW) == both
    assert plan(wanted, wanted.service, None, [], frozenset(), NOW) == both[1:]
    assert plan(wanted, None, wanted.stateful_set, [], frozenset(), NOW) == both[:1]


@pytest.mark.parametrize(
    "change",
    [
        lambda seen: seen["metadata"]["annotations"].update({APPLIED: "other"}),
        lambda seen: seen["metadata"].pop("annotations"),
        lambda seen: seen["metadata"].pop("ownerReferences"),
        lambda seen: seen["metadata"].update(deletionTimestamp="2026-03-01T09:21:29Z"),
        lambda seen: seen["spec"].update(replicas=7),
    ],
)
def test_differences_are_applied(wanted: DesiredPool, change: Callable[[Object], object]) -> None:
    seen, old = copy.deepcopy(wanted.stateful_set), make_pod(0, OLD)
    change(seen)
    steps = plan(wanted, wanted.service, seen, [old], frozenset(), NOW)
    assert steps == [Apply(wanted.stateful_set)], "otherwise the cluster would recreate the old pod"


def test_pods_are_deleted_only_after_the_change_was_observed(wanted: DesiredPool) -> None:
    seen, old = copy.deepcopy(wanted.stateful_set), make_pod(0, OLD)
    seen["metadata"]["generation"] = 3
    for observed, steps in ((2, []), (3, [Delete(old)])):
        seen["status"] = {"observedGeneration": observed}
        assert plan(wanted, wanted.service, seen, [old], frozenset(), NOW) == steps


RIGHT = "the wanted shape"


@pytest.mark.parametrize(
    ("shape", "changes", "busy", "ends"),
    [
        (RIGHT, {}, False, False),
        (RIGHT, {"phase": "Pending"}, False, False),
        (OLD, {}, False, True),
        (OLD, {"phase": "Pending"}, False, True),
        (OLD, {}, True, False),
        # These pods have ended, so they are deleted although they had a rank.
        (RIGHT, {"phase": "Failed"}, True, True),
        (RIGHT, {"phase": "Succeeded"}, True, True),
    ],
)
def test_pods_of_another_shape_are_deleted(
    wanted: DesiredPool, shape: str, changes: dict[str, Any], busy: bool, ends: bool
) -> None:
    pod = make_pod(0, wanted.shape if shape == RIGHT else shape, **changes)
    with_busy = replace(wanted, busy=frozenset({pod.uid} if busy else ()))
    assert plan_for(with_busy, pod) == ([Delete(pod)] if ends else [])


def test_doomed_pods_are_deleted_and_forcibly_on_dead_nodes(wanted: DesiredPool) -> None:
    pod = make_pod(0, wanted.shape)
    assert plan_for(wanted, pod, doomed=[pod.uid]) == [Delete(pod)]
    ending = make_pod(0, OLD, phase="Terminating", ends_by=NOW - OVERDUE_SECONDS)
    assert plan_for(wanted, ending) == [], "the node gets time to end the pod"
    dead = replace(ending, ends_by=NOW - OVERDUE_SECONDS - 1)
    assert plan_for(wanted, dead) == [Delete(dead, at_once=True)]


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "Pending"},
        {"phase": "Terminating", "ends_by": NOW},
        {"ip": ""},
        {"number": 2},
        {"labels": {"mlbench.shape": OLD}},
        {"labels": {}},
    ],
)
def test_usable_pods(wanted: DesiredPool, change: dict[str, Any]) -> None:
    good = make_pod(1, wanted.shape)
    assert is_usable(good, wanted, frozenset())
    assert not is_usable(good, wanted, frozenset({good.uid}))
    assert not is_usable(replace(good, **change), wanted, frozenset())


def test_a_busy_pod_stays_usable_after_a_change_of_the_manifest(wanted: DesiredPool) -> None:
    kept = replace(wanted, busy=frozenset({"uid-0"}))
    assert is_usable(make_pod(0, OLD), kept, frozenset())
    assert not is_usable(make_pod(0, OLD, uid="a later one"), kept, frozenset())


def test_surplus_pods_are_deleted_although_the_pool_grows_again(manifest: PodManifest) -> None:
    """The cluster may already be deleting them when a larger run starts."""
    pods = [make_pod(number, OLD) for number in range(4)]
    two, four = make_wanted(manifest, 2), make_wanted(manifest, 4)
    assert surplus(two, four.stateful_set, pods, first=False) == {"uid-2", "uid-3"}
    # A growing pool has no surplus.
    assert surplus(four, two.stateful_set, pods, first=False) == set()
    killed = surplus(four, two.stateful_set, pods, first=True)
    assert killed == {"uid-2", "uid-3"}, "a killed controller may have reduced the size"
    assert surplus(four, None, pods, first=True) == set()


# --- Explanations of missing pods ---

WANTED = "wanted"
BUSY = "a pod of the run, from before the manifest changed"
NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."
PENDING: dict[str, Any] = {"phase": "Pending", "running": False, "scheduled": False}
PENDING["unschedulable"] = NO_ROOM
STARTED = "3 of 4 worker pods have started"
ENDS_FIRST = "3 of 4 worker pods are created; previous pods (1) must end first"


def four(**changes_of_last: Any) -> list[SeenPod]:
    return [*(make_pod(i, WANTED) for i in range(3)), make_pod(3, WANTED, **changes_of_last)]


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        (four(), ""),
        # The container runs again.
        (four(trouble="it ended once"), ""),
        (four(uid=BUSY, labels={}), ""),
        (four(**PENDING), f"the cluster has room for 3 of 4 workers: {NO_ROOM}"),
        (four(running=False, trouble="no image"), f"no image ({NAME}-3)"),
        ([*four()[:3], make_pod(3, OLD)], ENDS_FIRST),
        (four(phase="Terminating"), ENDS_FIRST),
        # A refused StatefulSet, e.g. because of a quota, has no pod with a reason.
        (four()[:1], "1 of 4 worker pods are created. If this does not change, see `describe`"),
        (four(running=False), f"{STARTED}; the others pull their image, or are being set up"),
    ],
)
def test_missing_pods_are_explained(pods: list[SeenPod], words: str) -> None:
    template = {"metadata": {"labels": {SHAPE_LABEL: WANTED}}}
    wanted = DesiredPool({}, {"spec": {"replicas": 4, "template": template}}, frozenset({BUSY}))
    assert explain_pods(pods, wanted, "`describe`") == words
