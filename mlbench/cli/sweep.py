"""``--sweep KEY=V1,V2``: its form, and the places of a set in an order that spreads drift. Pure."""

from collections.abc import Mapping, Sequence
from itertools import product

from mlbench.cli.common import UsageError
from mlbench.cli.order import read_bandwidth
from mlbench.names import NETWORK_UNITS
from mlbench.records import Planned

# What any order can be swept by; other keys are options of a benchmark.
OF_ORDERS = (*NETWORK_UNITS, "cpus")

Values = Mapping[str, Sequence[str]]
"""What is swept, by key, in the order of the command line."""


def read_sweeps(sweeps: Sequence[str] | None, *, is_own_code: bool = False) -> Values:
    """Return the values of each ``--sweep KEY=V1,V2``; raise UsageError for another form."""
    found: dict[str, Sequence[str]] = {}
    for sweep in sweeps or ():
        key, _, listed = sweep.partition("=")
        values = listed.split(",")
        if key == "bandwidth":
            values = [_in_mbit(value) for value in values]
        if not key or not all(values):
            raise UsageError(f"--sweep {sweep}: it must be KEY=V1,V2, e.g. bandwidth=20,100")
        if key in found:
            raise UsageError(f"--sweep {sweep}: {key} is swept already; give all values at once")
        if len({*values}) < len(values):
            raise UsageError(f"--sweep {sweep}: give each value once")
        if is_own_code and key not in OF_ORDERS:
            raise UsageError(
                f"--sweep {sweep}: options are a benchmark's; "
                f"code of your own can be swept by {', '.join(OF_ORDERS)}"
            )
        found[key] = values
    return found


def read_cores(sweeps: Values) -> list[float]:
    """Return the numbers of cores that are swept; raise UsageError for what is no number."""
    cores = sweeps.get("cpus", ())
    try:
        return [float(one) for one in cores]
    except ValueError:
        raise UsageError(f"--sweep cpus={','.join(cores)}: give numbers of cores") from None


def _in_mbit(bandwidth: str) -> str:
    """Return a bandwidth as the API takes it."""
    try:
        float(bandwidth)
    except ValueError:
        return bandwidth if bandwidth in ("", "none") else f"{read_bandwidth(bandwidth):g}"
    return bandwidth


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
