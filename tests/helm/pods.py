"""Every pod that the chart makes, by itself or through the controller."""

from collections.abc import Iterator, Sequence
from typing import Any

from helm.check.rendering import Document, worker_documents

_KINDS = ("Deployment", "StatefulSet", "DaemonSet")


def pod_specs(documents: Sequence[Document]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the spec of each, the workers' with all init containers."""
    for document in [*documents, *worker_documents(documents)]:
        if document["kind"] in _KINDS:
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]
        elif document["kind"] == "Pod":
            yield document["metadata"]["name"], document["spec"]


def containers(spec: Any) -> list[Any]:
    """Return a pod's containers, those that begin it first."""
    return [*spec.get("initContainers", ()), *spec["containers"]]
