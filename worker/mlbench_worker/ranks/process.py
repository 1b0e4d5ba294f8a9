"""A task as a process: its options on the command line, its errors, its exit code."""

import argparse
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from mlbench import MLBenchError
from mlbench.benchmarks.options import C, OptionError, describe, read
from mlbench.contract.stated import spell


class DataError(MLBenchError):
    """A data set is missing or malformed, or does not suit the options."""


def parse(config: type[C], argv: Sequence[str] | None = None) -> C:
    """Return options with the values of ``argv``, by default the process's own arguments.

    A field ``learning_rate`` is the option ``--learning-rate``, also spelled with underscores.

    Raises:
        SystemExit: code 2 with a message on stderr that names the option and what would be right;
            code 0 after ``--help``.
    """
    parser = argparse.ArgumentParser(description=inspect.getdoc(config), allow_abbrev=False)
    for option in describe(config):
        values = "|".join(map(spell, option.choices)) or option.kind.__name__.upper()
        text = f"{option.help} (default: {spell(option.default)})"
        # argparse fills in what follows a percent sign.
        parser.add_argument(_flag(option.name), metavar=values, help=text.replace("%", "%%"))
    given = [_with_hyphens(argument) for argument in (sys.argv[1:] if argv is None else argv)]
    namespace, unknown = parser.parse_known_args(given)
    if unknown:
        flags = ", ".join(_flag(option.name) for option in describe(config))
        parser.error(f"unknown option {unknown[0]}; the options are {flags}")
    texts = {name: text for name, text in vars(namespace).items() if text is not None}
    try:
        return read(config, texts)
    except OptionError as error:
        parser.error(f"{_flag(error.option)} {error.problem}")


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


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _with_hyphens(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else argument
