"""A task's options: a frozen dataclass on the command line, one ``--option`` for each field."""

import argparse
import ast
import dataclasses
import inspect
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_args, get_origin, get_type_hints


class Dataclass(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


C = TypeVar("C", bound=Dataclass)


@dataclasses.dataclass(frozen=True)
class Options:
    """The base of all options: an instance keeps its rules, or is not made."""

    def rules(self) -> dict[str, bool]:
        """Return sentences that must hold, and whether they do. Subclasses add theirs."""
        return {}

    def __post_init__(self) -> None:
        """Check the rules.

        Raises:
            ValueError: the first sentence that does not hold.
        """
        for sentence, holds in self.rules().items():
            if not holds:
                raise ValueError(sentence)


def parse(config: type[C], argv: Sequence[str] | None = None) -> C:
    """Return a ``config`` with the values of ``argv`` (by default the process's own arguments).

    A field ``learning_rate: float = 0.1`` is the option ``--learning-rate 0.1``; with underscores
    it is understood too. Each field has a default and a type: bool (``true`` or ``false``), a
    ``Literal`` of texts or numbers, or one that can be called with a text (int, float, str). The
    text under a field is its help. Fields and texts of base classes count too, so a field that is
    given again for another default needs no new text.

    Raises:
        SystemExit: code 2 with a message on stderr that names the option and the known ones;
            code 0 after ``--help``.
    """
    parser = argparse.ArgumentParser(
        description=inspect.getdoc(config),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    types, sentences = get_type_hints(config), _sentences(config)
    for field in dataclasses.fields(config):
        parser.add_argument(
            _option(field.name),
            default=field.default,
            # argparse fills in what follows a percent sign.
            help=sentences.get(field.name, "").replace("%", "%%"),
            **_how_to_read(types[field.name]),
        )
    given = sys.argv[1:] if argv is None else argv
    values, unknown = parser.parse_known_args([_dashed(argument) for argument in given])
    if unknown:
        known = ", ".join(_option(field.name) for field in dataclasses.fields(config))
        parser.error(f"unknown option {unknown[0]}; the options are {known}")
    try:
        return config(**vars(values))
    except ValueError as error:
        parser.error(str(error))


def as_settings(config: Dataclass) -> dict[str, Any]:
    """Return each option with its value, for the run to record."""
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


def _how_to_read(kind: Any) -> dict[str, Any]:
    """Return what argparse needs to know of a type."""
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        return {"type": type(choices[0]), "choices": choices}
    if kind is bool:
        return {"type": _truth, "metavar": "true|false"}
    return {"type": kind, "metavar": kind.__name__.upper()}


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"true or false (not {text!r})")
    return text == "true"


def _option(field: str) -> str:
    return "--" + field.replace("_", "-")


def _dashed(argument: str) -> str:
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value


def _sentences(config: type) -> dict[str, str]:
    """Return the text under each field: Python drops it, so it is read from the source."""
    found: dict[str, str] = {}
    for base in reversed(config.__mro__):
        if dataclasses.is_dataclass(base):
            found |= _own_sentences(base)
    return found


def _own_sentences(config: type) -> dict[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(config))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = text
    return found
