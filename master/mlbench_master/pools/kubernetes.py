"""Kubernetes pool: worker pods of a StatefulSet, which this process creates, changes and deletes.

Reflectors observe the cluster, ``scale`` sets the desired state, and one thread applies the
difference. The controller never waits for the cluster, and every step can be repeated.
"""

import logging
import threading
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from http import HTTPStatus
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter

from mlbench.contract.runspec import WorkerSpec
from mlbench.local.backoff import Backoff
from mlbench_master.pools.kubernetes_api import Api, KubernetesApiError
from mlbench_master.pools.manifests import Object, PodManifest, add_owner, load, make_stateful_set
from mlbench_master.pools.pool import TERMINATING, Placement, PodStatus
from mlbench_master.pools.pool_plan import (
    Apply,
    Delete,
    DesiredPool,
    Step,
    explain_pods,
    is_usable,
    plan,
    surplus,
)
from mlbench_master.pools.reflector import Reflector
from mlbench_master.pools.status import SeenPod, read_pod
from mlbench_master.settings import ClusterSettings, InstallationLimits

log = logging.getLogger(__name__)

_FIRST_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 10.0

Seen = TypeVar("Seen")


def open_pool(
    limits: InstallationLimits, registry: CollectorRegistry, stop: threading.Event
) -> "KubernetesPool":
    """Return the pool that the environment describes, with its threads started.

    Raises:
        SettingsError, ManifestError, KubernetesApiError: it cannot be opened.
    """
    requests = Counter(
        "mlbench_kubernetes_requests_total",
        "Requests to the API of the cluster, by response status; error: no response.",
        ("verb", "status"),
        registry=registry,
    )
    settings = ClusterSettings.from_environ()
    api = Api(lambda verb, status: requests.labels(verb, status).inc())
    pool = KubernetesPool(api, settings, load(settings.manifest), limits)
    pool.start(stop)
    return pool


