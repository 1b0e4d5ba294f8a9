"""The OpenAPI document, made of the operations of every noun."""

import inspect
import re
from functools import cache
from importlib.metadata import version
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from master.auth import Access
from master.openapi import (
    benchmarks,
    errors,
    events,
    health,
    info,
    logs,
    manifest,
    metrics,
    pods,
    results,
    runs,
    workers,
)
from master.openapi.forms import to_form
from master.openapi.operation import JAVASCRIPT, JSON, Answer, Operation, Parameter, Request
from master.openapi.parameters import OF_PATHS

OPERATIONS: tuple[Operation, ...] = (
    *pods.OPERATIONS,
    *metrics.OPERATIONS,
    *runs.OPERATIONS,
    *logs.OPERATIONS,
    *events.OPERATIONS,
    *manifest.OPERATIONS,
    *results.OPERATIONS,
    *benchmarks.OPERATIONS,
    *info.OPERATIONS,
    *workers.OPERATIONS,
    *health.OPERATIONS,
)

_DESCRIPTION = """\
Order runs, follow them, read and add metrics.

- A slash at the end of a path may be left out.
- A body is JSON; where a form is mentioned, it may be a form. A text that spells a number or a \
truth value does for it.
- With `text/javascript` in the Accept header, JSON is called by that name.
- Every error is JSON with `status` and `message`.
"""
_FORM = "application/x-www-form-urlencoded"
_BYTES = "application/octet-stream"

_SECURITY: dict[Access, tuple[str, ...]] = {
    "open": (),
    "user": ("user_bearer", "user_basic"),
    "agent": ("agent_bearer", "agent_basic"),
}
_SECURITY_SCHEMES = {
    f"{who}_{scheme}": {"type": "http", "scheme": scheme, "description": description}
    for who, token in (("user", "The users' token"), ("agent", "The token of the agent's pod"))
    for scheme, description in (
        ("bearer", f"{token}."),
        ("basic", f"{token} as the password, with any name."),
    )
}


@cache
def build() -> dict[str, Any]:
    """Return the document, ready for JSON."""
    schemas = _Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _describe(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "MLBench",
            "version": version("mlbench"),
            "description": _DESCRIPTION,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": errors.components(),
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


class _WithoutTitles(GenerateJsonSchema):
    """A title would only repeat the field's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class _Schemas:
    """The schemas of models; what they refer to gathers in ``components``."""

    def __init__(self) -> None:
        self.components: dict[str, Any] = {}
        self.of(errors.Error, "serialization")

    def of(self, model: Any, mode: Literal["validation", "serialization"]) -> dict[str, Any]:
        """Return the schema of a model, or of a type made of such."""
        schema = TypeAdapter(model).json_schema(
            mode=mode,
            schema_generator=_WithoutTitles,
            ref_template="#/components/schemas/{model}",
        )
        self.components |= schema.pop("$defs", {})
        if "title" not in schema:
            return schema
        self.components[schema["title"]] = schema
        return {"$ref": f"#/components/schemas/{schema['title']}"}


def _describe(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    text = inspect.cleandoc(operation.docstring)
    variables = [OF_PATHS[name] for name in re.findall(r"{(\w+)}", operation.path)]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": text.partition("\n")[0],
        "description": text,
        "parameters": [
            *(_parameter(variable, "path") for variable in variables),
            *(_parameter(parameter, "query") for parameter in operation.parameters),
        ],
        "responses": {
            str(operation.answer.status): _answer(operation.answer, schemas),
            **errors.references(operation.access, operation.errors),
        },
        "security": [{scheme: []} for scheme in _SECURITY[operation.access]],
    }
    if operation.request is not None:
        described["requestBody"] = _request(operation.request, schemas)
    return described


def _parameter(parameter: Parameter, where: str) -> dict[str, Any]:
    described = {
        "name": parameter.name,
        "in": where,
        "required": parameter.required,
        "description": parameter.description,
        "schema": parameter.schema,
    }
    return described if parameter.example is None else {**described, "example": parameter.example}


def _request(request: Request, schemas: _Schemas) -> dict[str, Any]:
    examples = {name: {"value": example} for name, example in request.examples.items()}
    if request.model is None:
        content = {_BYTES: {"schema": {"type": "string", "format": "binary"}, "examples": examples}}
    else:
        schema = schemas.of(request.model, "validation")
        content = {JSON: {"schema": schema, "examples": examples}}
    if request.form is not None:
        name = schemas.of(request.form, "validation")["$ref"].rpartition("/")[2]
        content[_FORM] = {"schema": to_form(schemas.components[name])}
    # A piece of a stream may be empty.
    return {"required": request.model is not None, "content": content}


def _answer(answer: Answer, schemas: _Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {kind: {"schema": schema} for kind, schema in answer.also.items()}
    if answer.model is not None:
        as_json = {
            "schema": schemas.of(answer.model, "serialization"),
            "example": answer.example,
        }
        content = {JSON: as_json, JAVASCRIPT: as_json, **content}
    described: dict[str, Any] = {"description": answer.description}
    return {**described, "content": content} if content else described
