"""A task's options: a frozen dataclass on the command line, one ``--option`` for each field."""

import argparse
import ast
import dataclasses
import inspect
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar, get_type_hints


class Dataclass(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


C = TypeVar("C", bound=Dataclass)


def parse(config: type[C], argv: Sequence[str] | None = None) -> C:
    """Return a ``config`` with the values of ``argv`` (by default the process's own arguments).

    A field ``learning_rate: float = 0.1`` is the option ``--learning-rate 0.1``; with underscores
    it is understood too. Each field has a default and a type that can be called with a text (int,
    float, str). The text under a field is its help. To refuse a value, a config's
    ``__post_init__`` calls `check`.

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
            type=types[field.name],
            default=field.default,
            metavar=types[field.name].__name__.upper(),
            # argparse fills in what follows a percent sign.
            help=sentences.get(field.name, "").replace("%", "%%"),
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


def check(rules: Mapping[str, bool]) -> None:
    """Check a config's values: ``rules`` says of each sentence whether it holds.

    Raises:
        ValueError: the first sentence that does not hold.
    """
    for sentence, holds in rules.items():
        if not holds:
            raise ValueError(sentence)


def _option(field: str) -> str:
    return "--" + field.replace("_", "-")


def _dashed(argument: str) -> str:
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value


def _sentences(config: type) -> dict[str, str]:
    """Return the text under each field: Python drops it, so it is read from the source."""
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
