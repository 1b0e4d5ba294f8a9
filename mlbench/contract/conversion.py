"""Conversion of JSON, forms and command lines into the types that fields are annotated with."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from mlbench.contract.errors import MLBenchError
from mlbench.contract.fields import Before, Field, describe
from mlbench.contract.reported_settings import format_value
from mlbench.contract.series import EXACT_INTEGERS

T = TypeVar("T")
_Reader = Callable[[Any], Any]

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_BOOLEANS = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)


class InvalidFieldsError(MLBenchError, ValueError):
    """Fields are invalid. ``problems`` has the path of each, such as ``args.lr``, and its problem.

    The path is empty for the whole value.
    """

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        message = "; ".join(f"{path or 'body'}: {text}" for path, text in self.problems)
        # Names of fields may contain half of a surrogate pair, which cannot be sent.
        super().__init__(message.encode(errors="backslashreplace").decode())


def convert(type_: type[T], value: Any) -> T:
    """Return a value of JSON, a form or a command line as a value of a type.

    Strings may hold numbers, booleans, and JSON objects and lists, because forms have only strings.
    The constructor of a dataclass may raise ValueErrors that begin with the name of a field.

    Raises:
        InvalidFieldsError: the value does not fit the type. The message has all invalid fields.
    """
    try:
        return cast("T", _reader_of(cast("Any", type_))(value))
    except ValueError as error:
        raise InvalidFieldsError(_problems("", value, error)) from None


def _problems(name: str, value: Any, error: ValueError) -> Iterator[tuple[str, str]]:
    """Yield path and problem of each fault in the field or entry with this name."""
    if isinstance(error, InvalidFieldsError):
        for path, problem in error.problems:
            yield f"{name}.{path}" if name and path else name or path, problem
        return
    # The value follows the problem, and precedes a sentence with advice.
    problem, *advice = re.split(r"(?=\. [A-Z])", str(error), maxsplit=1)
    got = "" if "(got " in problem else f" (got {str(value)[:80]!r})"
    yield name, f"{problem}{got}{''.join(advice)}"


def _convert_all(items: Iterable[tuple[str, _Reader, Any]]) -> dict[str, Any]:
    """Return the converted values by name; raise the problems of all values at once."""
    values: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for name, read, value in items:
        try:
            values[name] = read(value)
        except ValueError as error:
            problems += _problems(name, value, error)
    if problems:
        raise InvalidFieldsError(problems)
    return values


@cache
def _reader_of(type_: Any) -> _Reader:
    """Return the function that converts values to a type, and raises ValueErrors."""
    origin, parts = get_origin(type_), get_args(type_)
    read: _Reader
    if origin is Annotated:
        before = [
            (_reader_of(step.received or Any), step.prepare)
            for step in parts[1:]
            if isinstance(step, Before)
        ]
        after = [step.check if isinstance(step, Field) else step for step in parts[1:]]
        read = partial(_read_annotated, before, _reader_of(parts[0]), [*filter(callable, after)])
    elif origin in (Union, UnionType):
        kinds = tuple(part for part in parts if part is not NoneType)
        read = _reader_of(kinds[0]) if len(kinds) == 1 else partial(_read_number_or_string, kinds)
        read = partial(_read_optional, read) if NoneType in parts else read
    elif origin is Literal:
        read = partial(_read_choice, {format_value(choice): choice for choice in parts})
    elif origin in (list, tuple, frozenset):
        read = partial(_read_list, origin, _reader_of(parts[0]))
    elif origin in (dict, Mapping):
        read = partial(_read_object, *map(_reader_of, parts))
    elif is_dataclass(type_):
        fields = describe(cast("type", type_))
        readers = {name: _reader_of(field.type) for name, field in fields.items()}
        required = [name for name, field in fields.items() if field.required]
        read = partial(_read_record, type_, readers, required)
    else:
        read = _READERS[type_]
    return read


def _read_annotated(
    before: Sequence[tuple[_Reader, _Reader]], read: _Reader, after: Sequence[_Reader], value: Any
) -> Any:
    for read_received, prepare in before:
        value = prepare(read_received(value))
    value = read(value)
    if value is not None:
        for step in after:
            value = step(value)
    return value


def _read_optional(read: _Reader, value: Any) -> Any:
    return None if value is None else read(value)


def _read_number_or_string(kinds: tuple[type, ...], value: Any) -> Any:
    if isinstance(value, kinds) and not isinstance(value, bool):
        return value
    raise ValueError("must be a number or a string")


def _read_choice(choices: Mapping[str, Any], value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    if text in choices:
        return choices[text]
    *others, last = choices
    raise ValueError(f"must be {', '.join(others)}{' or ' if others else ''}{last}")


def _read_list(kind: Callable[[Iterable[Any]], Any], read_entry: _Reader, value: Any) -> Any:
    entries = _parse(value, list, "must be a list")
    items = ((str(place), read_entry, entry) for place, entry in enumerate(entries))
    return kind(_convert_all(items).values())


def _read_object(read_key: _Reader, read_value: _Reader, value: Any) -> dict[str, Any]:
    entries = _parse(value, dict, "must be a JSON object")
    _convert_all((key, read_key, key) for key in entries)
    return _convert_all((key, read_value, entry) for key, entry in entries.items())


def _read_record(
    record: Any, readers: Mapping[str, _Reader], required: Sequence[str], value: Any
) -> Any:
    if isinstance(value, record):
        return value
    entries = _parse(value, dict, "must be a JSON object")
    problems = [(name, "required field is missing") for name in required if name not in entries]
    problems += [(name[:80], "unknown field") for name in entries if name not in readers]
    try:
        known = ((name, readers[name], entry) for name, entry in entries.items() if name in readers)
        values = _convert_all(known)
        if not problems:
            return record(**values)
    except InvalidFieldsError as error:
        problems += error.problems
    except ValueError as error:
        name, _, problem = str(error).partition(": ")
        problems.append((name, problem))
    raise InvalidFieldsError(problems)


def _parse(value: Any, kind: type[T], problem: str) -> T:
    """Return a list or object, which may be a string with JSON; raise ValueError for others."""
    with suppress(ValueError, RecursionError):
        value = json.loads(value) if isinstance(value, str) else value
    if not isinstance(value, kind):
        raise ValueError(problem)
    return value


def _read_boolean(value: Any) -> bool:
    found = _BOOLEANS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise ValueError("must be true or false")
    return found


def _is_plain(value: Any) -> bool:
    """Check that a number is not in a notation that only Python has, such as ``1_000``."""
    return not isinstance(value, str) or (value.isascii() and "_" not in value)


def _read_whole(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_INTEGERS:
        return int(value)
    try:
        return int(value if isinstance(value, str) and _is_plain(value) else "")
    except ValueError:  # also for thousands of digits
        raise ValueError("must be a whole number") from None


def _read_number(value: Any) -> float:
    try:
        number = float(value if _is_plain(value) and not isinstance(value, bool) else "")
    except (TypeError, ValueError):
        raise ValueError("must be a number") from None
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("must be a finite number")
    return number


def _read_string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return value


def _read_time(value: Any) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError("must be a time such as 2018-08-03T09:21:29.347Z") from None


_READERS: Mapping[Any, _Reader] = {
    **{Any: lambda value: value, bool: _read_boolean, int: _read_whole},
    **{float: _read_number, str: _read_string, datetime: _read_time, Path: Path},
}


def parse_whole_number(text: str) -> int | None:
    """Return a string as a whole number; None if it is not one, or does not fit 64 bits."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= 18
    return int(text) if is_number else None
