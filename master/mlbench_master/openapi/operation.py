"""What a resource's ``on_get``, ``on_post``… take and answer, for themselves and the document."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import wraps
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar, cast

from falcon import Request, Response

from mlbench_master import times
from mlbench_master.errors import BadFieldError
from mlbench_master.http.fields import parse_whole_number

_Method = TypeVar("_Method", bound=Callable[..., None])
_Value = TypeVar("_Value")
Schema = Mapping[str, Any]

# The largest number that the API reads in a path or a query.
_LARGEST = 10**18 - 1
_TRUTH_VALUES = {"true": True, "false": False}


class Route(NamedTuple):
    """A path, and what answers at it."""

    path: str
    resource: object
    suffix: str | None = None
    """The end of the names of the resource's methods that answer there, as in ``on_get_counts``."""


@dataclass(frozen=True)
class Parameter(Generic[_Value]):
    """A query parameter."""

    name: str
    schema: Schema
    description: str
    parse: Callable[[str], _Value]
    """Raises ValueError, or LookupError, for a wrong text."""
    default: _Value
    must_be: str = ""
    """What a wrong text should have been; empty if the error of ``parse`` says it."""
    example: Any = None
    required: bool = False
    alias: str = ""
    """The name of the parameter in earlier versions, which is read too; empty for none."""

    def read(self, req: Request) -> _Value:
        """Return the value in a request, or the default."""
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
    form: bool = False
    """Whether the body can also be a form with the same fields."""
    errors: tuple[int, ...] = ()
    """Besides those that all routes have, 404 of a path with variables and 413 of a body."""


def operation(
    name: str, answer: str, model: Any = None, **facts: Any
) -> Callable[[_Method], _Method]:
    """Describe a resource's method for the document, and refuse parameters that it does not have.

    See ``Operation``.
    """
    described = Operation(name, answer, model, **facts)
    allowed = [parameter.name for parameter in described.parameters]
    aliases = [parameter.alias for parameter in described.parameters if parameter.alias]

    def describe(method: _Method) -> _Method:
        @wraps(method)
        def respond(self: Any, req: Request, resp: Response, **variables: Any) -> None:
            for given in req.params:
                if given not in {*allowed, *aliases}:  # it would be ignored if it is misspelt
                    raise BadFieldError(
                        given, f"unknown parameter. {_alternatives(given, allowed)}"
                    )
            resp.status = described.status
            method(self, req, resp, **variables)

        respond.operation = described  # type: ignore[attr-defined]
        return cast("_Method", respond)

    return describe


def _alternatives(name: str, known: list[str]) -> str:
    if close := get_close_matches(name, known, n=1):
        return f"Did you mean {close[0]}?"
    return f"Use {', '.join(known)}." if known else "This request takes none."


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

    schema = {"type": "integer", "minimum": least, "maximum": _LARGEST}
    must_be = f"a whole number, {least} or more"
    return Parameter(name, schema, description, parse, None, must_be, example, required)


def one_of(
    name: str, choices: tuple[str, ...], description: str, example: Any = None
) -> Parameter[str]:
    """Return a parameter that has few possible values, by default the first."""
    schema = {"type": "string", "enum": [*choices], "default": choices[0]}
    must_be = f"one of {', '.join(choices)}"
    parse = dict(zip(choices, choices, strict=True)).__getitem__
    return Parameter(name, schema, description, parse, choices[0], must_be, example)


def flag(name: str, description: str, *, default: bool) -> Parameter[bool]:
    """Return a parameter that is true or false; the example is what it is not by default."""
    schema = {"type": "boolean", "default": default}
    parse = _TRUTH_VALUES.__getitem__
    return Parameter(name, schema, description, parse, default, "true or false", not default)


def moment(name: str, description: str, example: str, default: int) -> Parameter[int]:
    """Return a parameter that is a time, in microseconds since 1970."""
    schema = {"type": "string", "format": "date-time"}
    must_be = "a time such as 2018-08-03T09:21:29.347Z"
    return Parameter(name, schema, description, times.parse, default, must_be, example)


def text(name: str, description: str, example: str) -> Parameter[str | None]:
    """Return a parameter that is looked for in the database."""
    return parsed(name, description, str, None, example)


def names(name: str, description: str, example: str) -> Parameter[list[str]]:
    """Return a parameter that is names with commas between them, by default none."""
    return parsed(
        name, description, lambda text: [one for one in text.split(",") if one], [], example
    )


def parsed(
    name: str, description: str, read: Callable[[str], _Value], default: _Value, example: str
) -> Parameter[_Value]:
    """Return a parameter that is a text of some form, and is looked for in the database."""

    def parse(given: str) -> _Value:
        if "\0" in given:
            raise ValueError("must not contain NUL")
        return read(given)

    return Parameter(name, {"type": "string"}, description, parse, default, example=example)
