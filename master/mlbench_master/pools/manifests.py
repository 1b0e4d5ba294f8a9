"""Kubernetes objects of the pool: the chart's manifest, changed to a run's shape."""

import copy
import hashlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlbench.contract.errors import MLBenchError
from mlbench.contract.runspec import WorkerSpec, part
from mlbench.contract.shaping import Shaping
from mlbench_master.settings import InstallationLimits

Object = dict[str, Any]
"""A Kubernetes object as JSON."""

# Label of pods: a digest of their template.
SHAPE_LABEL = "mlbench.shape"
# Annotation: a digest of the object that was last applied.
APPLIED = "mlbench.applied"
WORKER = "worker"
_AGENT_IN_ANY_IMAGE = ["python3", "-I", "/run/mlbench/agent.pyz"]


class ManifestError(MLBenchError):
    """The manifest of the workers is invalid, or cannot be read."""


@dataclass(frozen=True)
class PodManifest:
    """Objects of the pool as the administrator configured them, for pods of the default shape."""

    service: Object
    stateful_set: Object
    shape_network: Object
    """Init container that shapes the traffic that a pod sends."""
    bring_agent: Object
    """Init container that copies the agent into a pod with the user's own image."""

    @property
    def name(self) -> str:
        """Name of the StatefulSet, which is the prefix of the pods' names."""
        return str(self.stateful_set["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        """Labels that select the worker pods."""
        labels: dict[str, str] = self.stateful_set["spec"]["selector"]["matchLabels"]
        return labels


def load(path: Path) -> PodManifest:
    """Read the manifest.

    Raises:
        ManifestError: the file cannot be read, or something is missing.
    """
    try:
        parsed = json.loads(path.read_text())
        manifest = PodManifest(
            service=parsed["service"],
            stateful_set=parsed["statefulSet"],
            shape_network=parsed["initContainers"]["network"],
            bring_agent=parsed["initContainers"]["agent"],
        )
        _ = manifest.name, manifest.labels, manifest.service["metadata"]["name"]
        template = manifest.stateful_set["spec"]["template"]
        _ = _worker(template)
        containers = template["spec"]["containers"]
        for holder in (manifest.service.get("spec") or {}, *containers):
            for port in holder.get("ports") or []:
                # Before Kubernetes 1.23, an apply must state the default.
                port.setdefault("protocol", "TCP")
        init_containers = template["spec"].get("initContainers") or []
        added = manifest.shape_network, manifest.bring_agent
        for container in (*containers, *init_containers, *added):
            # Puts the last output of a failed container into the pod's status, for the user.
            container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    except (OSError, ValueError) as error:
        raise ManifestError(f"cannot read the manifest of the workers: {error}") from error
    except (KeyError, TypeError) as error:
        raise ManifestError(f"{path}: {error} is missing in the manifest of the workers") from error
    return manifest


def make_stateful_set(
    manifest: PodManifest, limits: InstallationLimits, shape: WorkerSpec, workers: int
) -> Object:
    """Return a StatefulSet with ``workers`` pods of a shape.

    ``limits`` are the defaults for resources that the shape leaves open, except the number of
    cores, whose default is in the manifest.
    """
    made = copy.deepcopy(manifest.stateful_set)
    made["spec"]["replicas"] = workers
    template = made["spec"]["template"]
    pod, worker = template["spec"], _worker(template)
    if shape.gpu_enabled:
        worker.setdefault("resources", {}).setdefault("limits", {})["nvidia.com/gpu"] = str(
            limits.gpus
        )
    first = []
    bandwidth = shape.max_bandwidth or limits.bandwidth or None
    if shaping := replace(part(Shaping, shape), max_bandwidth=bandwidth):
        shaper = copy.deepcopy(manifest.shape_network)
        for name, value in shaping.variables.items():
            _set_env(shaper, name, value)
        first.append(shaper)
    if shape.image:
        worker |= {"image": shape.image, "command": _AGENT_IN_ANY_IMAGE}
        first.append(copy.deepcopy(manifest.bring_agent))
    if first:
        pod["initContainers"] = [*first, *(pod.get("initContainers") or [])]
    if shape.num_cpus not in (None, limits.cpus):
        _set_env(worker, "OMP_NUM_THREADS", str(max(1, math.ceil(shape.num_cpus))))
        cpu = f"{max(1, round(shape.num_cpus * 1000))}m"
        # Init containers too, because a pod needs the cores of the largest of them.
        for container in (worker, *(pod.get("initContainers") or [])):
            resources = container.setdefault("resources", {})
            for kind in ("requests", "limits"):
                resources[kind] = {**(resources.get(kind) or {}), "cpu": cpu}
    template["metadata"].setdefault("labels", {})[SHAPE_LABEL] = _digest(template)
    return made


def add_owner(made: Object, owner: Object) -> Object:
    """Return a Service or StatefulSet that is deleted with its owner, annotated with its digest.

    ``owner`` is the Deployment as the cluster returns it.
    """
    owned = copy.deepcopy(made)
    identity = {key: owner["metadata"][key] for key in ("name", "uid")}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", **identity}
    owned["metadata"]["ownerReferences"] = [reference]
    owned["metadata"].setdefault("annotations", {})[APPLIED] = _digest(owned)
    return owned


def shape_of(stateful_set: Object) -> str:
    """Return the shape label of the pods of a StatefulSet."""
    return str(stateful_set["spec"]["template"]["metadata"]["labels"][SHAPE_LABEL])


def applied(made: Object) -> str:
    """Return the digest in the annotation; empty if MLBench did not apply the object."""
    return str((made["metadata"].get("annotations") or {}).get(APPLIED, ""))


def _set_env(container: Object, name: str, value: str) -> None:
    others = [variable for variable in container.get("env") or [] if variable["name"] != name]
    container["env"] = [*others, {"name": name, "value": value}]


def _worker(template: Object) -> Object:
    for container in template["spec"]["containers"]:
        if container["name"] == WORKER:
            worker: Object = container
            return worker
    raise KeyError(f"a container named {WORKER}")


def _digest(made: Object) -> str:
    text = json.dumps(made, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()[:12]
