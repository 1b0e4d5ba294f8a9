"""Checking objects: against the schemas that Kubernetes publishes, and its limits of size."""

import base64
import functools
import gzip
import json
from collections.abc import Iterable, Sequence

import kubernetes_validate
from kubernetes_validate import utils

from helm.check.rendering import CHART, Document, find_documents

# Kinds of the Prometheus operator are no part of Kubernetes.
_OPERATOR = "monitoring.coreos.com/"
# Kubernetes takes a megabyte at most for a ConfigMap or a Secret.
_LIMIT_BYTES = 1_000_000

# Without a cache it would parse megabytes of definitions for each object.
utils.schema_contents = functools.cache(utils.schema_contents)


def newest_version() -> str:
    """Return the newest version of Kubernetes that there are schemas of, such as ``1.37``."""
    return str(utils.major_minor(utils.latest_version()))


class SchemaChecker:
    """Validates objects, each one once: most are the same for all values."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    @property
    def count(self) -> int:
        """How many different objects were validated."""
        return len(self._seen)

    def errors(self, documents: Iterable[Document], version: str) -> list[str]:
        """Find what is wrong with the objects; an unknown kind is wrong too."""
        problems = []
        for document in documents:
            key = (version, json.dumps(document, sort_keys=True))
            if document["apiVersion"].startswith(_OPERATOR) or key in self._seen:
                continue
            self._seen.add(key)
            if error := _schema_error(document, version):
                problems.append(error)
        return problems


def _schema_error(document: Document, version: str) -> str:
    name = f"{document['kind']}/{document['metadata']['name']} for Kubernetes {version}"
    try:
        used = kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        path = ".".join(map(str, error.path))
        return f"{name}: {path}: {error.message}"
    except (utils.SchemaNotFoundError, utils.VersionNotSupportedError) as error:
        return f"{name}: {error.message}"
    # The package silently falls back to older schemas.
    return "" if used == version else f"{name}: there are no schemas newer than {used}"


def size_errors(documents: Sequence[Document]) -> list[str]:
    """Find ConfigMaps that are too large, and whether Helm's record of the release is."""
    sizes = {
        document["metadata"]["name"]: sum(map(len, document["data"].values()))
        for document in find_documents(documents, "ConfigMap")
    }
    # Helm's record holds chart and objects, compressed, and base64 twice.
    files = [file.read_bytes() for file in CHART.glob("files/*/**/*") if file.is_file()]
    record = json.dumps(documents).encode() + b"".join(map(base64.b64encode, files))
    sizes["Helm's Secret of the release"] = len(gzip.compress(record)) * 16 // 9
    return [
        f"{name}: {size} bytes, of at most {_LIMIT_BYTES}"
        for name, size in sizes.items()
        if size > _LIMIT_BYTES
    ]
