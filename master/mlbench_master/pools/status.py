"""Read a worker pod's JSON: its state, and a message about what keeps it from running."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from mlbench.contract.humanize import printable
from mlbench_master.pools.manifests import SHAPE_LABEL, WORKER, Object
from mlbench_master.pools.pool import TERMINATING, PodStatus

T = TypeVar("T")

_MAX_MESSAGE_LENGTH = 500
_IMAGE_REASONS = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
}


@dataclass(frozen=True, kw_only=True)
class SeenPod(PodStatus):
    """A worker pod as the cluster reports it, before it is known whether it is usable."""

    running: bool
    """Whether its worker container runs."""
    scheduled: bool
    unschedulable: str
    """Why no node takes it; empty if it is scheduled, or the scheduler has not tried yet."""
    ends_by: float | None
    """Deadline for its end, in Unix seconds; None if it is not being removed."""

    @property
    def shape(self) -> str:
        """Label that identifies its template."""
        return self.labels.get(SHAPE_LABEL, "")


def read_pod(pod: Object) -> SeenPod:
    """Read a pod's JSON."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    ends_at = metadata.get("deletionTimestamp")
    scheduling = _first(status.get("conditions"), "type", "PodScheduled")
    unschedulable = scheduling.get("message") if scheduling.get("status") == "False" else ""
    worker = _first(status.get("containerStatuses"), "name", WORKER)
    container = _first(spec.get("containers"), "name", WORKER)
    name = metadata["name"]
    suffix = name.rpartition("-")[2]
    running = (worker.get("state") or {}).get("running") is not None
    return SeenPod(
        name=name,
        number=int(suffix) if suffix.isdecimal() else -1,
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
        unschedulable=to_line(unschedulable),
        ends_by=_to_seconds(ends_at, None),
    )


def to_line(text: object) -> str:
    """Return a text from a cluster as a printable line of limited length."""
    return " ".join(printable(str(text or ""), " ").split())[:_MAX_MESSAGE_LENGTH]


def _to_seconds(moment: str | None, default: T) -> float | T:
    """Return a timestamp in Unix seconds, or the default without one."""
    return datetime.fromisoformat(moment).timestamp() if moment else default


def _first(items: Iterable[Object] | None, key: str, value: str) -> Object:
    return next((item for item in items or [] if item.get(key) == value), {})


def _trouble(status: Object) -> str:
    if status.get("phase") == "Failed":
        return _join(status.get("reason") or "the pod failed", status.get("message"))
    # Task of each init container of the chart, for messages.
    tasks = {
        "network": "shaping what it sends",
        "agent": "bringing in the agent",
        "token": "making the pod's token",
    }
    for container in status.get("initContainerStatuses") or []:
        if trouble := _why_waiting(container):
            return trouble
        ended = _ended(container)
        if ended and ended.get("exitCode") != 0:
            name = container["name"]
            task = tasks.get(name, f"the init container {name}")
            return _join(f"{task} failed", _describe_end(ended))
    for container in status.get("containerStatuses") or []:
        if trouble := _why_waiting(container):
            return trouble
        if ended := _ended(container):
            return f"the worker's container ended: {_describe_end(ended)}"
    return ""


def _why_waiting(container: Object) -> str:
    """Return why a container cannot be started; empty if it was started, or soon will be."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, message = waiting.get("reason") or "", waiting.get("message")
    if reason in _IMAGE_REASONS:
        image = container.get("image") or "?"
        return _join(f"worker image {image} cannot be pulled", message or reason)
    if reason in {"", "ContainerCreating", "PodInitializing"} or _ended(container):
        return ""
    return _join(f"the worker's container cannot be started ({reason})", message)


def _ended(container: Object) -> Object:
    """Return the state in which a container last ended; empty if it never did."""
    states = (container.get("state") or {}, container.get("lastState") or {})
    return next((state["terminated"] for state in states if state.get("terminated")), {})


def _describe_end(ended: Object) -> str:
    reason = ended.get("reason") or "Error"
    if reason == "OOMKilled":
        return "more memory was used than its limit (OOMKilled)"
    # The error is at the end of the output.
    output = str(ended.get("message") or "")[-_MAX_MESSAGE_LENGTH:]
    return _join(f"{reason}, exit code {ended.get('exitCode')}", output)


def _join(problem: str, cause: object) -> str:
    return f"{problem}: {to_line(cause)}" if cause else problem
