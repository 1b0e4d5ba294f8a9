"""Read a worker pod's JSON: its state, and in words what keeps it from running."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from mlbench_master.pools.base import TERMINATING, PodStatus
from mlbench_master.pools.manifests import SHAPE_LABEL, WORKER, Object

T = TypeVar("T")

_LONGEST = 500
_IMAGE_REASONS = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
}
# Reasons to wait that are no trouble.
_STARTING = {"", "ContainerCreating", "PodInitializing"}


@dataclass(frozen=True, kw_only=True)
class SeenPod(PodStatus):
    """A worker pod as the cluster shows it, before it is known whether it is usable."""

    running: bool
    """Whether its worker container runs."""
    scheduled: bool
    unschedulable: str
    """Why no node takes it; empty if one did, or none was looked for yet."""
    ends_by: float | None
    """When it must have ended, in Unix seconds; None if it is not being ended."""

    @property
    def shape(self) -> str:
        """The label that names its template."""
        return self.labels.get(SHAPE_LABEL, "")


def read_pod(pod: Object) -> SeenPod:
    """Read a pod's JSON."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    ends_at = metadata.get("deletionTimestamp")
    scheduling = _first(status.get("conditions"), "type", "PodScheduled")
    unschedulable = scheduling.get("message") if scheduling.get("status") == "False" else ""
    worker = _first(status.get("containerStatuses"), "name", WORKER)
    container = _first(spec.get("containers"), "name", WORKER)
    running = (worker.get("state") or {}).get("running") is not None
    return SeenPod(
        name=metadata["name"],
        number=_number(metadata["name"]),
        phase=TERMINATING if ends_at else status.get("phase") or "Pending",
        ip=status.get("podIP") or "",
        node=spec.get("nodeName") or "",
        labels=metadata.get("labels") or {},
        port=_first(container.get("ports"), "name", "metrics").get("containerPort", 0),
        uid=metadata["uid"],
        image=str(worker.get("imageID") or ""),
        usable=False,
        trouble=_trouble(status),
        troubled_at=_to_seconds(_ended(worker).get("finishedAt") if running else None, math.inf),
        running=running,
        scheduled=bool(spec.get("nodeName")),
        unschedulable=_cut(unschedulable),
        ends_by=_to_seconds(ends_at, None),
    )


def to_line(text: object) -> str:
    """Return a text from a cluster as one line that a terminal and a database can take."""
    words = "".join(char if char.isprintable() else " " for char in str(text or ""))
    return " ".join(words.split())


def _to_seconds(moment: str | None, default: T) -> float | T:
    """Return a moment in Unix seconds, or the default where there is none."""
    return datetime.fromisoformat(moment).timestamp() if moment else default


def _number(name: str) -> int:
    last = name.rpartition("-")[2]
    return int(last) if last.isdecimal() else -1


def _first(found: Iterable[Object] | None, key: str, value: str) -> Object:
    return next((one for one in found or [] if one.get(key) == value), {})


def _trouble(status: Object) -> str:
    if status.get("phase") == "Failed":
        return _join(status.get("reason") or "the pod failed", status.get("message"))
    for container in status.get("initContainerStatuses") or []:
        if trouble := _of_init_container(container):
            return trouble
    for container in status.get("containerStatuses") or []:
        if trouble := _of_waiting(container):
            return trouble
        if ended := _ended(container):
            return f"the worker's container ended: {_describe_end(ended)}"
    return ""


def _of_init_container(container: Object) -> str:
    if trouble := _of_waiting(container):
        return trouble
    ended = _ended(container)
    if not ended or ended.get("exitCode") == 0:
        return ""
    tasks = {
        "network": "shaping what it sends",
        "agent": "bringing in the agent",
        "token": "making the pod's token",
    }
    what = tasks.get(container["name"], f"the init container {container['name']}")
    return _join(f"{what} failed", _describe_end(ended))


def _of_waiting(container: Object) -> str:
    """Explain why a container cannot be started; empty if it was, and ended."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, message = waiting.get("reason") or "", waiting.get("message")
    if reason in _IMAGE_REASONS:
        image = container.get("image") or "?"
        return _join(f"worker image {image} cannot be pulled", message or reason)
    if reason in _STARTING or _ended(container):
        return ""
    return _join(f"the worker's container cannot be started ({reason})", message)


def _ended(container: Object) -> Object:
    """Return the state in which a container ended, now or last time; empty if it never did."""
    states = (container.get("state") or {}, container.get("lastState") or {})
    return next((state["terminated"] for state in states if state.get("terminated")), {})


def _describe_end(ended: Object) -> str:
    reason = ended.get("reason") or "Error"
    if reason == "OOMKilled":
        return "more memory was used than its limit (OOMKilled)"
    # The end of its output is where it says what went wrong.
    output = to_line(ended.get("message"))[-_LONGEST:]
    return _join(f"{reason}, exit code {ended.get('exitCode')}", output)


def _join(what: str, why: object) -> str:
    return f"{what}: {_cut(why)}" if why else what


def _cut(text: object) -> str:
    return to_line(text)[:_LONGEST]
