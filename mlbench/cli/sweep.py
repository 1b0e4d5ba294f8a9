"""``--sweep KEY=V1,V2``: its form, and the places of a set in an order that spreads drift. Pure."""

from collections.abc import Mapping, Sequence
from itertools import product

import typer

from mlbench.cli.common import UsageError
from mlbench.cli.spec import read_quantity
from mlbench.records import Planned
from mlbench.runspec import SWEPT, Option

Values = Mapping[str, Sequence[str]]
"""What is swept, by key, in the order of the command line."""


def read_sweeps(sweeps: Sequence[str] | None, *, is_own_code: bool = False) -> Values:
    """Return the values of each ``--sweep KEY=V1,V2``; raise UsageError for another form."""
    values_of: dict[str, Sequence[str]] = {}
    for sweep in sweeps or ():
        key, _, listed = sweep.partition("=")
        values = listed.split(",")
        if key in SWEPT:
            values = [_plain(value, SWEPT[key][1], sweep) for value in values]
        if not key or not all(values):
            raise UsageError(f"--sweep {sweep}: it must be KEY=V1,V2, e.g. bandwidth=20,100")
        if key in values_of:
            raise UsageError(f"--sweep {sweep}: {key} is swept already; give all values at once")
        if len({*values}) < len(values):
            raise UsageError(f"--sweep {sweep}: give each value once")
        if is_own_code and key not in SWEPT:
            raise UsageError(
                f"--sweep {sweep}: options are a benchmark's; "
                f"code of your own can be swept by {', '.join(SWEPT)}"
            )
        values_of[key] = values
    return values_of


def _plain(value: str, option: Option, sweep: str) -> str:
    """Return a value without its unit, as the API takes it."""
    if value in ("", option.swept_out) or not option.is_number:
        return value
    try:
        return f"{read_quantity(value, option):.15g}"
    except typer.BadParameter as error:
        raise UsageError(f"--sweep {sweep}: {error.message}") from None


def plan_places(
    workers: Sequence[int], seeds: Sequence[int | None], sweeps: Values
) -> list[Planned]:
    """Return each run of a set: for each seed, one of each combination and number of workers.

    A repeat runs all of them with the same seed, so that a comparison is of equal work. So that a
    drift of the machine affects all alike, each second repeat runs in the opposite order of the
    one before it, and the first of the next two begins elsewhere.
    """
    combinations = [dict(zip(sweeps, values, strict=True)) for values in product(*sweeps.values())]
    runs = [(count, swept) for swept in combinations for count in sorted(workers, reverse=True)]
    pairs = (len(seeds) + 1) // 2
    places = []
    for repeat, seed in enumerate(seeds):
        first = repeat // 2 * len(runs) // pairs
        turned = [*runs[first:], *runs[:first]]
        in_turn = reversed(turned) if repeat % 2 else turned
        places += [Planned(count, seed, swept) for count, swept in in_turn]
    return places
