"""The entry of a task: a process that parses the options, trains, and ends."""

import os
import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

from mlbench import MLBenchError
from worker.training import options

C = TypeVar("C", bound=options.Dataclass)


def run(main: Callable[[C], None], config: type[C]) -> NoReturn:
    """Run a task with the options of this process, and end the process: 0, or 1 after an error.

    It ends at once. Were the interpreter taken down first, threads of gloo that are still about to
    take its lock would abort the process: in one of ten runs on a busy machine, after all was done.

    Raises:
        SystemExit: the options are wrong (code 2), or ``--help`` was asked for (0).
    """
    chosen = options.parse(config)
    code = 0
    try:
        main(chosen)
    except MLBenchError as error:
        # What is wrong is in its text; where it was noticed helps nobody.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        code = 1
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
