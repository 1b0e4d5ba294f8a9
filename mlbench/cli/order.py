"""The common options of ``run`` and ``bench``, and the order that they become."""

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from mlbench.cli.command import Command
from mlbench.cli.common import UsageError
from mlbench.client import ApiClient
from mlbench.names import THIS_MACHINE, UNASKED_BANDWIDTH
from mlbench.records import Run

# Kubernetes takes this many characters, and so do the names that sets give to their runs.
LONGEST_NAME = 40
_OWN_BACKEND = "gloo"
# Typer has no public name for it, and click's is not its own.
_WRONG_CALL: Any = typer.BadParameter.__base__
_DURATIONS = {"": 1, "s": 1, "m": 60, "h": 3600}
_BANDWIDTHS = {"": 1, "kbit": 0.001, "Mbit": 1, "Gbit": 1000}


def read_duration(text: str) -> float:
    """Return the seconds of ``90``, ``90s``, ``15m`` or ``2h``; raise BadParameter for others."""
    return _read(text, _DURATIONS, "is not a duration: write 3600, 90s, 15m or 2h")


def read_milliseconds(text: str) -> float:
    """Return the milliseconds of ``5ms``, ``0.1s`` or ``5``; raise BadParameter for others."""
    return _read(text, {"": 1, "ms": 1, "s": 1000}, "is no latency: write 5ms")


def read_percent(text: str) -> float:
    """Return the number of ``5%`` or ``5``; raise BadParameter for others."""
    return _read(text, {"": 1, "%": 1}, "is no share: write 5%")


def read_bandwidth(text: str) -> float:
    """Return the Mbit/s of ``20``, ``20Mbit``, ``20Mbit/s`` or ``2Gbit``; raise BadParameter."""
    return _read(text.removesuffix("/s"), _BANDWIDTHS, "is no bandwidth: write 20Mbit or 2Gbit")


