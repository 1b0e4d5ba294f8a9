"""Holding the chart against Kubernetes' limit of a megabyte for a ConfigMap, or a Secret."""

import base64
import gzip
import json
from collections.abc import Sequence

from helm.check.rendering import CHART, Document, find_documents

_LIMIT = 1_000_000


def complaints(documents: Sequence[Document]) -> list[str]:
    """Return what is too large of the ConfigMaps, and of Helm's own record of the release."""
    sizes = {
        document["metadata"]["name"]: sum(map(len, document["data"].values()))
        for document in find_documents(documents, "ConfigMap")
    }
    sizes["Helm's Secret of the release"] = _release_bytes(documents)
    return [
        f"{name}: {size} bytes, of at most {_LIMIT}"
        for name, size in sizes.items()
        if size > _LIMIT
    ]


def _release_bytes(documents: Sequence[Document]) -> int:
    """Return about how large Helm's record is: chart and objects, packed, and base64 twice."""
    files = [file.read_bytes() for file in CHART.glob("files/*/**/*") if file.is_file()]
    record = json.dumps(documents).encode() + b"".join(map(base64.b64encode, files))
    return len(gzip.compress(record)) * 16 // 9
