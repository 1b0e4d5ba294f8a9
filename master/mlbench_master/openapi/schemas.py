"""JSON schemas of requests and records, from the types and descriptions of their fields."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from mlbench.contract.fields import Before, Field, describe
from mlbench.contract.records.record import SparseRecord

Schema = dict[str, Any]

_PLAIN: Mapping[Any, Schema] = {
    Any: {},
    NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
}
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


class Schemas:
    """Schemas of types. Those of dataclasses become ``components``, with references to them."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        # Records in both requests and responses are described as in requests.
        self._in_requests: set[str] = set()

    def of(self, type_: Any, *, is_response: bool) -> Schema:
        """Return the schema of a type in a request or in a response."""
        origin, parts = get_origin(type_), get_args(type_)
        schema: Schema
        if origin is Annotated:
            received = [step.received for step in parts if isinstance(step, Before)]
            schema = self.of(next(filter(None, received), parts[0]), is_response=is_response)
            for field in parts[1:]:
                schema |= _keywords(field, schema) if isinstance(field, Field) else {}
        elif origin is Literal:
            fixed = {"const": parts[0]} if len(parts) == 1 else {"enum": [*parts]}
            schema = _PLAIN[type(parts[0])] | fixed
        elif is_dataclass(type_):
            name = type_.__name__  # type: ignore[union-attr]
            schema = {"$ref": f"#/components/schemas/{name}"}
            if name not in self.components or not (is_response or name in self._in_requests):
                self.components[name] = {}  # records may contain their own type
                self._in_requests |= set() if is_response else {name}
                self.components[name] = self._of_fields(type_, is_response=is_response)
        elif origin is None:
            schema = {**_PLAIN[type_]}
        else:
            nested = [self.of(part, is_response=is_response) for part in parts if part is not ...]
            if origin in (Union, UnionType):
                schema = {"anyOf": nested}
            elif origin in (dict, Mapping):
                keys, values = nested
                schema = {"type": "object", "additionalProperties": values or True}
                if names := {word: value for word, value in keys.items() if word != "type"}:
                    schema["propertyNames"] = names
            elif origin is tuple and ... not in parts:
                lengths = dict.fromkeys(("minItems", "maxItems"), len(nested))
                schema = {"type": "array", "prefixItems": nested, **lengths}
            else:
                schema = {"type": "array", "items": nested[0]}
        return schema

    def parameters(self, record: Any, place: str, names: Iterable[str] = ()) -> list[Schema]:
        """Return the fields of a dataclass, all or some, as parameters of the path or the query."""
        described = describe(record)
        parameters = []
        for name in names or described:
            field = described[name]
            schema = self.of(field.type, is_response=False)
            # Optional parameters are left out instead of null.
            schema |= next(iter(schema.pop("anyOf", [{}])))
            is_prepared = any(isinstance(step, Before) for step in get_args(field.type))
            if field.default not in (None, "") and not is_prepared:
                schema["default"] = field.default
            example = not field.default if field.kind is bool else field.example
            parameters.append(
                {"name": name, "in": place, "required": field.required}
                | {"description": field.sentence, "schema": schema}
                | ({} if example is None else {"example": example})
            )
        return parameters

    def _of_fields(self, record: Any, *, is_response: bool) -> Schema:
        """Return the schema of a dataclass. Responses have no default values."""
        descriptions, properties = describe(record), {}
        for field in fields(record):
            described = descriptions[field.name]
            schema = self.of(described.type, is_response=is_response)
            schema |= {"description": described.sentence} if described.sentence else {}
            if is_response and issubclass(record, SparseRecord) and not described.required:
                # Optional fields are absent instead of null.
                schema |= next(iter(schema.pop("anyOf", [{}])))
            if not is_response and field.default is not MISSING:
                schema["default"] = field.default
            properties[field.name] = schema
        is_whole = is_response and not issubclass(record, SparseRecord)
        return {
            "type": "object",
            "description": inspect.getdoc(record),
            "properties": properties,
            "required": [n for n in properties if is_whole or descriptions[n].required],
            "additionalProperties": False,
            **getattr(record, "json_schema", {}),
        }


def _keywords(field: Field, schema: Schema) -> Schema:
    """Return the keywords of a description, for a schema of its type."""
    facts = {keyword: getattr(field, name) for name, keyword in _BOUNDS.items()}
    lengths = {"array": "Items", "object": "Properties"}.get(schema.get("type", ""), "Length")
    facts |= {f"min{lengths}": field.min_length or None, f"max{lengths}": field.max_length}
    facts["pattern"] = field.pattern or None
    stated = {keyword: fact for keyword, fact in facts.items() if fact is not None}
    return stated | dict(field.schema or {})
