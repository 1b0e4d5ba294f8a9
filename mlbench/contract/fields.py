"""Fields: one description of each, in its annotation, from which everything else is derived.

``epochs: Annotated[int, Field(ge=1)]`` has type and bounds; the docstring below it is its sentence.
The conversion of requests, the OpenAPI document, the help of commands and the form on the web page
use them. Agents import this module, so it uses only the standard library. msgspec's ``Meta`` would
not do: the client would apply the bounds to records, which may come from other versions.
"""

import dataclasses
import inspect
import operator
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

# A class, or a field with its docstring, as ruff formats them.
_SENTENCES = re.compile(
    r'^class (\w+)|^ {4}(\w+): .*\n(?: {4}[ )\]].*\n)*? {4}"""((?s:.*?))"""$', re.MULTILINE
)
# The bounds in words, and their tests.
_BOUNDS: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "gt": ("more than", operator.gt),
    "ge": ("at least", operator.ge),
    "lt": ("less than", operator.lt),
    "le": ("at most", operator.le),
}
NO_NUL = r"^[^\x00]*$"
"""Pattern of strings without NUL, which neither PostgreSQL nor command lines accept."""


@dataclass(frozen=True)
class Field:
    """The description of a field, or the part of it that an annotation adds."""

    unit: str = ""
    """Unit of the number; empty if it has no unit."""
    ge: float | None = None
    """Minimum; None without one."""
    gt: float | None = None
    """Exclusive minimum; None without one."""
    le: float | None = None
    """Maximum; None without one."""
    lt: float | None = None
    """Exclusive maximum; None without one."""
    pattern: str = ""
    """Regular expression for the whole string; empty without one."""
    min_length: int = 0
    """Minimum number of characters or entries."""
    max_length: int | None = None
    """Maximum number of characters or entries; None without one."""
    example: Any = dataclasses.field(default=None, hash=False)
    """Example of a value; None without one."""
    schema: Mapping[str, Any] | None = dataclasses.field(default=None, hash=False)
    """Further keywords of the JSON schema; None without any."""
    type: Any = dataclasses.field(default=None, compare=False, repr=False)
    """Annotated type of the values; ``describe`` fills it in, as the facts below."""
    default: Any = dataclasses.field(default=None, hash=False)
    """Default; None also for a required field and a field with a factory of defaults."""
    required: bool = False
    """Whether the field has no default."""
    record: Any = dataclasses.field(default=None, compare=False, repr=False)
    """The dataclass that has the field."""
    name: str = dataclasses.field(default="", compare=False)
    """Name in the dataclass."""

    @property
    def description(self) -> str:
        """The docstring below the field, or below the field of a base class that it redefines."""
        for base in self.record.__mro__[:-1]:
            if sentence := _sentences_of(base.__module__).get((base.__name__, self.name)):
                return sentence
        return ""

    @property
    def sentence(self) -> str:
        """Description with the unit."""
        return f"{self.description[:-1]}, in {self.unit}." if self.unit else self.description

    @property
    def kind(self) -> Any:
        """Type of the values without None and annotations."""
        kind = self.type
        while get_origin(kind) in (Annotated, Union, UnionType):
            kind = next(part for part in get_args(kind) if part is not NoneType)
        return kind

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers."""
        return self.kind in (int, float)

    @property
    def is_whole(self) -> bool:
        """Whether the values are integers."""
        return self.kind is int

    @property
    def choices(self) -> tuple[Any, ...]:
        """Allowed values; empty if any number or string is allowed."""
        if self.kind is bool:
            return (True, False)
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def bounds(self) -> str:
        """Bounds in words, such as ``from 0 to 100``; empty without bounds."""
        if self.ge is not None and self.le is not None:
            return f"from {self.ge:.15g} to {self.le:.15g}"
        return " and ".join(f"{_BOUNDS[name][0]} {x:.15g}" for name, x in self._limits.items())

    @cached_property
    def _limits(self) -> Mapping[str, float]:
        limits = {name: getattr(self, name) for name in _BOUNDS}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def check(self, value: Any) -> Any:
        """Return a value that the description allows; raise ValueError for any other."""
        if isinstance(value, int | float):
            if not all(_BOUNDS[name][1](value, limit) for name, limit in self._limits.items()):
                raise ValueError(f"must be {self.bounds}")
        elif isinstance(value, str | list | dict):
            unit = "characters" if isinstance(value, str) else f"entries (got {len(value)})"
            if len(value) < self.min_length:
                raise ValueError(f"must have at least {self.min_length} {unit}")
            if self.max_length is not None and len(value) > self.max_length:
                raise ValueError(f"must have at most {self.max_length} {unit}")
            if isinstance(value, str) and self.pattern and not re.fullmatch(self.pattern, value):
                is_nul = self.pattern == NO_NUL
                raise ValueError("must not contain NUL" if is_nul else f"must match {self.pattern}")
        return value

    def merge(self, addition: "Field") -> "Field":
        """Return the description with what an addition states."""
        facts = {
            fact.name: value
            for part in (self, addition)
            for fact in dataclasses.fields(part)
            if fact.compare and (value := getattr(part, fact.name)) != fact.default
        }
        kind = type(addition) if isinstance(addition, type(self)) else type(self)
        return kind(**facts)


@dataclass(frozen=True)
class Before:
    """A function that prepares a received value, before its type is checked.

    Other functions in an annotation get the converted value, and return the value to store.
    """

    prepare: Callable[[Any], Any]
    received: Any = None
    """Annotated type of the value in a request; None for the type of the field."""


def describe(record: type) -> Mapping[str, Field]:
    """Return the fields of a dataclass. A redefined field inherits what it does not state."""
    return _describe(record)


@cache
def _describe(record: Any) -> Mapping[str, Field]:
    described: dict[str, Field] = {}
    defaults = {field.name: field for field in dataclasses.fields(record)}
    for base in reversed(record.__mro__):
        hints = get_type_hints(base, include_extras=True)
        for name in inspect.get_annotations(base).keys() & defaults.keys():
            steps = getattr(hints[name], "__metadata__", ())
            field = described.get(name, Field())
            for step in steps:
                field = field.merge(step) if isinstance(step, Field) else field
            others = [step for step in steps if not isinstance(step, Field)]
            plain = hints[name].__origin__ if steps else hints[name]
            default, factory = defaults[name].default, defaults[name].default_factory
            described[name] = dataclasses.replace(
                field,
                type=Annotated[(plain, field, *others)],
                default=None if default is MISSING else default,
                required=default is factory is MISSING,
                record=record,
                name=name,
            )
    return {name: described[name] for name in defaults}


@cache
def _sentences_of(module: str) -> Mapping[tuple[str, str], str]:
    """Return the docstrings of the fields in a module, which Python drops, by class and field."""
    sentences, record = {}, ""
    for class_name, field, text in _SENTENCES.findall(inspect.getsource(sys.modules[module])):
        record = class_name or record
        if field:
            sentences[record, field] = inspect.cleandoc(text)
    return sentences
