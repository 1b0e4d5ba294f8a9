"""The objects of a cluster's pool: the chart's manifest, changed to a run's shape."""

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
from mlbench_master.settings import Limits

Object = dict[str, Any]
"""A Kubernetes object as JSON, of which we look at some fields."""

# The label of pods that names their template, by a digest of it.
SHAPE_LABEL = "mlbench.shape"
# The annotation that names what was last applied, by a digest of it.
APPLIED = "mlbench.applied"
WORKER = "worker"
_AGENT_IN_ANY_IMAGE = ["python3", "-I", "/run/mlbench/agent.pyz"]
_GPUS = "nvidia.com/gpu"


class ManifestError(MLBenchError):
    """The manifest of the workers cannot be used."""


@dataclass(frozen=True)
class Manifest:
    """The objects of the pool as the administrator wants them, for pods of the default shape."""

    service: Object
    stateful_set: Object
    shape_network: Object
    """The init container that shapes what a pod sends."""
    bring_agent: Object
    """The init container that copies the agent into a pod of any image."""

    @property
    def name(self) -> str:
        """The name of the StatefulSet, with which pods' names begin."""
        return str(self.stateful_set["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        """The labels by which worker pods are found."""
        labels: dict[str, str] = self.stateful_set["spec"]["selector"]["matchLabels"]
        return labels


def load(path: Path) -> Manifest:
    """Read the manifest.

    Raises:
        ManifestError: it cannot be read, or something is missing.
    """
    try:
        stated = json.loads(path.read_text())
        manifest = Manifest(
            service=stated["service"],
            stateful_set=stated["statefulSet"],
            shape_network=stated["initContainers"]["network"],
            bring_agent=stated["initContainers"]["agent"],
        )
        _ = manifest.name, manifest.labels, manifest.service["metadata"]["name"]
        _worker(manifest.stateful_set["spec"]["template"])
        _complete(manifest)
    except (OSError, ValueError) as error:
        raise ManifestError(f"the workers' manifest cannot be read: {error}") from error
    except (KeyError, TypeError) as error:
        raise ManifestError(f"{path}: the workers' manifest lacks {error}") from error
    return manifest


def make_stateful_set(
    manifest: Manifest, limits: Limits, shape: WorkerSpec, workers: int
) -> Object:
    """Make the StatefulSet with so many pods of a shape.

    ``limits`` have what a pod gets where the shape does not say: its cores are the manifest's.
    """
    made = copy.deepcopy(manifest.stateful_set)
    made["spec"]["replicas"] = workers
    template = made["spec"]["template"]
    pod, worker = template["spec"], _worker(template)
    if shape.gpu_enabled:
        worker.setdefault("resources", {}).setdefault("limits", {})[_GPUS] = str(limits.gpus)
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
        # A pod needs as many cores as the largest of its init containers.
        for container in (worker, *(pod.get("initContainers") or [])):
            _limit_cpus(container, shape.num_cpus)
    template["metadata"].setdefault("labels", {})[SHAPE_LABEL] = _digest(template)
    return made


def add_owner(made: Object, owner: Object) -> Object:
    """Return a Service or StatefulSet that is deleted with its owner, annotated with its digest.

    ``owner`` is the Deployment as the cluster shows it.
    """
    owned = copy.deepcopy(made)
    named = {key: owner["metadata"][key] for key in ("name", "uid")}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", **named}
    owned["metadata"]["ownerReferences"] = [reference]
    owned["metadata"].setdefault("annotations", {})[APPLIED] = _digest(owned)
    return owned


def shape_of(stateful_set: Object) -> str:
    """Return the shape label of the pods of a StatefulSet that was made here."""
    return str(stateful_set["spec"]["template"]["metadata"]["labels"][SHAPE_LABEL])


def applied(made: Object) -> str:
    """Return the digest in the annotation; empty for an object that was not made here."""
    return str((made["metadata"].get("annotations") or {}).get(APPLIED, ""))


def _complete(manifest: Manifest) -> None:
    """Write out what is defaults, but must be said here."""
    pod = manifest.stateful_set["spec"]["template"]["spec"]
    containers = pod["containers"]
    for holder in (manifest.service.get("spec") or {}, *containers):
        for port in holder.get("ports") or []:
            # Before Kubernetes 1.23, an apply must state it.
            port.setdefault("protocol", "TCP")
    first = pod.get("initContainers") or []
    for container in (*containers, *first, manifest.shape_network, manifest.bring_agent):
        # So the last output of a failed container is in the pod's status, for the user to read.
        container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")


def _limit_cpus(container: Object, cores: float) -> None:
    quantity = f"{max(1, round(cores * 1000))}m"
    resources = container.setdefault("resources", {})
    for kind in ("requests", "limits"):
        resources[kind] = {**(resources.get(kind) or {}), "cpu": quantity}


def _set_env(container: Object, name: str, value: str) -> None:
    others = [one for one in container.get("env") or [] if one["name"] != name]
    container["env"] = [*others, {"name": name, "value": value}]


def _worker(template: Object) -> Object:
    for container in template["spec"]["containers"]:
        if container["name"] == WORKER:
            found: Object = container
            return found
    raise KeyError(f"a container named {WORKER}")


def _digest(made: Object) -> str:
    text = json.dumps(made, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()[:12]
