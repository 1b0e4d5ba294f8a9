"""From the words and options of ``run`` and ``bench`` to orders of runs."""

import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlbench.cli.common import WrongCallError
from mlbench.client import ApiClient, Benchmark, Run
from mlbench.names import THIS_MACHINE

# A run's name is a Kubernetes name; the API allows so many characters.
LONGEST_NAME = 40


@dataclass(frozen=True)
class Code:
    """What to run: an official benchmark, or a command in an image."""

    title: str
    """What a run's name begins with by default."""
    benchmark: str | None = None
    image: str | None = None
    command: str | None = None
    working_dir: str | None = None


@dataclass(frozen=True)
class Order:
    """What to run, and how, but for its name, workers and seed."""

    code: Code
    args: Mapping[str, str] = field(default_factory=dict)
    num_cpus: float | None = None
    max_bandwidth: float | None = None
    backend: str | None = None
    gpu: bool = False
    light: bool = False
    restarts: int = 0
    deadline_seconds: float | None = None

    def place(
        self, client: ApiClient, name: str, num_workers: int, seed: int | None, *, queue: bool
    ) -> Run:
        """Order a run, and return it."""
        order = client.create_run(
            name,
            num_workers,
            self.num_cpus,
            self.max_bandwidth,
            benchmark=self.code.benchmark,
            custom_image_name=self.code.image,
            custom_image_command=self.code.command,
            working_dir=self.code.working_dir,
            args=self.args,
            backend=self.backend,
            gpu_enabled=self.gpu,
            light_target=self.light,
            max_restarts=self.restarts,
            deadline_seconds=self.deadline_seconds,
            seed=seed,
            queue=queue,
        )
        return order.result().value


def read_code(
    task: str, arguments: Sequence[str], image: str | None, benchmarks: Sequence[str]
) -> Code:
    """Return what the words of a call name.

    A file of one's own has a slash or ends with .py, or is there and no benchmark has its name.

    Raises:
        WrongCallError: there is no such file or benchmark, it cannot be run, or a benchmark was
            given arguments.
    """
    if image is not None:
        command = shlex.join([task, *arguments])
        return Code(Path(task).stem, image=image, command=command)
    looks_like_a_file = os.sep in task or task.endswith(".py")
    if looks_like_a_file or (task not in benchmarks and Path(task).is_file()):
        return _read_script(Path(task), arguments)
    if arguments:
        raise WrongCallError(
            f"{shlex.join(arguments)}: arguments are for code of your own; "
            f"{task} takes its options by --set KEY=VALUE"
        )
    if task not in benchmarks:
        raise WrongCallError(
            f"there is neither a benchmark nor a file {task!r} here; "
            f"the benchmarks are {', '.join(benchmarks)}"
        )
    return Code(task, benchmark=task)


def read_order(
    code: Code,
    *,
    settings: Sequence[str] = (),
    num_cpus: float | None = None,
    max_bandwidth: float | None = None,
    backend: str | None = None,
    gpu: bool = False,
    light: bool = False,
    restarts: int = 0,
    deadline_seconds: float | None = None,
) -> Order:
    """Return the order that a call's options describe.

    Raises:
        WrongCallError: an option is not what it must be, or does not go with the code.
    """
    if settings and code.command is not None:
        raise WrongCallError(
            "--set is for benchmarks; write the arguments of your own code behind --"
        )
    return Order(
        code=code,
        args=_parse_settings(settings),
        num_cpus=num_cpus,
        max_bandwidth=max_bandwidth,
        backend=backend or (None if code.benchmark else "gloo"),
        gpu=gpu,
        light=light,
        restarts=restarts,
        deadline_seconds=deadline_seconds,
    )


def make_name(title: str, room: int = 0) -> str:
    """Return a name with today's date and time, which leaves room for so many characters more."""
    moment = time.strftime("-%Y%m%d-%H%M%S")
    stem = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-") or "run"
    return stem[: LONGEST_NAME - len(moment) - room].rstrip("-") + moment


def check_name(name: str) -> None:
    """Make sure that a run's name is none that commands take for an id.

    Raises:
        WrongCallError: it is one.
    """
    if name.isdecimal():
        raise WrongCallError(f"--name {name}: a number alone is taken for a run's id")


def seed_of_repeat(benchmark: Benchmark | None, seed: int | None, repeat: int) -> int | None:
    """Return the seed of the first repeat (0), or of a later one; None for a task without one.

    Raises:
        WrongCallError: a seed is asked for, and the task takes none.
    """
    if benchmark is None or benchmark.takes_seed:
        return (1 if seed is None else seed) + repeat
    if seed is not None:
        raise WrongCallError(f"--seed: {benchmark.name} takes none; leave it out")
    return None


def _read_script(path: Path, arguments: Sequence[str]) -> Code:
    if path.is_dir():
        raise WrongCallError(f"{path} is a folder: name the file to run")
    if not path.is_file():
        raise WrongCallError(f"there is no file {path}")
    words = [str(path.absolute()), *arguments]
    if path.suffix == ".py":
        words.insert(0, sys.executable)
    elif not os.access(path, os.X_OK):
        raise WrongCallError(f"{path} is not executable: chmod +x {shlex.quote(str(path))}")
    return Code(
        path.stem, image=THIS_MACHINE, command=shlex.join(words), working_dir=str(Path.cwd())
    )


def _parse_settings(settings: Sequence[str]) -> dict[str, str]:
    parsed = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise WrongCallError(f"--set {setting}: it must be KEY=VALUE, e.g. epochs=3")
        parsed[key] = value
    return parsed