def _read(text: str, units: Mapping[str, float], problem: str) -> float:
    """Return how many of the first unit a text says; more than 0, or else raise BadParameter."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z%]*)", text)
    number = float(found[1]) * units.get(found[2], 0) if found else 0.0
    if not number:
        raise typer.BadParameter(f"{text!r} {problem}")
    return number


def refuse_unasked(mbit: float | None) -> float | None:
    """Return a bandwidth; raise BadParameter for the one that clients send unasked."""
    if mbit == UNASKED_BANDWIDTH:
        raise typer.BadParameter(
            f"{mbit:g} is what clients send where nothing is asked for, so it limits nothing: "
            f"write {mbit - 1:g}"
        )
    return mbit


TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="What to run: a benchmark, a file of your own, e.g. ./train.py, or a "
        "program with its arguments, e.g. torchrun train.py; "
        "with --image the first word of a command.",
    ),
]
ArgumentsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARGUMENTS",
        help="Arguments of your own code, after a --. They are passed on unchanged, except that "
        "{rank}, {hosts}, {run_id} and {backend} are filled in.",
    ),
]
CpusOption = Annotated[
    float | None,
    typer.Option(min=0.001, help="Cores of each worker, e.g. 2; in a cluster also 0.5."),
]
BandwidthOption = Annotated[
    float | None,
    typer.Option(
        parser=read_bandwidth,
        metavar="RATE",
        callback=refuse_unasked,
        help="What each worker may send, e.g. 20Mbit; two packets (3 kB) pass at once.",
    ),
]
LatencyOption = Annotated[
    float | None,
    typer.Option(
        parser=read_milliseconds,
        metavar="TIME",
        help="By how much more all that a worker sends is late, e.g. 5ms.",
    ),
]
LossOption = Annotated[
    float | None,
    typer.Option(
        parser=read_percent, metavar="PERCENT", help="What is lost of all that is sent, e.g. 1%."
    ),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Option of a benchmark, e.g. epochs=3; can be given several times.",
    ),
]
LightOption = Annotated[
    bool, typer.Option("--light", help="Aim for the easier goal; own code gets it as --light.")
]
BackendOption = Annotated[
    str | None, typer.Option(help="What the workers communicate with, e.g. gloo.")
]
GpuOption = Annotated[bool, typer.Option("--gpu", help="Train on GPUs; own code gets it as --gpu.")]
RestartsOption = Annotated[
    int, typer.Option(min=0, help="How often to start again after a failure.")
]
DeadlineOption = Annotated[
    float | None,
    typer.Option(
        parser=read_duration,
        metavar="TIME",
        help="End training this long after its start, e.g. 90s, 15m, 2h.",
    ),
]
ImageOption = Annotated[
    str | None,
    typer.Option(
        metavar="IMAGE", help="Run TASK and ARGUMENTS as a command in this image, on a cluster."
    ),
]
QueueOption = Annotated[
    bool, typer.Option("--queue", help="Wait for the active run to end, instead of failing.")
]


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to run and how, as the fields of a run; without name, number of workers and seed."""

    title: str
    """What the name of a run begins with by default."""
    benchmark: str = ""
    image: str = ""
    command: str = ""
    working_dir: str | None = None
    args: Mapping[str, str] = field(default_factory=dict)
    num_cpus: float | None = None
    max_bandwidth: float | None = None
    latency_ms: float | None = None
    loss_percent: float | None = None
    backend: str | None = None
    """None for that of the benchmark."""
    gpu_enabled: bool = False
    light_target: bool = False
    max_restarts: int = 0
    deadline_seconds: float | None = None

    def place(
        self, client: ApiClient, name: str, num_workers: int, seed: int | None, *, queue: bool
    ) -> Run:
        """Create the run, and return it."""
        placed = client.create_run(name, num_workers, seed=seed, queue=queue, **self.fields())
        return placed.result().value

    def fields(self) -> dict[str, Any]:
        """Return the fields of an order as clients give them; None for those that are not set."""
        return {
            "num_cpus": self.num_cpus,
            "max_bandwidth": self.max_bandwidth,
            "latency_ms": self.latency_ms,
            "loss_percent": self.loss_percent,
            "custom_image_name": self.image or None,
            "custom_image_command": self.command or None,
            "backend": self.backend,
            "gpu_enabled": self.gpu_enabled,
            "light_target": self.light_target,
            "benchmark": self.benchmark or None,
            "working_dir": self.working_dir,
            "args": self.args,
            "max_restarts": self.max_restarts,
            "deadline_seconds": self.deadline_seconds,
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
        found, _, _ = parser.parse_args(args=list(args))
        task, rest = found.get("task"), list(found.get("arguments") or ())
        place = len(args) - len(rest)
        if task and rest and "--" not in args[:place] and _is_program(task):
            args = args if self._are_options(ctx, rest) else [*args[:place], "--", *args[place:]]
        try:
            return super().parse_args(ctx, args)
        except _WRONG_CALL as error:
            if task and hasattr(error, "possibilities"):  # it is an option that there is not
                is_own = _is_file(task) or "image" in found
                error.message += f"; {_where_options_go(task, error.option_name, is_own=is_own)}"
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


def _where_options_go(task: str, option: str, *, is_own: bool) -> str:
    if is_own:
        return f"write your script's own options after --: {task} -- {option}"
    return f"write the options of {task} as --set {option.lstrip('-')}=VALUE"


def find_program(name: str) -> str | None:
    """Return the path of a program: one beside this Python, or else on $PATH."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return None if os.sep in name else shutil.which(name, path=os.pathsep.join(folders))


def _is_program(task: str) -> bool:
    return not _is_file(task) and find_program(task) is not None


def _is_file(task: str) -> bool:
    return os.sep in task or task.endswith(".py") or Path(task).is_file()


def read_code(
    task: str,
    arguments: Sequence[str],
    image: str | None,
    benchmarks: Collection[str],
    *,
    local: bool,
) -> Order:
    """Return an order of what TASK and ARGUMENTS name, and of nothing else.

    On a ``local`` stack, the command of an image starts where the user is, as a file does.

    TASK is a file if it has a slash, ends with .py, or exists and is no benchmark's name; and a
    program, such as torchrun, if it is neither, and has arguments. What cannot be run, or takes no
    arguments but has some, raises UsageError.
    """
    if image is not None:
        command = shlex.join([task, *arguments])
        return Order(
            title=Path(task).stem,
            image=image,
            command=command,
            working_dir=str(Path.cwd()) if local else None,
            backend=_OWN_BACKEND,
        )
    looks_like_a_file = os.sep in task or task.endswith(".py")
    if looks_like_a_file or (task not in benchmarks and _is_file(task)):
        return _read_script(Path(task), arguments)
    if arguments and task not in benchmarks and (program := find_program(task)):
        return _of_this_machine(task, [program, *arguments])
    if arguments:
        raise UsageError(
            f"{shlex.join(arguments)}: arguments are for your own code; "
            f"{task} takes its options as --set KEY=VALUE"
        )
    if task not in benchmarks:
        raise UsageError(
            f"there is neither a benchmark nor a file {task!r} here; "
            f"the benchmarks are {', '.join(benchmarks)}"
        )
    return Order(title=task, benchmark=task)


def read_settings(order: Order, settings: Sequence[str] | None) -> dict[str, str]:
    """Return the values of ``--set KEY=VALUE`` by key.

    Another form, or settings for one's own code, raise UsageError.
    """
    if settings and order.command:
        raise UsageError("--set is for benchmarks; write the arguments of your own code after --")
    parsed = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {setting}: it must be KEY=VALUE, e.g. epochs=3")
        parsed[key] = value
    return parsed


def make_name(title: str, room: int = 0) -> str:
    """Return a name with today's date and time that leaves room for a suffix of ``room``."""
    moment = time.strftime("-%Y%m%d-%H%M%S")
    stem = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-") or "run"
    return stem[: LONGEST_NAME - len(moment) - room].rstrip("-") + moment


def _read_script(path: Path, arguments: Sequence[str]) -> Order:
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name the file to run")
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    words = [str(path.absolute()), *arguments]
    if path.suffix == ".py":
        words.insert(0, sys.executable)
    elif not os.access(path, os.X_OK):
        raise UsageError(f"{path} is not executable: chmod +x {shlex.quote(str(path))}")
    return _of_this_machine(path.stem, words)


def _of_this_machine(title: str, words: Sequence[str]) -> Order:
    return Order(
        title=title,
        image=THIS_MACHINE,
        command=shlex.join(words),
        working_dir=str(Path.cwd()),
        backend=_OWN_BACKEND,
    )
