"""A benchmark set: its runs in their order, which of them there are, and how long the rest takes.

Pure: it asks nobody and orders nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from mlbench.cli.common import WrongCallError
from mlbench.cli.ordering import LONGEST_NAME, Order
from mlbench.client import Run

# As many as the API compares at a time.
_MOST_RUNS = 200


@dataclass(frozen=True)
class Cell:
    """One run of the set, as it is to be."""

    name: str
    num_workers: int
    seed: int | None


def read_workers(text: str) -> list[int]:
    """Return numbers of workers, from few to many, from a text such as ``1,2,4``.

    Raises:
        WrongCallError: it is no such text.
    """
    parts = text.split(",")
    if not all(part.isascii() and part.isdecimal() and int(part) for part in parts):
        raise WrongCallError(f"--workers {text}: it must be numbers such as 1,2,4")
    return sorted({int(part) for part in parts})


def longest_suffix(workers: Sequence[int], repeats: int) -> int:
    """Return how many characters the names of runs have behind the name of their set."""
    return len(_suffix(max(workers), repeats))


def cells(name: str, workers: Sequence[int], seeds: Sequence[int | None]) -> list[Cell]:
    """Return the runs of a set, in their order; there are as many repeats as ``seeds``.

    Repeats are outermost, so that what drifts on a machine meets all alike. The largest comes
    first: what the workers cannot run is refused before anything has run.

    Raises:
        WrongCallError: there are too many, or the name is too long.
    """
    if len(workers) * len(seeds) > _MOST_RUNS:
        raise WrongCallError(f"that is {len(workers) * len(seeds)} runs; at most {_MOST_RUNS}")
    longest = LONGEST_NAME - longest_suffix(workers, len(seeds))
    if len(name) > longest:
        raise WrongCallError(f"--name {name}: at most {longest} characters")
    return [
        Cell(name + _suffix(count, repeat), count, seed)
        for repeat, seed in enumerate(seeds, 1)
        for count in sorted(workers, reverse=True)
    ]


def find_earlier(cells: Iterable[Cell], runs: Iterable[Run]) -> dict[Cell, Run]:
    """Return the runs that there are of a set: of each cell the newest, if it has not failed."""
    newest = {run.name: run for run in runs}
    found = {cell: newest[cell.name] for cell in cells if cell.name in newest}
    return {cell: run for cell, run in found.items() if run.active or run.state == "FINISHED"}


def check_earlier(
    earlier: Mapping[Cell, Run], order: Order, rules: Mapping[str, Sequence[Any]]
) -> None:
    """Make sure that earlier runs are what the set would order now.

    Args:
        earlier: runs by what they should be.
        order: what the set orders.
        rules: by option of its task, the values that the rules permit, the usual one first.

    Raises:
        WrongCallError: one is not.
    """
    for cell, run in earlier.items():
        differing = [*_differing(cell, run, order), *_differing_args(run, order, rules)]
        if differing:
            raise WrongCallError(
                f"run {run.id} ({run.name}) differs in {', '.join(differing)}: "
                "choose another --name, or delete it"
            )


def seconds_left(finished: Sequence[tuple[Cell, float]], waiting: Sequence[Cell]) -> float | None:
    """Return how long cells will take, by what others took; None before the first has ended.

    Those with as many workers count, or all where there is none.
    """
    if not finished:
        return None
    by_workers: dict[int, list[float]] = {}
    for cell, seconds in finished:
        by_workers.setdefault(cell.num_workers, []).append(seconds)
    every = [seconds for _, seconds in finished]
    return sum(mean(by_workers.get(cell.num_workers, every)) for cell in waiting)


def _suffix(workers: int, repeat: int) -> str:
    return f"-w{workers}-r{repeat}"


def _differing(cell: Cell, run: Run, order: Order) -> list[str]:
    code = order.code
    wanted: dict[str, object] = {
        "num_workers": cell.num_workers,
        "seed": cell.seed,
        "benchmark": code.benchmark or "",
        "image": code.image or "",
        "command": code.command or "",
        "working_dir": code.working_dir,
        "num_cpus": order.num_cpus,
        "max_bandwidth": order.max_bandwidth,
        "gpu_enabled": order.gpu,
        "light_target": order.light,
        "deadline_seconds": order.deadline_seconds,
        "backend": (order.backend or run.backend).lower(),
    }
    return [name for name, value in wanted.items() if getattr(run, name) != value]


def _differing_args(run: Run, order: Order, rules: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the options in which a run differs from an order of the same seed, light or not."""
    said_elsewhere = {"seed", "backend", *(["device"] if order.gpu else [])}
    said_elsewhere |= {"goal"} if order.light else set()
    names = {*run.args, *order.args}
    return [
        f"option {name}"
        for name in sorted(names)
        if run.args.get(name) != order.args.get(name)
        and not (name not in order.args and name in said_elsewhere)
        # The first value that the rules permit is what a task runs with where nothing is said.
        and not (name not in order.args and run.args[name] in map(str, rules.get(name, ())[:1]))
    ]
