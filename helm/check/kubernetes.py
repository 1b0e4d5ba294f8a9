"""Checks of objects against the published schemas and the size limits of Kubernetes."""

import base64
import functools
import gzip
import json
from collections.abc import Iterable, Sequence

import kubernetes_validate
from kubernetes_validate import utils

from helm.check.rendering import CHART, OPERATOR, Document, find_documents

# Kubernetes limits a ConfigMap or a Secret to a megabyte.
_LIMIT_BYTES = 1_000_000

# Otherwise, megabytes of definitions would be parsed for each object.
utils.schema_contents = functools.cache(utils.schema_contents)


def newest_version() -> str:
    """Return the newest version of Kubernetes with schemas, such as ``1.37``."""
    return str(utils.major_minor(utils.latest_version()))


class SchemaChecker:
    """Validates objects. Identical ones are validated once, because most values share them."""

    def __init__(self) -> None:
        self._validated: set[tuple[str, str]] = set()

    @property
    def count(self) -> int:
        """Number of different objects that were validated."""
        return len(self._validated)

    def errors(self, documents: Iterable[Document], version: str) -> list[str]:
        """Return the errors of objects. An unknown kind is an error."""
        problems = []
        for document in documents:
            key = (version, json.dumps(document, sort_keys=True))
            # The kinds of the Prometheus operator are not part of Kubernetes.
            if document["apiVersion"] == OPERATOR or key in self._validated:
                continue
            self._validated.add(key)
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
    return "" if used == version else f"{name}: no schemas newer than {used}"


def size_errors(documents: Sequence[Document]) -> list[str]:
    """Return the ConfigMaps that are too large, and Helm's record of the release if it is."""
    sizes = {
        document["metadata"]["name"]: sum(map(len, document["data"].values()))
        for document in find_documents(documents, "ConfigMap")
    }
    # Helm's record contains chart and objects, compressed, and base64-encoded twice.
    files = [file.read_bytes() for file in CHART.glob("files/*/**/*") if file.is_file()]
    record = json.dumps(documents).encode() + b"".join(map(base64.b64encode, files))
    sizes["Helm's Secret of the release"] = len(gzip.compress(record)) * 16 // 9
    return [
        f"{name}: must have at most {_LIMIT_BYTES} bytes (got {size})"
        for name, size in sizes.items()
        if size > _LIMIT_BYTES
    ]
