"""Render the chart with Helm 3, and find objects in the result."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "mlbench"
VALUES = ROOT / "tests" / "helm" / "values"

Document = dict[str, Any]
"""One Kubernetes object."""

OPERATOR = "monitoring.coreos.com/v1"
"""API version of the Prometheus operator's kinds."""


class ChartError(Exception):
    """Helm refuses the chart or the values; the message is Helm's."""


@dataclass(frozen=True)
class Helm:
    """A Helm 3 program."""

    program: str

    def run(self, *arguments: str | Path) -> str:
        """Run Helm, and return its output; ChartError if it fails."""
        command = [self.program, *arguments]
        process = subprocess.run(command, check=False, capture_output=True, text=True)
        if process.returncode != 0:
            remarks = process.stderr.splitlines(keepends=True)
            errors = [line for line in remarks if "found symbolic link" not in line]
            raise ChartError("".join(errors) + process.stdout)
        return process.stdout

    def render(
        self, kube_version: str, *options: str | Path, release: str = "r", operator: bool = False
    ) -> list[Document]:
        """Render the chart's objects for a cluster of a version such as ``1.31.0``.

        ``options`` are options of Helm, such as ``--values FILE``; ``operator``: whether the
        cluster has the kinds of the Prometheus operator. ChartError if the chart refuses the
        values.
        """
        versions = ("--api-versions", OPERATOR) if operator else ()
        text = self.run(
            *("template", release, CHART, "--namespace", "ns"),
            *("--kube-version", kube_version, *versions, *options),
        )
        return [document for document in yaml.load_all(text, _Loader) if document]


def values_files() -> Sequence[Path]:
    """Return the files of values with which the chart is rendered."""
    return sorted(VALUES.glob("*.yaml"))


def knows_operator(values: Path) -> bool:
    """Return whether the cluster for a file of values has the Prometheus operator."""
    return values.stem in {"operator", "everything"}


def find_documents(documents: Sequence[Document], kind: str, name: str = "") -> list[Document]:
    """Return the objects of a kind, or only the one with a name."""
    return [
        document
        for document in documents
        if document["kind"] == kind and name in {"", document["metadata"]["name"]}
    ]


def worker_manifest(documents: Sequence[Document]) -> Document:
    """Return the manifest from which the controller creates the workers."""
    data = [config["data"] for config in find_documents(documents, "ConfigMap")]
    (text,) = (files["worker.json"] for files in data if "worker.json" in files)
    manifest: Document = json.loads(text)
    return manifest


def worker_documents(documents: Sequence[Document]) -> list[Document]:
    """Return the workers' Service, and their StatefulSet with all init containers."""
    manifest = worker_manifest(documents)
    pod = manifest["statefulSet"]["spec"]["template"]["spec"]
    pod["initContainers"] += manifest["initContainers"].values()
    return [manifest["service"], manifest["statefulSet"]]


class _Loader(yaml.CSafeLoader):
    """Loads ``=`` as a text, because dashboards may contain it."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda loader, node: node.value)
