"""Plan the steps that bring a cluster's pool from its observed to its desired state.

Pure functions: no clock, no network.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mlbench_master.pools.manifests import Object, applied, shape_of
from mlbench_master.pools.pool import RUNNING, TERMINATING
from mlbench_master.pools.status import SeenPod

# A pod that still exists this long after its deadline for ending is on a dead node.
OVERDUE_SECONDS = 60.0


@dataclass(frozen=True)
class DesiredPool:
    """Desired state of the pool."""

    service: Object
    stateful_set: Object
    busy: AbstractSet[str]
    """Uids of the pods that runs use. They stay."""

    @property
    def workers(self) -> int:
        """Number of pods."""
        return int(self.stateful_set["spec"]["replicas"])

    @property
    def shape(self) -> str:
        """Shape label of the pods."""
        return shape_of(self.stateful_set)


@dataclass(frozen=True)
class Apply:
    """Create or change a Service or StatefulSet."""

    desired: Object


@dataclass(frozen=True)
class Delete:
    """Delete a pod."""

    pod: SeenPod
    at_once: bool = False
    """Whether to delete it without waiting for its node, which does not respond."""


Step = Apply | Delete


def plan(
    desired: DesiredPool,
    service: Object | None,
    stateful_set: Object | None,
    pods: Sequence[SeenPod],
    doomed: AbstractSet[str],
    now: float,
) -> list[Step]:
    """Return the next steps; none if the cluster is as desired.

    ``doomed`` are the uids of the pods that are to end already, ``now`` is in Unix seconds.
    """
    steps: list[Step] = [Apply(desired.service)] if _differs(desired.service, service) else []
    if stateful_set is None or _differs(desired.stateful_set, stateful_set):
        # Pods are deleted only later: the old StatefulSet would make the old pods again.
        return [*steps, Apply(desired.stateful_set)]
    # Wait until the cluster's controller has observed its latest change.
    generation = stateful_set["metadata"].get("generation", 0)
    if (stateful_set.get("status") or {}).get("observedGeneration", generation) < generation:
        return steps
    for pod in pods:
        if pod.ends_by is not None:
            if now - pod.ends_by > OVERDUE_SECONDS:
                steps.append(Delete(pod, at_once=True))
            continue
        # No container of a failed or succeeded pod runs, or is started again.
        is_over = pod.phase in ("Failed", "Succeeded") or pod.uid in doomed
        stays = pod.phase == TERMINATING or pod.uid in desired.busy
        if is_over or (pod.shape != desired.shape and not stays):
            steps.append(Delete(pod))
    return steps


def surplus(
    desired: DesiredPool, stateful_set: Object | None, pods: Sequence[SeenPod], *, first: bool
) -> frozenset[str]:
    """Return the uids of the pods beyond the desired size, which the cluster will end.

    They are lost even if the pool grows again, because the cluster may have started to end them.
    ``first``: whether this process decides for the first time. The previous process may have made
    the StatefulSet smaller.
    """
    size = desired.workers
    if first and stateful_set is not None:
        size = min(size, stateful_set["spec"].get("replicas", size))
    return frozenset(pod.uid for pod in pods if pod.number >= size)


def fits(pod: SeenPod, desired: DesiredPool) -> bool:
    """Return whether a pod is as desired. A run keeps its pods, whatever their shape."""
    in_shape = pod.shape == desired.shape or pod.uid in desired.busy
    return in_shape and 0 <= pod.number < desired.workers


def is_usable(pod: SeenPod, desired: DesiredPool, doomed: AbstractSet[str]) -> bool:
    """Return whether a pod can be given a rank: it runs, is as desired, and stays."""
    is_running = pod.phase == RUNNING and bool(pod.ip)
    return is_running and fits(pod, desired) and pod.uid not in doomed


def explain_pods(pods: Sequence[SeenPod], desired: DesiredPool, ask: str) -> str:
    """Return why not all desired pods run; empty if they do.

    ``ask`` is the command that shows why pods are not even created.
    """
    workers = desired.workers
    created = [pod for pod in pods if fits(pod, desired) and pod.phase != TERMINATING]
    for pod in created:
        if pod.trouble and not pod.running:
            return f"{pod.trouble} ({pod.name})"
    for pod in created:
        if pod.unschedulable:
            room = sum(other.scheduled for other in created)
            return f"the cluster has room for {room} of {workers} workers: {pod.unschedulable}"
    progress = f"{len(created)} of {workers} worker pods are created"
    if ending := len(pods) - len(created):
        return f"{progress}; previous pods ({ending}) must end first"
    if len(created) < workers:
        return f"{progress}. If this does not change, see {ask}"
    if pending := sum(not pod.running for pod in created):
        started = f"{workers - pending} of {workers} worker pods have started"
        return f"{started}; the others pull their image, or are being set up"
    return ""


def _differs(desired: Object, existing: Object | None) -> bool:
    if existing is None or "deletionTimestamp" in existing["metadata"]:
        return True

    def traits(item: Object) -> object:
        owners = [owner["uid"] for owner in item["metadata"].get("ownerReferences") or []]
        return applied(item), owners, item["spec"].get("replicas")

    return traits(existing) != traits(desired)
