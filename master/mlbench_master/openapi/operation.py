"""The description of a resource's ``on_get``, ``on_post``… for the OpenAPI document."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import wraps
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar, cast

from falcon import Request, Response
from pydantic import BaseModel

from mlbench_master.errors import BadFieldError
from mlbench_master.parameters import Parameter, Schema

_Method = TypeVar("_Method", bound=Callable[..., None])


class Route(NamedTuple):
    """A path, and what answers at it."""

    path: str
    resource: object
    suffix: str | None = None
    """The end of the names of the resource's methods that answer there, as in ``on_get_counts``."""


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
    parameters: tuple[Parameter[Any], ...] = ()
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
    """Describe a resource's method for the document, and refuse parameters that it does not have.

    See ``Operation``.
    """
    described = Operation(name, answer, model, **facts)
    known = [parameter.name for parameter in described.parameters]

    def describe(method: _Method) -> _Method:
        @wraps(method)
        def respond(self: Any, req: Request, resp: Response, **variables: Any) -> None:
            for given in req.params:
                if given not in known:  # it would be ignored if it is misspelt
                    raise BadFieldError(
                        given, f"no such parameter here{_alternatives(given, known)}"
                    )
            method(self, req, resp, **variables)

        respond.operation = described  # type: ignore[attr-defined]
        return cast("_Method", respond)

    return describe


def _alternatives(name: str, known: list[str]) -> str:
    if close := get_close_matches(name, known, n=1):
        return f"; do you mean {close[0]}?"
    return f"; there are {', '.join(known)}" if known else "; there are none"
