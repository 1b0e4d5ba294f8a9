"""Checks with the library of Helm 4: package the chart, then lint and render the package."""

import tarfile
from pathlib import Path
from typing import Any

import helm_python
import yaml

from helm.check.rendering import CHART, ROOT, Document

_LINKED = {
    "dashboards": ROOT / "grafana" / "dashboards",
    "provisioning": ROOT / "grafana" / "provisioning",
    "rules": ROOT / "prometheus" / "rules",
}


def version() -> str:
    """Return the version of Helm 4."""
    return str(helm_python.helm_sdk_version())


def package(folder: Path) -> Path:
    """Package the chart, and return the path of the archive."""
    return Path(helm_python.package(CHART, destination=folder))


def lint(archive: Path, values: dict[str, Any], kube_version: str) -> list[str]:
    """Lint strictly, and return the warnings and errors."""
    report = helm_python.lint(archive, values, strict=True, kube_version=f"v{kube_version}.0")
    messages = [m["error"] for m in report["messages"] if m["severity"] >= 2]  # warnings
    return [*messages, *report["errors"]]


def render(archive: Path, values: dict[str, Any]) -> list[Document]:
    """Render the chart's objects for the default Kubernetes version of this Helm."""
    with helm_python.Chart.load(archive) as chart:
        texts = chart.render(values, name="r", namespace="ns")
    return [
        document
        for path, text in texts.items()
        if path.endswith(".yaml")
        for document in yaml.safe_load_all(text)
        if document
    ]


def missing_files(archive: Path) -> list[str]:
    """Return the files that are missing in the archive, where symbolic links must be files."""
    with tarfile.open(archive) as packed:
        packed_files = {member.name for member in packed.getmembers() if member.isfile()}
    required = [
        f"mlbench/files/{link}/{file.relative_to(folder)}"
        for link, folder in _LINKED.items()
        for file in folder.rglob("*")
        if file.is_file()
    ]
    return [f"{archive.name}: {file} is missing" for file in required if file not in packed_files]
