"""What a model looks like as a form: the fields are texts, and what is no text is JSON."""

from collections.abc import Mapping
from typing import Any

_NULL = {"type": "null"}
# As Python and JSON spell them, and as numbers.
_TRUTH_VALUE = {"type": "string", "enum": ["true", "false", "True", "False", "1", "0"]}
_AS_JSON = {"type": "string", "contentMediaType": "application/json"}


def to_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a form, given that of the same model as a JSON object.

    A form has no null: a field is left out instead.
    """
    properties = {name: _to_field(field) for name, field in schema["properties"].items()}
    return {**schema, "properties": properties}


def _to_field(schema: Mapping[str, Any]) -> dict[str, Any]:
    choices = [choice for choice in schema.get("anyOf", []) if choice != _NULL]
    kept = {key: value for key, value in schema.items() if key not in {"anyOf", "default"}}
    if len(choices) == 1:
        kept |= choices[0]
    elif choices:
        kept["anyOf"] = choices
    if kept.get("type") == "boolean":
        return {**kept, **_TRUTH_VALUE}
    if kept.get("type") == "object" or not kept.keys() & {"type", "anyOf", "$ref"}:
        described = {"description": kept["description"]} if "description" in kept else {}
        return {**described, **_AS_JSON}
    return kept
