"""A task as a process: its options on the command line, its errors, its exit code."""

import argparse
import ast
import dataclasses
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from mlbench import MLBenchError

_PERCENT = 100.0


class DataError(MLBenchError):
    """A data set is missing or malformed, or does not suit the options."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The base of all options. A value that breaks a rule is a ValueError with its sentence."""

    def _rules(self) -> dict[str, bool]:
        """Return each rule as a sentence, and whether it holds. Subclasses add their own."""
        return {}

    def __post_init__(self) -> None:
        for sentence, holds in self._rules().items():
            if not holds:
                raise ValueError(sentence)


C = TypeVar("C", bound=Options)


@dataclasses.dataclass(frozen=True)
class TrainingOptions(Options):
    """The hyper-parameters of every training by SGD; a task sets the defaults."""

    goal: float = _PERCENT
    """Validation accuracy in percent at which the training ends."""
    epochs: int = 1
    """Epochs after which the training ends short of the goal."""
    learning_rate: float = 0.1
    """Step size."""
    seed: int = 0
    """Start of all random numbers: the same seed on as many workers gives the same losses."""

    def _rules(self) -> dict[str, bool]:
        return super()._rules() | {
            "--goal must be from 0 to 100": 0 <= self.goal <= _PERCENT,
            "--epochs must be at least 1": self.epochs >= 1,
            "--learning-rate must be more than 0": 0 < self.learning_rate < float("inf"),
            "--seed must be from 0 to 4294967295": 0 <= self.seed < 2**32,
        }


@dataclasses.dataclass(frozen=True)
class MomentumOptions(TrainingOptions):
    """The hyper-parameters of SGD with momentum and weight decay."""

    momentum: float = 0.9
    """Share of the last update that the next one keeps."""
    weight_decay: float = 1e-4
    """Pull of all parameters towards zero."""

    def _rules(self) -> dict[str, bool]:
        return super()._rules() | {
            "--momentum must be at least 0 and less than 1": 0 <= self.momentum < 1,
            "--weight-decay must be at least 0": 0 <= self.weight_decay < float("inf"),
        }


def parse(config: type[C], argv: Sequence[str] | None = None) -> C:
    """Return a ``config`` with the values of ``argv``, by default the process's own arguments.

    A field ``learning_rate: float = 0.1`` is the option ``--learning-rate 0.1``, also spelled with
    underscores. A field has a default and a type: bool (``true`` or ``false``), a ``Literal`` of
    texts or numbers, or a type that a text can be converted to (int, float, str). The text under a
    field is its help; a class that only changes the default inherits the text.

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


def run(main: Callable[[C], None], config: type[C]) -> NoReturn:
    """Run a task with the options of this process, and exit with 0, or with 1 after an error.

    The process ends at once. If the interpreter were shut down first, threads of gloo that still
    wait for its lock could abort the process: that happened in one of ten runs on a busy machine.

    Raises:
        SystemExit: the options are wrong (code 2), or ``--help`` was asked for (0).
    """
    chosen = parse(config)
    code = 1
    try:
        main(chosen)
        code = 0
    except MLBenchError as error:
        # The message says what is wrong; a traceback would not help.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    except Exception:
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _how_to_read(kind: Any) -> dict[str, Any]:
    """Return argparse's arguments for a type."""
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
    """Return the text under each field. Python drops it, so it is read from the source."""
    found: dict[str, str] = {}
    for base in reversed(config.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field, below in zip(definition.body, definition.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = text
    return found
