"""The Kubernetes pool: worker pods of a StatefulSet, which this process makes, changes and ends.

Reflectors see what is, ``scale`` says what should be, and one thread of its own makes the one into
the other: the controller never waits for the cluster, and every step can be done again.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeVar

from master.pools.api import Api, ApiError
from master.pools.base import TERMINATING, Placement, PodStatus, Shape
from master.pools.manifests import Manifest, Usual, make_stateful_set, own
from master.pools.objects import Object
from master.pools.plan import (
    Apply,
    Delete,
    Step,
    Wanted,
    is_usable,
    plan,
    read_object,
    surplus,
)
from master.pools.reflector import Reflector
from master.pools.seen import SeenPod, read_pod
from master.pools.waiting import explain_pods, explain_refusal
from master.settings import ClusterSettings

log = logging.getLogger(__name__)

_MASTER_PORT = 29500
# What no watch tells of, such as a pod whose node is dead, is looked for this often.
_LOOK_SECONDS = 5.0
_FIRST_PATIENCE_SECONDS = 0.5
_LONGEST_PATIENCE_SECONDS = 10.0
# As long as the cluster itself may ask to be left alone.
_LONGEST_WISH_SECONDS = 60.0
_GOING = 409
# No answer, and too many requests: another one would not go better.
_WORTH_NO_OTHER_STEP = (0, 429)

Seen = TypeVar("Seen")


class KubernetesPool:
    """Worker pods ``{release}-mlbench-worker-0…`` in a cluster."""

    def __init__(
        self, api: Api, settings: ClusterSettings, manifest: Manifest, usual: Usual
    ) -> None:
        """Prepare; nothing is asked of the cluster yet."""
        self._api = api
        self._settings = settings
        self._manifest = manifest
        self._usual = usual
        self._core = f"/api/v1/namespaces/{settings.namespace}"
        self._apps = f"/apis/apps/v1/namespaces/{settings.namespace}"
        labels = ",".join(f"{name}={value}" for name, value in manifest.labels.items())
        self._changed = threading.Event()
        self._pods = self._reflect(f"{self._core}/pods", {"labelSelector": labels}, read_pod)
        self._services = self._reflect(
            f"{self._core}/services", _named(manifest.service), read_object
        )
        self._sets = self._reflect(
            f"{self._apps}/statefulsets", _named(manifest.stateful_set), read_object
        )
        # Held while it is decided which pods end, and while ranks are placed: never on the same.
        self._lock = threading.Lock()
        self._asked: tuple[int, Shape] | None = None
        self._wanted: Wanted | None = None
        # None: nothing was decided yet, so which pods stay is not known either.
        self._doomed: frozenset[str] | None = None
        self._owner: Object | None = None
        self._refusal = ""

    def start(self, stop: threading.Event) -> None:
        """Begin to look and to work, until told to stop."""
        for reflector in (self._pods, self._services, self._sets):
            reflector.start(stop)
        threading.Thread(target=self._run, args=(stop,), name="worker pods", daemon=True).start()

    def pods(self) -> list[PodStatus] | None:
        """Return the worker pods as they were last heard of; None before they were."""
        with self._lock:
            seen = self._pods.seen()
            if seen is None:
                return None
            pods = sorted(seen.values(), key=lambda pod: pod.number)
            return [self._status(pod) for pod in pods]

    def scale(self, workers: int, shape: Shape, busy: AbstractSet[str]) -> None:
        """Say what there should be; the cluster is told soon, if that is not what there is."""
        with self._lock:
            if self._wanted is None or self._asked != (workers, shape):
                made = make_stateful_set(self._manifest, self._usual, shape, workers)
                self._wanted = Wanted(self._manifest.service, made, frozenset(busy))
                self._asked = workers, shape
            elif self._wanted.busy != busy:
                self._wanted = replace(self._wanted, busy=frozenset(busy))
            else:
                return
        self._changed.set()

    def place(self, workers: Sequence[str], num_cpus: float | None) -> Placement | None:
        """Let the workers meet at the pod of rank 0; the pods themselves are limited."""
        by_name = {pod.name: pod for pod in self.pods() or []}
        pods = tuple(by_name[name] for name in workers if name in by_name and by_name[name].usable)
        if len(pods) < len(workers):
            return None
        return Placement(pods[0].ip, _MASTER_PORT, ((),) * len(pods), pods)

    def explain(self) -> str:
        """Return in words why pods are not there."""
        with self._lock:
            seen, wanted = self._pods.seen(), self._wanted
        if self._refusal:
            return self._refusal
        if trouble := self._trouble():
            return f"the cluster's pods cannot be seen: {trouble}"
        if seen is None or wanted is None:
            return "the cluster's pods are not known yet"
        ask = f"`kubectl -n {self._settings.namespace} describe statefulset {self._manifest.name}`"
        pods = sorted(seen.values(), key=lambda pod: pod.number)
        return explain_pods(pods, wanted, ask)

    def _trouble(self) -> str:
        reflectors = (self._pods, self._sets, self._services)
        return next((trouble for one in reflectors if (trouble := one.trouble())), "")

    def _status(self, pod: SeenPod) -> PodStatus:
        doomed, wanted = self._doomed, self._wanted
        return PodStatus(
            name=pod.name,
            number=pod.number,
            phase=TERMINATING if doomed and pod.uid in doomed else pod.phase,
            ip=pod.ip,
            node=pod.node,
            labels=pod.labels,
            uid=pod.uid,
            image=pod.image,
            usable=not (wanted is None or doomed is None) and is_usable(pod, wanted, doomed),
            trouble=pod.trouble,
            troubled_at=pod.troubled_at,
        )

    def _run(self, stop: threading.Event) -> None:
        patience = _FIRST_PATIENCE_SECONDS
        while not stop.is_set():
            self._changed.clear()
            try:
                self._work()
                self._note_refusal("")
                patience = _FIRST_PATIENCE_SECONDS
                self._changed.wait(_LOOK_SECONDS)
            except ApiError as error:
                self._note_refusal(explain_refusal(error))
                stop.wait(max(patience, min(error.retry_seconds, _LONGEST_WISH_SECONDS)))
                patience = min(2 * patience, _LONGEST_PATIENCE_SECONDS)
            except Exception:
                # Nothing is lost by trying again: every time begins from what is.
                log.exception("looking after the worker pods failed, trying again")
                stop.wait(_LONGEST_PATIENCE_SECONDS)

    def _work(self) -> None:
        """Do what there is to do.

        Raises:
            ApiError: the cluster does not let a step be done.
        """
        steps = self._decide(self._owner or self._find_owner())
        if any(isinstance(step, Apply) for step in steps):
            # What is made for an owner that has gone, the cluster would take away again.
            steps = self._decide(self._find_owner())
        refused: ApiError | None = None
        for step in steps:
            try:
                self._perform(step)
            except ApiError as error:
                refused = error
                if error.status in _WORTH_NO_OTHER_STEP:
                    break
        if refused:
            raise refused

    def _decide(self, owner: Object) -> list[Step]:
        """Return what there is to do, and hold on to which pods end by it."""
        with self._lock:
            pods, services, sets = self._pods.seen(), self._services.seen(), self._sets.seen()
            if self._wanted is None or pods is None or services is None or sets is None:
                return []
            wanted = replace(
                self._wanted,
                service=own(self._wanted.service, owner),
                stateful_set=own(self._wanted.stateful_set, owner),
            )
            there = list(pods.values())
            doomed = surplus(wanted, sets, there, first=self._doomed is None)
            doomed |= (self._doomed or frozenset()) & {pod.uid for pod in there}
            steps = plan(wanted, services, sets, there, doomed, time.time())
            ended = {step.pod.uid for step in steps if isinstance(step, Delete)}
            self._doomed = doomed | ended
            return steps

    def _perform(self, step: Step) -> None:
        match step:
            case Apply(wanted):
                folder = self._core if wanted["kind"] == "Service" else self._apps
                kind = f"{wanted['kind'].lower()}s"
                name = wanted["metadata"]["name"]
                log.info("making %s %s what it should be", wanted["kind"], name)
                self._api.apply(f"{folder}/{kind}/{name}", wanted)
            case Delete(pod, at_once):
                log.info("ending pod %s (%s)", pod.name, pod.trouble or pod.phase)
                path = f"{self._core}/pods/{pod.name}"
                self._api.delete(path, pod.uid, 0 if at_once else None)

    def _find_owner(self) -> Object:
        """Return the Deployment that all belongs to.

        Raises:
            ApiError: it is not there, or about to go.
        """
        name = self._settings.owner
        owner = self._api.get(f"{self._apps}/deployments/{name}")
        if "deletionTimestamp" in owner["metadata"]:
            raise ApiError(_GOING, f"the Deployment {name} is being deleted")
        self._owner = owner
        return owner

    def _note_refusal(self, refusal: str) -> None:
        """Say in the log what is wrong when that changes, and when it is over."""
        if refusal and refusal != self._refusal:
            log.warning("%s", refusal)
        if self._refusal and not refusal:
            log.info("the cluster makes worker pods again")
        self._refusal = refusal

    def _reflect(
        self, path: str, selector: dict[str, str], read: Callable[[Object], Seen]
    ) -> Reflector[Seen]:
        return Reflector(self._api, path, selector, read, self._changed.set)


def _named(made: Object) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={made['metadata']['name']}"}
