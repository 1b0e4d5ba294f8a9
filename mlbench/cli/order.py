"""What ``run`` and ``bench`` run: TASK and its arguments, and the order that they become."""

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from mlbench.cli.command import Command
from mlbench.cli.common import UsageError
from mlbench.contract.limits import MAX_RESOURCE_NAME_LENGTH
from mlbench.contract.names import THIS_MACHINE, UNASKED_BANDWIDTH
from mlbench.contract.runspec import CommonSpec, part

_OWN_BACKEND = "gloo"
# Typer has no public name for it, and click's is not its own.
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
        "{rank}, {hosts}, {run_id} and {backend}, which are filled in.",
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


@dataclass(frozen=True, kw_only=True)
class Code:
    """What TASK and ARGUMENTS name."""

    title: str
    """What the name of a run begins with by default."""
    benchmark: str | None = None
    image: str | None = None
    command: str | None = None
    working_dir: str | None = None
    backend: str | None = None
    """None for that of the benchmark."""

    def ordered_with(self, spec: CommonSpec, settings: Sequence[str] | None) -> dict[str, Any]:
        """Return arguments of ``create_run`` and ``create_set`` that say what to run and how."""
        if spec.max_bandwidth == UNASKED_BANDWIDTH:
            raise UsageError(
                f"--bandwidth: {UNASKED_BANDWIDTH} means unlimited to the API. "
                f"Use {UNASKED_BANDWIDTH - 1} instead."
            )
        named = {name: value for name, value in vars(self).items() if name in vars(spec) and value}
        own = {"custom_image_name": self.image, "custom_image_command": self.command}
        backend = spec.backend or self.backend
        return {**vars(part(CommonSpec, spec)), **named, **own, "backend": backend} | {
            "args": read_settings(self, settings)
        }


class CodeCommand(Command):
    """A command whose TASK may be a program, such as torchrun: what follows that is the program's.

    A file's arguments come after a --, as options of MLBench's may follow it. So may a program's,
    if nothing but such options is before the --.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put a -- behind the name of a program."""
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
            if task and hasattr(error, "possibilities"):  # it is an option that there is not
                where = f"the options of {task} as --set {error.option_name.lstrip('-')}=VALUE"
                if _is_file(task) or "image" in values:
                    where = f"your script's own options after --: {task} -- {error.option_name}"
                error.message += f"; write {where}"
            raise

    def _are_options(self, ctx: Any, rest: list[str]) -> bool:
        """Tell if MLBench's options, and nothing else, are before a --."""
        if "--" not in rest:
            return False
        try:
            found, _, _ = self.make_parser(ctx).parse_args(args=rest[: rest.index("--")])
        except _WRONG_CALL:
            return False
        return found.get("task") is None


def find_program(name: str) -> str | None:
    """Return the path of a program: one beside this Python, or else on $PATH."""
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
    """Return what TASK and ARGUMENTS name.

    On a ``local`` stack, the command of an image starts where the user is, as a file does.

    TASK is a file if it has a slash, ends with .py, or exists and is no benchmark's name; and a
    program, such as torchrun, if it is neither, and has arguments. What cannot be run, or takes no
    arguments but has some, raises UsageError.
    """
    if image is not None:
        folder = str(Path.cwd()) if local else None
        return _own_code(Path(task).stem, image, [task, *arguments], folder)
    if task not in benchmarks and _is_file(task):
        return _read_script(Path(task), arguments)
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

    Another form, or settings for one's own code, raise UsageError.
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
    """Return a name with today's date and time that leaves room for a suffix of ``room``."""
    moment = time.strftime("-%Y%m%d-%H%M%S")
    stem = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-") or "run"
    return stem[: MAX_RESOURCE_NAME_LENGTH - len(moment) - room].rstrip("-") + moment


def _read_script(path: Path, arguments: Sequence[str]) -> Code:
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


def _own_code(title: str, image: str, words: Sequence[str], folder: str | None) -> Code:
    command = shlex.join(words)
    return Code(title=title, image=image, command=command, working_dir=folder, backend=_OWN_BACKEND)
