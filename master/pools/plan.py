"""What a cluster's pool has to do: from what should be and what is seen to a list of steps.

No clock, no network: everything comes in as an argument, so every case can be tested.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from master.pools.base import RUNNING, TERMINATING
from master.pools.manifests import applied, shape_of
from master.pools.objects import Object
from master.pools.seen import SeenPod

# A pod that has not ended this long after it must have is on a node that is dead.
OVERDUE_SECONDS = 60.0
# Every container of such a pod has ended, and with these phases no other is started.
_OVER = ("Failed", "Succeeded")


@dataclass(frozen=True)
class Wanted:
    """What should be."""

    service: Object
    stateful_set: Object
    busy: AbstractSet[str]
    """The uids of the pods that the run which goes on has, and keeps."""

    @property
    def workers(self) -> int:
        """How many pods there should be."""
        workers: int = self.stateful_set["spec"]["replicas"]
        return workers

    @property
    def shape(self) -> str:
        """The label of the pods that there should be."""
        return shape_of(self.stateful_set)


@dataclass(frozen=True)
class SeenObject:
    """A Service or StatefulSet as the cluster shows it."""

    applied: str
    """Which one it is of those that were ever wanted."""
    owner: str
    """The uid of what it goes with; empty where that has gone and left it."""
    replicas: int | None
    followed: bool
    """Whether the cluster has taken notice of its latest change."""
    going: bool
    """Whether it is being deleted."""


@dataclass(frozen=True)
class Apply:
    """Make a Service or StatefulSet what is wanted."""

    wanted: Object


@dataclass(frozen=True)
class Delete:
    """Delete a pod."""

    pod: SeenPod
    at_once: bool = False
    """Without waiting for its node, which does not answer."""


Step = Apply | Delete


def read_object(found: Object) -> SeenObject:
    """Return what the JSON of a Service or StatefulSet says."""
    generation = found["metadata"].get("generation", 0)
    observed = (found.get("status") or {}).get("observedGeneration", generation)
    return SeenObject(
        applied=applied(found),
        owner=_owner(found),
        replicas=(found.get("spec") or {}).get("replicas"),
        followed=observed >= generation,
        going="deletionTimestamp" in found["metadata"],
    )


def plan(
    wanted: Wanted,
    services: Mapping[str, SeenObject],
    stateful_sets: Mapping[str, SeenObject],
    pods: Sequence[SeenPod],
    doomed: AbstractSet[str],
    now: float,
) -> list[Step]:
    """Return what is to be done now, nothing where all is as it should be.

    Args:
        wanted: what should be.
        services: the Services seen, by name.
        stateful_sets: the StatefulSets seen, by name.
        pods: the worker pods seen.
        doomed: the uids of pods whose end was decided before; no one counts on them any more.
        now: in Unix seconds.
    """
    steps: list[Step] = []
    if _differs(wanted.service, services):
        steps.append(Apply(wanted.service))
    if _differs(wanted.stateful_set, stateful_sets):
        # Until it is as wanted and seen to be, it would make the old pods again.
        return [*steps, Apply(wanted.stateful_set)]
    if not stateful_sets[_name(wanted.stateful_set)].followed:
        return steps
    return steps + [step for pod in pods if (step := _end(pod, wanted, doomed, now))]


def surplus(
    wanted: Wanted, stateful_sets: Mapping[str, SeenObject], pods: Sequence[SeenPod], *, first: bool
) -> frozenset[str]:
    """Return the uids of the pods that the cluster ends, or is about to, as there are too many.

    They go even if the pool grows again meanwhile: the cluster may be ending them already.

    Args:
        wanted: what should be.
        stateful_sets: the StatefulSets seen, by name.
        pods: the worker pods seen.
        first: whether nothing was decided before: then what there is may be a former wish.
    """
    size = wanted.workers
    found = stateful_sets.get(_name(wanted.stateful_set))
    if first and found is not None and found.replicas is not None:
        size = min(size, found.replicas)
    return frozenset(pod.uid for pod in pods if pod.number >= size)


def fits(pod: SeenPod, wanted: Wanted) -> bool:
    """Return whether a pod is as wanted.

    What a run began with is good for all of it, though the manifest has changed since.
    """
    in_shape = pod.shape == wanted.shape or pod.uid in wanted.busy
    return in_shape and 0 <= pod.number < wanted.workers


def is_usable(pod: SeenPod, wanted: Wanted, doomed: AbstractSet[str]) -> bool:
    """Return whether a pod may be given a rank: it is as wanted, and nobody is about to end it."""
    runs = pod.phase == RUNNING and bool(pod.ip)
    return runs and fits(pod, wanted) and pod.uid not in doomed


def _differs(wanted: Object, seen: Mapping[str, SeenObject]) -> bool:
    found = seen.get(_name(wanted))
    if found is None or found.going:
        return True
    should_be = (applied(wanted), _owner(wanted), wanted["spec"].get("replicas"))
    return (found.applied, found.owner, found.replicas) != should_be


def _owner(made: Object) -> str:
    """Return the uid of what an object goes with; empty if it goes with nothing."""
    return next((str(one["uid"]) for one in made["metadata"].get("ownerReferences") or []), "")


def _end(pod: SeenPod, wanted: Wanted, doomed: AbstractSet[str], now: float) -> Delete | None:
    if pod.ends_by is not None:
        return Delete(pod, at_once=True) if now - pod.ends_by > OVERDUE_SECONDS else None
    if pod.phase in _OVER or pod.uid in doomed:
        return Delete(pod)
    if pod.phase == TERMINATING or pod.uid in wanted.busy:
        return None
    return Delete(pod) if pod.shape != wanted.shape else None


def _name(made: Object) -> str:
    name: str = made["metadata"]["name"]
    return name
