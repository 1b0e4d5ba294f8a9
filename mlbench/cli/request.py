"""TASK and ARGUMENTS of ``run`` and ``bench``, and the request that they become."""

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from mlbench.cli.command import Command
from mlbench.cli.common import UsageError, err
from mlbench.contract import names, printed_values
from mlbench.contract.limits import MAX_RESOURCE_NAME_LENGTH
from mlbench.contract.names import THIS_MACHINE, UNASKED_BANDWIDTH
from mlbench.contract.runspec import CommonSpec

# UsageError of the click that Typer contains, which has no public name.
_WRONG_CALL: Any = typer.BadParameter.__base__

TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="A benchmark, a file of your own, e.g. ./train.py, or a program with its arguments, "
        "e.g. torchrun train.py. With --image: the first word of a command.",
    ),
]
ArgumentsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARGUMENTS",
        help="Arguments of your own code, after a --. They are passed on unchanged, except for "
        "{rank}, {hosts}, {run_id}, {backend} and {seed}, which are filled in.",
    ),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Option of a benchmark, e.g. epochs=3 (repeatable).",
    ),
]
ImageOption = Annotated[
    str | None,
    typer.Option(
        metavar="IMAGE", help="Run TASK and ARGUMENTS as a command in this image, on a cluster."
    ),
]
QueueOption = Annotated[
    bool, typer.Option("--queue", help="Wait for the active run to end instead of failing.")
]
FromStdoutOption = Annotated[
    bool,
    typer.Option(
        "--from-stdout",
        help="Also record values that your own code prints, such as `epoch 3 loss 0.41`.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Code:
    """The benchmark, script or program that TASK and ARGUMENTS name."""

    title: str
    """Start of the default run name."""
    benchmark: str | None = None
    image: str | None = None
    command: str | None = None
    working_dir: str | None = None
    backend: str | None = None
    """None: the benchmark's own."""

    def with_printed_values(self) -> "Code":
        """Return the code with the request to record printed values, and print their patterns.

        Raises:
            UsageError: a benchmark, which records its values itself.
        """
        if self.command is None:
            raise UsageError("--from-stdout: only for your own code. A benchmark records values.")
        err.print(printed_values.HELP, soft_wrap=True)
        return replace(self, command=f"env {names.ENV_FROM_STDOUT}=1 {self.command}")

    def request_fields(self, spec: CommonSpec, settings: Sequence[str] | None) -> dict[str, Any]:
        """Return the arguments of ``create_run`` and ``create_set`` for this code."""
        if spec.max_bandwidth == UNASKED_BANDWIDTH:
            raise UsageError(
                f"--bandwidth: {UNASKED_BANDWIDTH} means unlimited to the API. "
                f"Use {UNASKED_BANDWIDTH - 1} instead."
            )
        return {
            **vars(spec),
            "benchmark": self.benchmark,
            "custom_image_name": self.image,
            "custom_image_command": self.command,
            "working_dir": self.working_dir,
            "backend": spec.backend or self.backend,
            "args": read_settings(self, settings),
        }


class CodeCommand(Command):
    """A command whose TASK may be a program, such as torchrun, followed by its own arguments.

    Arguments of a file come after a --, because options of MLBench may follow the file. Arguments
    of a program may too, if only options of MLBench are before the --.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert a -- after the name of a program."""
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        values, _, _ = parser.parse_args(args=list(args))
        task, rest = values.get("task"), list(values.get("arguments") or ())
        place = len(args) - len(rest)
        is_program = task and not _is_file(task) and find_program(task)
        if is_program and rest and "--" not in args[:place]:
            args = args if self._are_options(ctx, rest) else [*args[:place], "--", *args[place:]]
        try:
            return super().parse_args(ctx, args)
        except _WRONG_CALL as error:
            if task and hasattr(error, "possibilities"):  # an unknown option
                advice = f"the options of {task} as --set {error.option_name.lstrip('-')}=VALUE"
                if _is_file(task) or "image" in values:
                    advice = f"your script's own options after --: {task} -- {error.option_name}"
                error.message += f"; write {advice}"
            raise

    def _are_options(self, ctx: Any, rest: list[str]) -> bool:
        """Return whether only options of MLBench are before a --."""
        if "--" not in rest:
            return False
        try:
            values, _, _ = self.make_parser(ctx).parse_args(args=rest[: rest.index("--")])
        except _WRONG_CALL:
            return False
        return values.get("task") is None


def find_program(name: str) -> str | None:
    """Return the path of a program in the folder of this Python, or else on $PATH."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return None if os.sep in name else shutil.which(name, path=os.pathsep.join(folders))


def _is_file(task: str) -> bool:
    return os.sep in task or task.endswith(".py") or Path(task).is_file()


def read_code(
    task: str,
    arguments: Sequence[str],
    image: str | None,
    benchmarks: Collection[str],
    *,
    local: bool,
) -> Code:
    """Return the code that TASK and ARGUMENTS name.

    On a ``local`` stack, the command of an image starts in the user's folder, like a file.

    TASK is a file if it contains a slash, ends with .py, or exists and is not a benchmark. It is a
    program, such as torchrun, if it is neither file nor benchmark and has arguments.

    Raises:
        UsageError: TASK cannot be run, or does not take arguments.
    """
    if image is not None:
        folder = str(Path.cwd()) if local else None
        return _own_code(Path(task).stem, image, [task, *arguments], folder)
    if task not in benchmarks and _is_file(task):
        path = Path(task)
        if path.is_dir():
            raise UsageError(f"{path}: is a folder. Name the file to run.")
        if not path.is_file():
            raise UsageError(f"{path}: file not found")
        words = [str(path.absolute()), *arguments]
        if path.suffix == ".py":
            words.insert(0, sys.executable)
        elif not os.access(path, os.X_OK):
            raise UsageError(f"{path}: not executable. Run chmod +x {shlex.quote(str(path))}")
        return _own_code(path.stem, THIS_MACHINE, words, str(Path.cwd()))
    if arguments and task not in benchmarks and (program := find_program(task)):
        return _own_code(task, THIS_MACHINE, [program, *arguments], str(Path.cwd()))
    if arguments:
        raise UsageError(
            f"{shlex.join(arguments)}: {task} does not take arguments. "
            "Set its options with --set KEY=VALUE."
        )
    if task not in benchmarks:
        raise UsageError(
            f"{task}: no such benchmark or file. The benchmarks are {', '.join(benchmarks)}."
        )
    return Code(title=task, benchmark=task)


def read_settings(code: Code, settings: Sequence[str] | None) -> dict[str, str]:
    """Return the values of ``--set KEY=VALUE`` by key.

    Raises:
        UsageError: another form, or settings for code that is not a benchmark.
    """
    if settings and code.command:
        raise UsageError(
            "--set: only for benchmarks. Write the arguments of your own code after --."
        )
    parsed = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {setting}: must be KEY=VALUE, e.g. epochs=3")
        parsed[key] = value
    return parsed


def make_name(title: str, room: int = 0) -> str:
    """Return a name with date and time that leaves ``room`` characters for a suffix."""
    moment = time.strftime("-%Y%m%d-%H%M%S")
    stem = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-") or "run"
    return stem[: MAX_RESOURCE_NAME_LENGTH - len(moment) - room].rstrip("-") + moment


def _own_code(title: str, image: str, words: Sequence[str], folder: str | None) -> Code:
    command = shlex.join(words)
    return Code(title=title, image=image, command=command, working_dir=folder, backend="gloo")
