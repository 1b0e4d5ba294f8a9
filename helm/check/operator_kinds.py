"""Checks of objects against the kinds of the Prometheus operator.

The JSON file in this folder has the schemas of the operator's version 0.93, from the folder
``example/prometheus-operator-crd`` of its repository. Descriptions are removed, and unknown fields
are refused, because the API server would drop them.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import jsonschema

from helm.check.rendering import OPERATOR, Document

_SCHEMAS: Final = json.loads(Path(__file__).with_suffix(".json").read_text())


def operator_errors(documents: Iterable[Document]) -> list[str]:
    """Return the errors of the objects whose kind is the operator's."""
    return [
        f"{document['kind']}/{document['metadata']['name']}: {error.json_path}: {error.message}"
        for document in documents
        if document["apiVersion"] == OPERATOR
        for error in jsonschema.Draft7Validator(_SCHEMAS[document["kind"]]).iter_errors(document)
    ]
