"""Query parameters: how the document describes each, and how its value is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from falcon import Request

from mlbench_master import times
from mlbench_master.errors import BadFieldError
from mlbench_master.fields import parse_whole_number

Schema = Mapping[str, Any]
_Value = TypeVar("_Value")

# The largest number that the API reads in a path or a query.
_LARGEST = 10**18 - 1
_TRUTH_VALUES = {"true": True, "false": False}


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

    def read(self, req: Request) -> _Value:
        """Return the value in a request, or the default."""
        text = req.get_param(self.name)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except (ValueError, LookupError) as error:
            problem = f"{self.must_be} (not {text[:80]!r})" if self.must_be else str(error)
            raise BadFieldError(self.name, problem) from None


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
    must_be = "a time like 2018-08-03T09:21:29.347Z"
    return Parameter(name, schema, description, times.parse, default, must_be, example)


def text(name: str, description: str, example: str) -> Parameter[str | None]:
    """Return a parameter that is looked for in the database."""

    def parse(given: str) -> str:
        if "\0" in given:
            raise ValueError("a text without NUL")
        return given

    return Parameter(name, {"type": "string"}, description, parse, None, example=example)
