"""Options of benchmarks: dataclasses that are parsed and validated by the master and the task.

Each field has a default and a type: bool, int, float, str, or a ``Literal`` of texts or numbers.
``Meta`` in its annotation sets bounds. The closed division allows only the default, unless the
annotation has ``FREE`` or ``ruled``. The docstring of a field is its help. A subclass that only
changes the default inherits it.
"""

import ast
import dataclasses
import inspect
import operator
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from threading import Lock
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Meta

from mlbench.contract.reported_settings import Setting, format_value, is_setting

FREE = Meta(extra={"closed": None})
"""Any value is allowed in the closed division: hardware, systems, or how much is measured."""


def ruled(*others: Setting) -> Meta:
    """Return metadata that allows these values in the closed division, besides the default."""
    return Meta(extra={"closed": others})


# CPython 3.11 may raise SystemError if two threads parse source code at the same time.
_PARSING = Lock()
_WORDS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}


class OptionError(ValueError):
    """An option is unknown, or its value is not allowed."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option} {problem}")
        self.option = option
        self.problem = problem


@dataclass(frozen=True)
class Options:
    """The base class of all options. Creating one raises an OptionError for a broken rule."""

    def _rules(self) -> dict[str, bool]:
        """Return each rule on several options, with whether it holds. Subclasses add rules.

        The first word of a rule is the option at fault.
        """
        return {}

    @classmethod
    def implied(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the defaults that follow from other options and replace those of the class."""
        return {}

    def __post_init__(self) -> None:
        bounds = {
            f"{option.name} must be {option.bounds}": option.is_within(getattr(self, option.name))
            for option in describe(type(self))
        }
        for rule, holds in (bounds | self._rules()).items():
            if not holds:
                option, _, problem = rule.partition(" ")
                raise OptionError(option, problem)


C = TypeVar("C", bound=Options)


@dataclass(frozen=True)
class Described:
    """The description of an option."""

    name: str
    default: Any
    help: str
    kind: Any
    """Type of the values, or a ``Literal``."""
    metas: tuple[Meta, ...]
    """Metadata of the annotation: bounds, and the rule of the closed division."""

    @property
    def limits(self) -> dict[str, float]:
        """Bounds, by the names of Python's operators, such as ``ge``."""
        return {
            name: bound
            for meta in self.metas
            for name in _WORDS
            if (bound := getattr(meta, name)) is not None
        }

    @property
    def bounds(self) -> str:
        """Bounds in words, such as ``from 0 to 100``."""
        match self.limits:
            case {"ge": least, "le": most}:
                return f"from {least} to {most}"
            case limits:
                return " and ".join(f"{_WORDS[name]} {bound}" for name, bound in limits.items())

    def is_within(self, value: Any) -> bool:
        """Check that a value is within the bounds."""
        limits = self.limits.items()
        return all(getattr(operator, name)(value, bound) for name, bound in limits)

    @property
    def permitted(self) -> tuple[Setting, ...] | None:
        """Values that the closed division allows, the default first; None if it allows any."""
        closed = [meta.extra["closed"] for meta in self.metas if meta.extra] or [()]
        return None if closed[-1] is None else (self.default, *closed[-1])

    @property
    def choices(self) -> tuple[Any, ...]:
        """Allowed values; empty if any number or string is allowed."""
        if self.kind is bool:
            return (True, False)
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    def read(self, text: str) -> Any:
        """Return the value in a text. Raises OptionError if there is no valid value."""
        if self.choices:
            for choice in self.choices:
                if text == format_value(choice):
                    return choice
            raise OptionError(
                self.name, f"must be {' or '.join(map(format_value, self.choices))} (not {text!r})"
            )
        try:
            value = self.kind(text)
        except ValueError:
            kind = "a whole number" if self.kind is int else "a number"
            raise OptionError(self.name, f"must be {kind} (not {text!r})") from None
        if not is_setting(value):  # the run could not report it as a setting
            raise OptionError(self.name, f"must be finite, and below 2^63 if whole (not {text!r})")
        return value


def describe(config: type[Options]) -> tuple[Described, ...]:
    """Return all options of a class, in their order."""
    kinds = get_type_hints(config)
    annotations = get_type_hints(config, include_extras=True)
    docstrings: dict[str, str] = {}
    for base in reversed(config.__mro__):
        if dataclasses.is_dataclass(base):
            docstrings |= _field_docstrings(base)
    return tuple(
        Described(
            name=field.name,
            default=field.default,
            help=docstrings.get(field.name, ""),
            kind=kinds[field.name],
            metas=getattr(annotations[field.name], "__metadata__", ()),
        )
        for field in dataclasses.fields(config)
    )


def read(config: type[C], texts: Mapping[str, str]) -> C:
    """Return options with these values; a name may have hyphens for underscores.

    Raises:
        OptionError: there is no such option, a text does not spell a value, or a rule is broken.
    """
    options = {option.name: option for option in describe(config)}
    values = {}
    for written_name, text in texts.items():
        name = written_name.replace("-", "_")
        if name not in options:
            close = get_close_matches(name, options, n=1)
            # Such as learning_rate for lr or rate.
            similar = close or [
                option
                for option in options
                if name == "".join(word[0] for word in option.split("_"))
                or (len(name) > 2 and (name in option or option in name))
            ]
            hint = f"do you mean {similar[0]}?" if similar else f"there are {', '.join(options)}"
            raise OptionError(written_name, f"is not an option of this task: {hint}")
        values[name] = options[name].read(text)
    return config(**config.implied(values) | values)


@cache  # parsing takes milliseconds, and every submitted run needs the result
def _field_docstrings(config: type) -> dict[str, str]:
    """Return the docstrings of a class's own fields, from its source, because Python drops them."""
    with _PARSING:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(config))).body
    assert isinstance(definition, ast.ClassDef)
    docstrings: dict[str, str] = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docstrings[name] = text
    return docstrings
