"""The plan of a cluster's pool: from what is wanted and what is seen to a list of steps.

Pure functions: no clock, no network.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mlbench_master.pools.base import RUNNING, TERMINATING
from mlbench_master.pools.manifests import Object, applied, shape_of
from mlbench_master.pools.status import SeenPod

# A pod that has not ended this long after it must have is on a dead node.
OVERDUE_SECONDS = 60.0
# In these phases no container of a pod runs, or is started again.
_OVER = ("Failed", "Succeeded")


@dataclass(frozen=True)
class Wanted:
    """What the cluster should have."""

    service: Object
    stateful_set: Object
    busy: AbstractSet[str]
    """The uids of the pods of runs, which stay."""

    @property
    def workers(self) -> int:
        """The number of pods."""
        return int(self.stateful_set["spec"]["replicas"])

    @property
    def shape(self) -> str:
        """The shape label of the pods."""
        return shape_of(self.stateful_set)


@dataclass(frozen=True)
class Apply:
    """Create or change a Service or StatefulSet."""

    wanted: Object


@dataclass(frozen=True)
class Delete:
    """Delete a pod."""

    pod: SeenPod
    at_once: bool = False
    """Whether not to wait for its node, which does not answer."""


Step = Apply | Delete


def plan(
    wanted: Wanted,
    service: Object | None,
    stateful_set: Object | None,
    pods: Sequence[SeenPod],
    doomed: AbstractSet[str],
    now: float,
) -> list[Step]:
    """Decide on the next steps from what the cluster shows; none where all is as wanted.

    ``doomed`` are the uids of the pods whose end was decided before, ``now`` is in Unix seconds.
    """
    steps: list[Step] = [Apply(wanted.service)] if _differs(wanted.service, service) else []
    if stateful_set is None or _differs(wanted.stateful_set, stateful_set):
        # Before it is seen to be as wanted, it would make the old pods again.
        return [*steps, Apply(wanted.stateful_set)]
    # Until the cluster's controller has observed its latest change.
    generation = stateful_set["metadata"].get("generation", 0)
    if (stateful_set.get("status") or {}).get("observedGeneration", generation) < generation:
        return steps
    return steps + [step for pod in pods if (step := _end(pod, wanted, doomed, now))]


def surplus(
    wanted: Wanted, stateful_set: Object | None, pods: Sequence[SeenPod], *, first: bool
) -> frozenset[str]:
    """Return the uids of the pods beyond the wanted size, which the cluster ends.

    They count as ended even if the pool grows again meanwhile: the cluster may have begun. The
    ``first`` time that a process decides, one before it may have made the StatefulSet smaller.
    """
    size = wanted.workers
    if first and stateful_set is not None:
        size = min(size, stateful_set["spec"].get("replicas", size))
    return frozenset(pod.uid for pod in pods if pod.number >= size)


def fits(pod: SeenPod, wanted: Wanted) -> bool:
    """Check if a pod is as wanted. A run keeps its pods, whatever their shape."""
    in_shape = pod.shape == wanted.shape or pod.uid in wanted.busy
    return in_shape and 0 <= pod.number < wanted.workers


def is_usable(pod: SeenPod, wanted: Wanted, doomed: AbstractSet[str]) -> bool:
    """Check if a pod may be given a rank: it runs, is as wanted, and stays."""
    runs = pod.phase == RUNNING and bool(pod.ip)
    return runs and fits(pod, wanted) and pod.uid not in doomed


def explain_pods(pods: Sequence[SeenPod], wanted: Wanted, ask: str) -> str:
    """Explain why not all wanted pods run; empty if they do.

    ``ask`` is the command that tells why pods are not even made.
    """
    workers = wanted.workers
    made = [pod for pod in pods if fits(pod, wanted) and pod.phase != TERMINATING]
    for pod in made:
        if pod.trouble and not pod.running:
            return f"{pod.trouble} ({pod.name})"
    for pod in made:
        if pod.unschedulable:
            room = sum(other.scheduled for other in made)
            return f"the cluster has room for {room} of {workers} workers: {pod.unschedulable}"
    there = f"{len(made)} of {workers} worker pods are made"
    if ending := len(pods) - len(made):
        return f"{there}; the former ones ({ending}) end first"
    if len(made) < workers:
        return f"{there}; if it stays so, {ask} tells why"
    if pending := sum(not pod.running for pod in made):
        started = f"{workers - pending} of {workers} worker pods have started"
        return f"{started}; the others pull their image, or are being set up"
    return ""


def _differs(wanted: Object, found: Object | None) -> bool:
    if found is None or "deletionTimestamp" in found["metadata"]:
        return True
    return _traits(found) != _traits(wanted)


def _traits(made: Object) -> object:
    owners = [one["uid"] for one in made["metadata"].get("ownerReferences") or []]
    return applied(made), owners, made["spec"].get("replicas")


def _end(pod: SeenPod, wanted: Wanted, doomed: AbstractSet[str], now: float) -> Delete | None:
    if pod.ends_by is not None:
        return Delete(pod, at_once=True) if now - pod.ends_by > OVERDUE_SECONDS else None
    if pod.phase in _OVER or pod.uid in doomed:
        return Delete(pod)
    if pod.phase == TERMINATING or pod.uid in wanted.busy:
        return None
    return Delete(pod) if pod.shape != wanted.shape else None
