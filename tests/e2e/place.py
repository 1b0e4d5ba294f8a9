"""A namespace for a release, with volumes in folders of a node.

Volumes are folders because a cluster may lack a storage class. Namespaces left by earlier runs on
this machine that were killed are removed first.
"""

import json
import os
import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.commands import CommandError, run, wait_until

_MACHINE = re.sub("[^A-Za-z0-9-]", "-", platform.node())[:60].strip("-") or "unknown"
_OF_THESE_TESTS = {"mlbench-e2e": "true", "mlbench-e2e-machine": _MACHINE}
_FOLDERS = "/var/tmp"
# A pod cannot mount a claim twice, so each purpose has a volume.
_PURPOSES = ("state", "archive", "backups", "restored-state", "restored-archive")
# The user id of the master image.
_USER = 10001


@dataclass(frozen=True)
class Images:
    """The images of the tests: those that `make e2e` has built, or that it was told of."""

    prefix: str
    tag: str

    @classmethod
    def from_environ(cls) -> "Images":
        """Return those under $E2E_IMAGES with the tag $E2E_TAG."""
        return cls(
            os.environ.get("E2E_IMAGES") or "localhost/mlbench", os.environ.get("E2E_TAG") or "e2e"
        )

    def __getitem__(self, name: str) -> str:
        """Return an image's whole name."""
        return f"{self.prefix}/{name}:{self.tag}"

    def values(self, name: str) -> dict[str, str]:
        """Return an image as the chart's values name it."""
        return {"repository": f"{self.prefix}/{name}", "tag": self.tag}


@dataclass(frozen=True)
class Place:
    """A namespace for one release of the same name, with its volumes."""

    name: str
    helm: str
    """Path of the helm executable."""

    def claim(self, purpose: str) -> str:
        """Return the name of a persistent volume claim; ``purpose`` is one of ``_PURPOSES``."""
        return f"{self.name}-{purpose}"

    def make(self, images: Images) -> None:
        node = _a_node()
        apply(_object("Namespace", self.name))
        for purpose in _PURPOSES:
            name = self.claim(purpose)
            claim = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "volumeName": name,
                "resources": {"requests": {"storage": "1Gi"}},
            }
            volume = _volume(f"{_FOLDERS}/{self.name}/{purpose}", node)
            apply(
                _object("PersistentVolume", name, spec=volume),
                _object("PersistentVolumeClaim", name, self.name, spec=claim),
            )
        bound = ("--namespace", self.name, "get", "pvc", "--output")
        wait_until(
            lambda: run("kubectl", *bound, "jsonpath={.items[*].status.phase}").split(),
            lambda phases: phases == ["Bound"] * len(_PURPOSES),
            60,
            "the volumes are bound",
        )
        folders = " ".join(f"/there/{self.name}/{purpose}" for purpose in _PURPOSES)
        self._on_node(node, images["custom"], f"mkdir -p {folders}; chown {_USER} {folders}")

    def remove(self, images: Images) -> None:
        """Remove the release, namespace and volumes, even if they are incomplete."""
        with suppress(CommandError):
            run(self.helm, "uninstall", self.name, "--namespace", self.name, seconds=120)
        with suppress(CommandError):
            self._on_node(_a_node(), images["custom"], f"rm -rf /there/{self.name}")
        volumes = [f"pv/{self.claim(purpose)}" for purpose in _PURPOSES]
        everything = (f"namespace/{self.name}", *volumes)
        run("kubectl", "delete", *everything, "--ignore-not-found", "--wait=false")
        run(
            *("kubectl", "delete", "clusterrole,clusterrolebinding"),
            *("--selector", f"app=mlbench,release={self.name}", "--ignore-not-found"),
        )

    def _on_node(self, node: str, image: str, command: str) -> None:
        """Run a shell command as root in a pod that mounts the volumes' folder at /there."""
        spec = {
            "restartPolicy": "Never",
            "nodeName": node,
            "containers": [
                {
                    "name": "shell",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sh", "-ec", command],
                    "securityContext": {"runAsUser": 0},
                    "volumeMounts": [{"name": "there", "mountPath": "/there"}],
                }
            ],
            "volumes": [{"name": "there", "hostPath": {"path": _FOLDERS}}],
        }
        apply(_object("Pod", "on-node", self.name, spec=spec))
        of_it = ("kubectl", "--namespace", self.name)
        try:
            phase = ("get", "pod", "on-node", "--output", "jsonpath={.status.phase}")
            ended = {"Succeeded", "Failed"}
            last = wait_until(lambda: run(*of_it, *phase), ended.__contains__, 120, command)
            assert last == "Succeeded", run(*of_it, "logs", "on-node")
        finally:
            run(*of_it, "delete", "pod", "on-node", "--now")


def own_place(helm: str) -> Place:
    return Place(f"e2e-{os.getpid()}", helm)


def abandoned_places(helm: str) -> list[Place]:
    """Return places of exited processes of this machine, and places of this process."""
    selector = ",".join(f"{key}={value}" for key, value in _OF_THESE_TESTS.items())
    listed = run("kubectl", "get", "namespaces,pv", "--selector", selector, "--output", "json")
    # The name of a volume is the name of its place and its purpose.
    names = {
        "-".join(item["metadata"]["name"].split("-")[:2]) for item in json.loads(listed)["items"]
    }
    return [Place(name, helm) for name in sorted(names) if not _is_anothers(name)]


def _is_anothers(name: str) -> bool:
    pid = int(name.removeprefix("e2e-"))
    return pid != os.getpid() and Path(f"/proc/{pid}").exists()


def _a_node() -> str:
    """Return a node that accepts pods."""
    nodes = json.loads(run("kubectl", "get", "nodes", "--output", "json"))["items"]
    free: list[str] = [
        node["metadata"]["name"]
        for node in nodes
        if not node["spec"].get("unschedulable") and not node["spec"].get("taints")
    ]
    return min(free)


def _volume(path: str, node: str) -> dict[str, Any]:
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": path},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
    }


def _object(kind: str, name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": _OF_THESE_TESTS}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


def apply(*objects: dict[str, Any]) -> None:
    everything = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    run("kubectl", "apply", "--filename", "-", input=json.dumps(everything))
