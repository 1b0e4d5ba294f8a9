"""Builders for tests of the pools: a manifest as in the chart, and its pods."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlbench.contract.runspec import WorkerSpec
from mlbench_master.pools.kubernetes import KubernetesPool
from mlbench_master.pools.kubernetes_api import Api
from mlbench_master.pools.manifests import Object, PodManifest, add_owner, load, make_stateful_set
from mlbench_master.pools.pool_plan import DesiredPool
from mlbench_master.pools.status import SeenPod
from mlbench_master.settings import ClusterSettings, InstallationLimits

NAME = "r-mlbench-worker"
OWNER_NAME = "r-mlbench-master"
LABELS = {"app": "mlbench", "component": "worker", "release": "r"}
IMAGE = "docker.io/library/debian:bookworm-slim"
DEFAULT_SHAPE = WorkerSpec()
LIMITS = InstallationLimits(cpus=64.0, gpus=2)
OWNER: Object = {"metadata": {"name": OWNER_NAME, "uid": "5ec9f286"}}


def make_manifest(namespace: str = "here") -> Object:
    """Return a manifest whose workers only sleep."""
    metadata = {"name": NAME, "namespace": namespace, "labels": LABELS}
    few = {"cpu": "10m", "memory": "10Mi"}
    worker = {
        "name": "worker",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", "trap exit TERM; while :; do sleep 0.1; done"],
        "args": ["--pod", "$(MLBENCH_POD)"],
        "ports": [{"name": "metrics", "containerPort": 9500}],
        "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
        "resources": {"requests": few, "limits": {"cpu": "1", "memory": "50Mi"}},
    }
    pod = {"terminationGracePeriodSeconds": 2, "automountServiceAccountToken": False}
    init = {"image": IMAGE, "imagePullPolicy": "IfNotPresent"}
    return {
        "service": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": LABELS,
                "ports": [{"name": "metrics", "port": 9500}],
            },
        },
        "statefulSet": {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": metadata,
            "spec": {
                "replicas": 2,
                "serviceName": NAME,
                "podManagementPolicy": "Parallel",
                "updateStrategy": {"type": "OnDelete"},
                "selector": {"matchLabels": LABELS},
                "template": {
                    "metadata": {"labels": LABELS},
                    "spec": {**pod, "containers": [worker]},
                },
            },
        },
        "initContainers": {
            "network": {"name": "network", "command": ["true"], **init},
            "agent": {"name": "agent", "command": ["true"], **init},
        },
    }


def write_manifest(
    path: Path, namespace: str = "here", change: Callable[[Object], object] = lambda stated: None
) -> Path:
    """Write the manifest to ``path``, modified by ``change``, and return the path."""
    stated = make_manifest(namespace)
    change(stated)
    path.write_text(json.dumps(stated))
    return path


def make_wanted(
    manifest: PodManifest, workers: int = 2, shape: WorkerSpec = DEFAULT_SHAPE
) -> DesiredPool:
    """Return the desired objects, with their owner."""
    made = make_stateful_set(manifest, LIMITS, shape, workers)
    return DesiredPool(add_owner(manifest.service, OWNER), add_owner(made, OWNER), frozenset())


def make_pool(manifest: Path, namespace: str, stop: threading.Event) -> KubernetesPool:
    """Return a started pool in the cluster of ``$KUBECONFIG``."""
    settings = ClusterSettings(manifest, namespace, OWNER_NAME)
    pool = KubernetesPool(Api(), settings, load(manifest), LIMITS)
    pool.start(stop)
    return pool


def make_pod(number: int, shape: str, **changes: Any) -> SeenPod:
    """Return a running pod."""
    return SeenPod(
        **{
            "name": f"{NAME}-{number}",
            "number": number,
            "uid": f"uid-{number}",
            "phase": "Running",
            "ip": f"10.0.0.{number + 1}",
            "node": "n",
            "labels": {**LABELS, "mlbench.shape": shape},
            "image": "worker@sha256:0",
            "running": True,
            "scheduled": True,
            "unschedulable": "",
            "trouble": "",
            "usable": False,
            "ends_by": None,
            **changes,
        }
    )