class KubernetesPool:
    """Worker pods ``{release}-mlbench-worker-0…`` in a cluster."""

    def __init__(
        self, api: Api, settings: ClusterSettings, manifest: PodManifest, limits: InstallationLimits
    ) -> None:
        """Store the settings; nothing is requested from the cluster yet."""
        self._api = api
        self._settings = settings
        self._manifest = manifest
        self._limits = limits
        self._core = f"/api/v1/namespaces/{settings.namespace}"
        self._apps = f"/apis/apps/v1/namespaces/{settings.namespace}"
        labels = ",".join(f"{name}={value}" for name, value in manifest.labels.items())
        self._changed = threading.Event()
        self._pods = self._reflect(f"{self._core}/pods", {"labelSelector": labels}, read_pod)
        self._services = self._reflect(
            f"{self._core}/services", _named(manifest.service), lambda item: item
        )
        self._sets = self._reflect(
            f"{self._apps}/statefulsets", _named(manifest.stateful_set), lambda item: item
        )
        # Held while deciding which pods end and which are usable, so that no pod is both.
        self._lock = threading.Lock()
        self._desired: DesiredPool | None = None
        # Uids of the pods that are to end; None before the first decision.
        self._doomed: frozenset[str] | None = None
        self._owner: Object | None = None
        self._refusal = ""

    def start(self, stop: threading.Event) -> None:
        """Start the threads, which run until ``stop`` is set."""
        for reflector in (self._pods, self._services, self._sets):
            reflector.start(stop)
        threading.Thread(target=self._run, args=(stop,), name="worker pods", daemon=True).start()

    def pods(self) -> list[PodStatus] | None:
        """Return the worker pods as last reported; None before the first report."""
        with self._lock:
            seen, desired, doomed = self._seen_pods(), self._desired, self._doomed
        if seen is None or desired is None or doomed is None:
            return None if seen is None else [*seen]
        return [
            replace(
                pod,
                usable=is_usable(pod, desired, doomed),
                phase=TERMINATING if pod.uid in doomed else pod.phase,
            )
            for pod in seen
        ]

    def _seen_pods(self) -> list[SeenPod] | None:
        seen = self._pods.seen
        return None if seen is None else sorted(seen.values(), key=lambda pod: pod.number)

    def cores(self) -> tuple[int, ...] | None:
        """Return None: each pod has its own."""
        return None

    def scale(self, workers: int, shape: WorkerSpec, busy: AbstractSet[str]) -> None:
        """Request workers. The thread of the pool changes the cluster soon."""
        made = make_stateful_set(self._manifest, self._limits, shape, workers)
        desired = DesiredPool(self._manifest.service, made, frozenset(busy))
        with self._lock:
            if desired == self._desired:
                return
            self._desired = desired
        self._changed.set()

    def place(self, pods: tuple[PodStatus, ...], shape: WorkerSpec) -> Placement:
        """Choose the pod of rank 0; the pods themselves limit their traffic."""
        return Placement(pods[0].ip, 29500, pods)

    def explain(self) -> str:
        """Return why pods are missing; empty if none is."""
        with self._lock:
            seen, desired = self._seen_pods(), self._desired
        if self._refusal:
            return self._refusal
        for reflector in (self._pods, self._sets, self._services):
            if reflector.trouble:
                return f"cannot read the cluster's pods: {reflector.trouble}"
        if seen is None or desired is None:
            return "the cluster's pods are not known yet"
        ask = f"`kubectl -n {self._settings.namespace} describe statefulset {self._manifest.name}`"
        return explain_pods(seen, desired, ask)

    def _run(self, stop: threading.Event) -> None:
        backoff = Backoff(_FIRST_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS)
        while not stop.is_set():
            self._changed.clear()
            try:
                self._work()
                self._note_refusal("")
                backoff.reset()
                # A watch does not report everything, for example a pod whose node is dead.
                self._changed.wait(5.0)
            except KubernetesApiError as error:
                match error.status:
                    case 0:
                        refusal = "the cluster's API does not respond"
                    case HTTPStatus.FORBIDDEN:
                        refusal = "the cluster refuses to create worker pods (403 Forbidden)"
                    case HTTPStatus.BAD_REQUEST | HTTPStatus.UNPROCESSABLE_ENTITY:
                        refusal = f"the cluster rejects the worker pods as invalid ({error.status})"
                    case _:
                        refusal = f"the cluster cannot create worker pods ({error.status})"
                self._note_refusal(f"{refusal}: {error}")
                retry_seconds = min(error.retry_seconds, 60.0)
                stop.wait(max(backoff.seconds(), retry_seconds))
            except Exception:
                # A retry is safe, because every turn starts from the observed state.
                log.exception("updating the worker pods failed, trying again")
                stop.wait(_MAX_BACKOFF_SECONDS)

    def _work(self) -> None:
        """Bring the cluster to the desired state.

        Raises:
            KubernetesApiError: a step failed; the others were carried out.
        """
        steps = self._decide(self._owner or self._find_owner())
        if any(isinstance(step, Apply) for step in steps):
            # The cluster deletes objects whose owner no longer exists, so look the owner up again.
            steps = self._decide(self._find_owner())
        refused: KubernetesApiError | None = None
        for step in steps:
            try:
                match step:
                    case Apply(desired):
                        folder = self._core if desired["kind"] == "Service" else self._apps
                        kind = f"{desired['kind'].lower()}s"
                        name = desired["metadata"]["name"]
                        log.info("applying %s %s", desired["kind"], name)
                        self._api.apply(f"{folder}/{kind}/{name}", desired)
                    case Delete(pod, at_once):
                        log.info("deleting pod %s (%s)", pod.name, pod.trouble or pod.phase)
                        path = f"{self._core}/pods/{pod.name}"
                        self._api.delete(path, pod.uid, 0 if at_once else None)
            except KubernetesApiError as error:
                refused = error
                # Without a response, or after too many requests, other steps would fail too.
                if error.status in (0, HTTPStatus.TOO_MANY_REQUESTS):
                    break
        if refused:
            raise refused

    def _decide(self, owner: Object) -> list[Step]:
        """Return the next steps, and remember which pods end."""
        with self._lock:
            pods, services, sets = self._pods.seen, self._services.seen, self._sets.seen
            if self._desired is None or pods is None or services is None or sets is None:
                return []
            desired = replace(
                self._desired,
                service=add_owner(self._desired.service, owner),
                stateful_set=add_owner(self._desired.stateful_set, owner),
            )
            existing = list(pods.values())
            # The reflectors select the pool's own names, so there is at most one of each.
            service = next(iter(services.values()), None)
            stateful_set = next(iter(sets.values()), None)
            doomed = surplus(desired, stateful_set, existing, first=self._doomed is None)
            doomed |= (self._doomed or frozenset()) & {pod.uid for pod in existing}
            steps = plan(desired, service, stateful_set, existing, doomed, time.time())
            ended = {step.pod.uid for step in steps if isinstance(step, Delete)}
            self._doomed = doomed | ended
            return steps

    def _find_owner(self) -> Object:
        """Return the Deployment that owns the pool's objects."""
        name = self._settings.owner
        owner = self._api.get(f"{self._apps}/deployments/{name}")
        if "deletionTimestamp" in owner["metadata"]:
            raise KubernetesApiError(HTTPStatus.CONFLICT, f"the Deployment {name} is being deleted")
        self._owner = owner
        return owner

    def _note_refusal(self, refusal: str) -> None:
        if refusal and refusal != self._refusal:
            log.warning("%s", refusal)
        if self._refusal and not refusal:
            log.info("the cluster creates worker pods again")
        self._refusal = refusal

    def _reflect(
        self, path: str, selector: dict[str, str], read: Callable[[Object], Seen]
    ) -> Reflector[Seen]:
        return Reflector(self._api, path, selector, read, self._changed.set)


def _named(made: Object) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={made['metadata']['name']}"}
