"""The description of a resource's ``on_get``, ``on_post``… for the OpenAPI document."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from pydantic import BaseModel

Schema = Mapping[str, Any]
_Method = TypeVar("_Method", bound=Callable[..., None])

# The largest number that the API reads in a path or a query.
_LARGEST = 10**18 - 1

WHOLE: Schema = {"type": "integer", "minimum": 0, "maximum": _LARGEST}
ABOVE_0: Schema = {"type": "integer", "minimum": 1, "maximum": _LARGEST}


@dataclass(frozen=True)
class Parameter:
    """A query parameter, or a variable part of a path."""

    name: str
    schema: Schema
    description: str
    example: Any = None
    required: bool = False


@dataclass(frozen=True)
class Operation:
    """A method of a route. Its summary and description are the method's docstring."""

    name: str
    """The ``operationId``, by which ``examples.json`` has its examples."""
    answer: str
    """The description of a good answer."""
    model: Any = None
    """The record in its JSON, or a type made of such; None for an answer that is not JSON."""
    status: int = HTTPStatus.OK
    accepted: str = ""
    """The description of the answer 202, which has no content; empty where there is none."""
    files: Mapping[str, Schema] = field(default_factory=dict)
    """Schemas of answers that are not JSON, by media type."""
    parameters: tuple[Parameter, ...] = ()
    """Of the query."""
    body: Any = None
    """The pydantic model of the request's body, or a type made of such; or ``bytes``."""
    form: type[BaseModel] | None = None
    """The model of a body that is a form; None if it cannot be one."""
    errors: tuple[int, ...] = ()
    """Besides those that all routes have."""


def operation(
    name: str, answer: str, model: Any = None, **facts: Any
) -> Callable[[_Method], _Method]:
    """Describe a resource's method for the document; see ``Operation``."""

    def describe(method: _Method) -> _Method:
        method.operation = Operation(name, answer, model, **facts)  # type: ignore[attr-defined]
        return method

    return describe


def operation_of(resource: object, method: str) -> Operation | None:
    """Return the operation that a responder is decorated with; None if it has none."""
    responder = getattr(resource, f"on_{method.lower()}", None)
    return getattr(responder, "operation", None)
