"""Rendering the chart with Helm 3, and reading what comes out."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "mlbench"
VALUES = ROOT / "tests" / "helm" / "values"

Document = dict[str, Any]
"""One object of Kubernetes."""

_OPERATOR = "monitoring.coreos.com/v1"


class ChartError(Exception):
    """Helm refuses the chart, or the values; the text is Helm's."""


@dataclass(frozen=True)
class Helm:
    """A Helm 3 program."""

    program: str

    def run(self, *arguments: str | Path) -> str:
        """Return what Helm prints.

        Raises:
            ChartError: it fails.
        """
        command = [self.program, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise ChartError(_without_links(done.stderr) + done.stdout)
        return done.stdout

    def render(
        self,
        kube_version: str,
        *options: str | Path,
        release: str = "r",
        namespace: str = "ns",
        operator: bool = False,
    ) -> list[Document]:
        """Return the chart's objects, as a cluster of that version would get them.

        Args:
            kube_version: such as ``1.31.0``.
            options: of Helm, such as ``--values FILE``.
            release: its name.
            namespace: where it is installed.
            operator: whether the cluster knows the kinds of Prometheus's operator.

        Raises:
            ChartError: the chart refuses the values.
        """
        known = ("--api-versions", _OPERATOR) if operator else ()
        text = self.run(
            *("template", release, CHART, "--namespace", namespace),
            *("--kube-version", kube_version, *known, *options),
        )
        return [document for document in yaml.load_all(text, _Loader) if document]


def values_files() -> Sequence[Path]:
    """Return the files of values that the chart is rendered with."""
    return sorted(VALUES.glob("*.yaml"))


def knows_operator(values: Path) -> bool:
    """Return whether the cluster of such a file has Prometheus's operator."""
    return values.stem in {"operator", "everything"}


def find_documents(documents: Sequence[Document], kind: str, name: str = "") -> list[Document]:
    """Return the objects of a kind, and of a name if one is given."""
    return [
        document
        for document in documents
        if document["kind"] == kind and name in {"", document["metadata"]["name"]}
    ]


def worker_manifest(documents: Sequence[Document]) -> Document:
    """Return what the controller makes the workers from."""
    (config,) = (
        document
        for document in find_documents(documents, "ConfigMap")
        if "worker.json" in document["data"]
    )
    manifest: Document = json.loads(config["data"]["worker.json"])
    return manifest


def worker_documents(documents: Sequence[Document]) -> Iterator[Document]:
    """Yield the workers' Service, and their StatefulSet with all init containers laid in."""
    manifest = worker_manifest(documents)
    yield manifest["service"]
    stateful_set = manifest["statefulSet"]
    stateful_set["spec"]["template"]["spec"]["initContainers"] += manifest[
        "initContainers"
    ].values()
    yield stateful_set


def _without_links(text: str) -> str:
    """Return Helm's errors without its remarks on symbolic links."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if "found symbolic link" not in line)


class _Loader(yaml.CSafeLoader):
    """Takes ``=`` as a text, which a dashboard may hold."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda loader, node: node.value)
