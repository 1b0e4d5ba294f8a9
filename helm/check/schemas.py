"""Validating objects against the schemas that Kubernetes publishes, strictly."""

import functools
import json
from collections.abc import Iterable

import kubernetes_validate
from kubernetes_validate import utils

from helm.check.rendering import Document

# Kinds of the operator's own, which are no part of Kubernetes.
_FOREIGN = "monitoring.coreos.com/"

# It would parse megabytes of definitions for each object.
utils.schema_contents = functools.cache(utils.schema_contents)


def newest_version() -> str:
    """Return the newest version whose schemas there are, such as ``1.37``."""
    newest: str = utils.major_minor(utils.latest_version())
    return newest


class SchemaChecker:
    """Remembers what it has seen: most objects are the same for all values."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    @property
    def count(self) -> int:
        """How many different objects were validated."""
        return len(self._seen)

    def complaints(self, documents: Iterable[Document], version: str) -> list[str]:
        """Return what is wrong with the objects; an unknown kind is wrong too."""
        found = []
        for document in documents:
            key = (version, json.dumps(document, sort_keys=True))
            if document["apiVersion"].startswith(_FOREIGN) or key in self._seen:
                continue
            self._seen.add(key)
            if complaint := _complaint(document, version):
                found.append(complaint)
        return found


def _complaint(document: Document, version: str) -> str:
    name = f"{document['kind']}/{document['metadata']['name']} for Kubernetes {version}"
    try:
        used = kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        path = ".".join(map(str, error.path))
        return f"{name}: {path}: {error.message}"
    except (utils.SchemaNotFoundError, utils.VersionNotSupportedError) as error:
        return f"{name}: {error.message}"
    # The package falls back to older schemas without a word.
    return "" if used == version else f"{name}: there are no schemas newer than {used}"
