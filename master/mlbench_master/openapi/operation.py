"""Operations of resources: parameters and responses, for validation and the OpenAPI document."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import wraps
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar, cast

from falcon import Request, Response

from mlbench.contract.conversion import parse_whole_number
from mlbench_master import timestamps
from mlbench_master.errors import BadFieldError

_Method = TypeVar("_Method", bound=Callable[..., None])
_Value = TypeVar("_Value")
Schema = Mapping[str, Any]


class Route(NamedTuple):
    """A path, and the resource that serves it."""

    path: str
    resource: object
    suffix: str | None = None
    """Suffix of the resource's methods for this path, e.g. ``counts`` for ``on_get_counts``."""


@dataclass(frozen=True)
class Parameter(Generic[_Value]):
    """A query parameter."""

    name: str
    schema: Schema
    description: str
    parse: Callable[[str], _Value]
    """Parses the value. Raises ValueError or LookupError for an invalid string."""
    default: _Value
    must_be: str = ""
    """Rest of the error message after "must be"; empty to use the error of ``parse``."""
    example: Any = None
    required: bool = False
    alias: str = ""
    """Another name of the parameter; empty for none."""

    def read(self, req: Request) -> _Value:
        """Return the parameter's value in a request, or its default."""
        text = req.get_param(self.name)
        if text is None and self.alias:
            text = req.get_param(self.alias)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except (ValueError, LookupError) as error:
            problem = f"must be {self.must_be} (got {text[:80]!r})" if self.must_be else str(error)
            raise BadFieldError(self.name, problem) from None


@dataclass(frozen=True)
class Operation:
    """A method of a route. The docstring of the method is its summary and description."""

    name: str
    """The ``operationId``, also the key in ``examples.json``."""
    answer: str
    """Description of a successful response."""
    model: Any = None
    """Record, or type made of records, of the JSON response; None for other responses."""
    status: int = HTTPStatus.OK
    accepted: str = ""
    """Description of the response 202, which has no content; empty without such a response."""
    files: Mapping[str, Schema] = field(default_factory=dict)
    """Schemas of responses that are not JSON, by media type."""
    parameters: tuple[Parameter[Any], ...] = ()
    """Query parameters."""
    body: Any = None
    """Dataclass, or type made of dataclasses, of the request's body; or ``bytes``."""
    form: bool = False
    """Whether the body can also be a form."""
    errors: tuple[int, ...] = ()
    """Statuses of further errors; 404 of paths with variables and 413 of bodies are implied."""


def operation(
    name: str, answer: str, model: Any = None, **facts: Any
) -> Callable[[_Method], _Method]:
    """Describe a method of a resource (see ``Operation``), and refuse unknown query parameters."""
    described = Operation(name, answer, model, **facts)
    allowed = [parameter.name for parameter in described.parameters]
    aliases = [parameter.alias for parameter in described.parameters if parameter.alias]

    def describe(method: _Method) -> _Method:
        @wraps(method)
        def respond(self: Any, req: Request, resp: Response, **variables: Any) -> None:
            for parameter in req.params:
                if parameter not in {*allowed, *aliases}:
                    # A misspelt parameter must not be ignored.
                    advice = f"Use {', '.join(allowed)}." if allowed else "This request takes none."
                    if close := get_close_matches(parameter, allowed, n=1):
                        advice = f"Did you mean {close[0]}?"
                    raise BadFieldError(parameter, f"unknown parameter. {advice}")
            resp.status = described.status
            method(self, req, resp, **variables)

        respond.operation = described  # type: ignore[attr-defined]
        return cast("_Method", respond)

    return describe


# --- Parameters. ---


def whole(
    name: str, description: str, example: Any = None, *, least: int = 0, required: bool = False
) -> Parameter[int | None]:
    """Return a parameter that is a whole number."""

    def parse(text: str) -> int:
        number = parse_whole_number(text)
        if number is None or number < least:
            raise ValueError
        return number

    schema = {"type": "integer", "minimum": least, "maximum": 10**18 - 1}
    must_be = f"a whole number, {least} or more"
    return Parameter(name, schema, description, parse, None, must_be, example, required)


def one_of(
    name: str, choices: tuple[str, ...], description: str, example: Any = None
) -> Parameter[str]:
    """Return a parameter with fixed choices; the default is the first one."""
    schema = {"type": "string", "enum": [*choices], "default": choices[0]}
    must_be = f"one of {', '.join(choices)}"
    parse = dict(zip(choices, choices, strict=True)).__getitem__
    return Parameter(name, schema, description, parse, choices[0], must_be, example)


def flag(name: str, description: str, *, default: bool) -> Parameter[bool]:
    """Return a boolean parameter. Its example is the opposite of the default."""
    schema = {"type": "boolean", "default": default}
    parse = {"true": True, "false": False}.__getitem__
    return Parameter(name, schema, description, parse, default, "true or false", not default)


def moment(name: str, description: str, example: str, default: int) -> Parameter[int]:
    """Return a parameter for a time, in microseconds since 1970."""
    schema = {"type": "string", "format": "date-time"}
    must_be = "a time such as 2018-08-03T09:21:29.347Z"
    return Parameter(name, schema, description, timestamps.parse, default, must_be, example)


def text(name: str, description: str, example: str) -> Parameter[str | None]:
    """Return a string parameter for a search in the database."""
    return parsed(name, description, str, None, example)


def names(name: str, description: str, example: str) -> Parameter[list[str]]:
    """Return a parameter for comma-separated names; the default is an empty list."""
    return parsed(
        name, description, lambda text: [part for part in text.split(",") if part], [], example
    )


def parsed(
    name: str, description: str, read: Callable[[str], _Value], default: _Value, example: str
) -> Parameter[_Value]:
    """Return a parameter with a parser, for a search in the database."""

    def parse(text: str) -> _Value:
        if "\0" in text:
            raise ValueError("must not contain NUL")
        return read(text)

    return Parameter(name, {"type": "string"}, description, parse, default, example=example)
