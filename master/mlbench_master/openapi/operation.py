"""Operations of resources: their query parameters and responses, for OpenAPI and validation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import wraps
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar, cast, get_origin

from falcon import Request, Response

from mlbench.contract.conversion import convert
from mlbench.contract.fields import describe
from mlbench_master.errors import BadFieldError

_Method = TypeVar("_Method", bound=Callable[..., None])
_Query = TypeVar("_Query")
Schema = Mapping[str, Any]


class Route(NamedTuple):
    """A path, and the resource that serves it."""

    path: str
    resource: object
    suffix: str | None = None
    """Suffix of the resource's methods for this path, e.g. ``counts`` for ``on_get_counts``."""


@dataclass(frozen=True)
class NoQuery:
    """The parameters of an operation that does not have any."""


@dataclass(frozen=True)
class Operation:
    """A method of a route. The docstring of the method is its summary and description."""

    name: str
    """The ``operationId``, also the key in ``examples.json``."""
    answer: str
    """Description of a successful response."""
    model: Any = None
    """Record, or type made of records, of the JSON response; None for other responses."""
    query: type = NoQuery
    """Dataclass of the query parameters."""
    status: int = HTTPStatus.OK
    accepted: str = ""
    """Description of the response 202, which has no content; empty without such a response."""
    files: Mapping[str, Schema] = field(default_factory=dict)
    """Schemas of responses that are not JSON, by media type."""
    body: Any = None
    """Dataclass, or type made of dataclasses, of the request's body; or ``bytes``."""
    form: bool = False
    """Whether the body can also be a form."""
    errors: tuple[int, ...] = ()
    """Statuses of further errors; 404 of paths with variables and 413 of bodies are implied."""


def operation(
    name: str, answer: str, model: Any = None, **facts: Any
) -> Callable[[_Method], _Method]:
    """Describe a method of a resource (see ``Operation``).

    The method's argument ``query`` gets the query parameters. They are the fields of the dataclass
    that annotates it.
    """

    def describe_method(method: _Method) -> _Method:
        query = method.__annotations__.get("query", NoQuery)
        described = Operation(name, answer, model, query, **facts)

        @wraps(method)
        def respond(self: Any, req: Request, resp: Response, **variables: Any) -> None:
            parameters = read_query(req, query)
            arguments = {} if query is NoQuery else {"query": parameters}
            resp.status = described.status
            method(self, req, resp, **arguments, **variables)

        respond.operation = described  # type: ignore[attr-defined]
        return cast("_Method", respond)

    return describe_method


def read_query(req: Request, kind: type[_Query]) -> _Query:
    """Return the query parameters of a request. A misspelt parameter is not ignored.

    Raises:
        BadFieldError: a parameter is unknown.
        InvalidFieldsError: values are invalid.
    """
    fields = describe(kind)
    values: dict[str, Any] = {}
    for name, value in req.params.items():
        if name not in fields:
            advice = f"Use {', '.join(fields)}." if fields else "This request takes none."
            if close := get_close_matches(name, fields, n=1):
                advice = f"Did you mean {close[0]}?"
            raise BadFieldError(name, f"unknown parameter. {advice}")
        values[name] = [value] if isinstance(value, str) else value
        if get_origin(fields[name].kind) is not list:
            values[name] = ",".join(values[name])  # repeated lists are joined
    return convert(kind, values)
