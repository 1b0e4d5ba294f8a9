"""Pods of the chart, including those that the controller creates."""

from collections.abc import Iterator, Sequence
from typing import Any

from helm.check.rendering import Document, worker_documents, worker_manifest

_KINDS = ("Deployment", "StatefulSet", "DaemonSet")
A_GRAFANA_OF_YOURS = (
    "grafana.enabled=false",
    "grafana.url=http://g:3000",
    "grafana.existingSecret=g",
)


def pod_specs(documents: Sequence[Document]) -> Iterator[tuple[str, Any]]:
    """Yield the name and spec of each pod. The worker pod has all init containers."""
    for document in [*documents, *worker_documents(documents)]:
        if document["kind"] in _KINDS:
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]
        elif document["kind"] == "CronJob":
            template = document["spec"]["jobTemplate"]["spec"]["template"]
            yield document["metadata"]["name"], template["spec"]
        elif document["kind"] == "Pod":
            yield document["metadata"]["name"], document["spec"]


def pod_spec(documents: Sequence[Document], name: str) -> Any:
    """Return the spec of the pods with this name."""
    return dict(pod_specs(documents))[name]


def containers(spec: Any) -> list[Any]:
    """Return a pod's containers, init containers first."""
    return [*spec.get("initContainers", ()), *spec["containers"]]


def master_containers(documents: Sequence[Document]) -> tuple[Any, Any]:
    """Return the containers of the API and of the controller."""
    api, controller, *_ = pod_spec(documents, "r-mlbench-master")["containers"]
    return api, controller


def worker_spec(documents: Sequence[Document]) -> Any:
    """Return the spec of a worker pod."""
    return worker_manifest(documents)["statefulSet"]["spec"]["template"]["spec"]


def environment(container: Any) -> dict[str, Any]:
    """Return a container's environment variables; None for values from a Secret."""
    return {entry["name"]: entry.get("value") for entry in container["env"]}
