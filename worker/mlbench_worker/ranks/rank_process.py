"""Run a task as a process: parse the command line, report errors, and set the exit code."""

import argparse
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from mlbench import MLBenchError
from mlbench.benchmarks.options import C, OptionError, read
from mlbench.contract.fields import describe
from mlbench.contract.reported_settings import format_value


class DataError(MLBenchError):
    """A data set is missing or malformed, or does not fit the options."""


def parse(config: type[C], argv: Sequence[str] | None = None) -> C:
    """Parse ``argv``, by default the arguments of this process, into options.

    A field ``learning_rate`` is the option ``--learning-rate`` or ``--learning_rate``.

    Raises:
        SystemExit: code 2 after a message on stderr that names the option and its valid values;
            code 0 after ``--help``.
    """
    parser = argparse.ArgumentParser(description=inspect.getdoc(config), allow_abbrev=False)
    for name, option in describe(config).items():
        values = "|".join(map(format_value, option.choices)) or option.kind.__name__.upper()
        text = f"{option.description} (default: {format_value(option.default)})"
        # argparse expands percent signs.
        parser.add_argument(_flag(name), metavar=values, help=text.replace("%", "%%"))
    arguments = []
    for argument in sys.argv[1:] if argv is None else argv:
        name, equals, value = argument.partition("=")
        is_option = name.startswith("--")
        arguments.append(name.replace("_", "-") + equals + value if is_option else argument)
    namespace, unknown = parser.parse_known_args(arguments)
    if unknown:
        flags = ", ".join(map(_flag, describe(config)))
        parser.error(f"unknown option {unknown[0]}; the options are {flags}")
    texts = {name: text for name, text in vars(namespace).items() if text is not None}
    try:
        return read(config, texts)
    except OptionError as error:
        parser.error(f"{_flag(error.option)} {error.problem}")


def run(main: Callable[[C], None], config: type[C]) -> NoReturn:
    """Run a task with the options of this process, and exit with 0, or with 1 after an error.

    The process ends without shutting down the interpreter. During a shutdown, threads of gloo that
    wait for its lock can abort the process, as in one of ten runs on a busy machine.

    Raises:
        SystemExit: the options are wrong (code 2), or include ``--help`` (code 0).
    """
    options = parse(config)
    code = 1
    try:
        main(options)
        code = 0
    except MLBenchError as error:
        # The message explains the problem; a traceback would not help.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    except Exception:
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
