"""``mlbench bench``: a set of runs on several numbers of workers, and their comparison."""

import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from statistics import mean
from typing import Annotated, Any

import typer

from mlbench.cli import order as orders
from mlbench.cli.common import FAILED, INTERRUPTED, JsonOption, UsageError, connected, err
from mlbench.cli.compare import OutputsOption, check_files, write_and_show
from mlbench.cli.live import follow
from mlbench.cli.order import LONGEST_NAME, Order
from mlbench.client import ApiClient
from mlbench.records import Benchmark, Info, Run
from mlbench.report import figures
from mlbench.results import Group

# As many as the API compares at a time.
_MOST_RUNS = 200


def read_percent(text: str) -> float:
    """Return the number of ``5%`` or ``5``; raise BadParameter for others."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)%?", text)
    if not found or not float(found[1]):
        raise typer.BadParameter(f"{text!r} is no share: write 5%")
    return float(found[1])


def bench(
    task: orders.TaskArgument,
    arguments: orders.ArgumentsArgument = None,
    workers: Annotated[
        str, typer.Option(metavar="N,N...", help="Numbers of workers, separated by commas.")
    ] = "1,2",
    repeats: Annotated[int, typer.Option(min=1, help="Runs for each number of workers.")] = 5,
    until: Annotated[
        float | None,
        typer.Option(
            parser=read_percent,
            metavar="PERCENT",
            help="Stop repeating once every mean is known to within so much, e.g. 5%.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the set; with that of an interrupted set, it goes on."),
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            help="Cores of each worker; by default the same for all runs of the set, as many as "
            "the largest number of workers leaves to each.",
        ),
    ] = None,
    oversubscribe: Annotated[
        bool, typer.Option("--oversubscribe", help="Let workers share cores; the report says so.")
    ] = False,
    bandwidth: orders.BandwidthOption = None,
    settings: orders.SettingsOption = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of the first repeat; each other one has the next."),
    ] = None,
    light: orders.LightOption = False,
    backend: orders.BackendOption = None,
    gpu: orders.GpuOption = False,
    restarts: orders.RestartsOption = 0,
    deadline: orders.DeadlineOption = None,
    image: orders.ImageOption = None,
    queue: orders.QueueOption = False,
    output: OutputsOption = None,
    json: JsonOption = False,
) -> None:
    """Run a benchmark on several numbers of workers, several times each, and compare.

    Exits with 1 if a run did not finish.
    """
    files = output or []
    with connected() as client:
        check_files(files)
        counts = read_workers(workers)
        benchmarks = {one.name: one for one in client.get_benchmarks().result().value}
        info = client.get_info().result().value
        code = orders.read_code(
            task, arguments or [], image, benchmarks, local=info.pool == "local"
        )
        order = replace(
            code,
            args=orders.read_settings(code, settings),
            num_cpus=share_cores(info, max(counts), cpus, oversubscribe=oversubscribe),
            max_bandwidth=bandwidth,
            backend=backend or code.backend,
            gpu_enabled=gpu,
            light_target=light,
            max_restarts=restarts,
            deadline_seconds=deadline,
        )
        benchmark = benchmarks.get(code.benchmark)
        seeds = [seed_of_repeat(benchmark, seed, repeat) for repeat in range(repeats)]
        room = len(_suffix(max(counts), repeats))
        set_name = orders.make_name(code.title, room) if name is None else name
        planned = plan_runs(set_name, counts, seeds)
        earlier = find_earlier(planned, client.get_runs().result().value)
        check_earlier(earlier, order, benchmark.rules if benchmark else {})
        try:
            ended = _run_all(client, order, planned, earlier, until, queue=queue, quiet=json)
        except KeyboardInterrupt:
            command = _command_to_go_on(set_name if name is None else None)
            err.print(f"interrupted: this run goes on; for the rest: {command}", soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from None
        finished = [run.id for run in ended if run.state == "FINISHED"]
        missing = len(ended) - len(finished)
        if finished:
            comparison = client.compare(finished).result().value
            write_and_show(client, comparison, files, left_out=missing, as_json=json)
    if missing:
        err.print(f"{missing} of {len(ended)} runs did not finish, and are left out", style="red")
        raise typer.Exit(FAILED)


@dataclass(frozen=True)
class PlannedRun:
    """One run of a set."""

    name: str
    num_workers: int
    seed: int | None


def _run_all(
    client: ApiClient,
    order: Order,
    planned: Sequence[PlannedRun],
    earlier: Mapping[PlannedRun, Run],
    until: float | None,
    *,
    queue: bool,
    quiet: bool,
) -> list[Run]:
    """Run what does not exist yet, one after the other, and return all runs of the set.

    They may be fewer than planned if the means need only be known ``until`` a part of themselves.
    """
    waiting = [one for one in planned if one not in earlier or earlier[one].active]
    took: list[tuple[PlannedRun, float]] = []
    ended: list[Run] = []

    def tell(text: str, style: str | None = None) -> None:
        if not quiet:
            err.print(text, style=style, soft_wrap=True)

    for number, one in enumerate(planned, 1):
        left = seconds_left(took, waiting)
        when = f", about {figures.whole_seconds(left)} left" if left is not None else ""
        if one in waiting:
            waiting.remove(one)
        else:
            when = " exists already"
        tell(f"run {number} of {len(planned)}: {one.name}{when}")
        run = earlier.get(one)
        if run is None:
            # After the first run, the set waits for what others order meanwhile.
            waits = queue or bool(ended)
            run = order.place(client, one.name, one.num_workers, one.seed, queue=waits)
        if run.active:
            run = follow(client, run, quiet=quiet)
        ended.append(run)
        if run.started_at and run.finished_at:
            began, end = map(datetime.fromisoformat, (run.started_at, run.finished_at))
            took.append((one, (end - began).total_seconds()))
        if run.state != "FINISHED":
            tell(f"run {run.id} ({run.name}): {run.state}: {run.reason}", style="red")
        is_whole = number % len({one.num_workers for one in planned}) == 0
        if until is not None and is_whole and _are_known(client, ended, until):
            tell(f"every mean is known to within {until:.3g}%")
            break
    return ended


def _are_known(client: ApiClient, ended: Sequence[Run], percent: float) -> bool:
    finished = [run.id for run in ended if run.state == "FINISHED"]
    if not finished:
        return False
    groups = client.compare(finished).result().value.groups
    return all(is_known(group, percent) for group in groups)


def _command_to_go_on(name: str | None) -> str:
    """Return the command that was called, with the name of the set if it had none."""
    command, *words = sys.argv[1:]
    return shlex.join(["mlbench", command, *(["--name", name] if name else []), *words])


# --- Decisions, without side effects ---


def read_workers(text: str) -> list[int]:
    """Return the numbers in ``1,2,4``, ascending; raise UsageError for another form."""
    if not re.fullmatch(r"0*[1-9][0-9]*(,0*[1-9][0-9]*)*", text):
        raise UsageError(f"--workers {text}: give numbers separated by commas, e.g. 1,2,4")
    return sorted({int(part) for part in text.split(",")})


def is_known(group: Group, percent: float) -> bool:
    """Check if a group's mean time to accuracy, or its throughput, has an interval as narrow."""
    found = group.training_seconds_to_accuracy or group.samples_per_second
    if found is None or found.mean is None or found.mean_low is None or found.mean_high is None:
        return False
    return (found.mean_high - found.mean_low) / 2 <= percent / 100 * found.mean


def share_cores(info: Info, workers: int, wanted: float | None, *, oversubscribe: bool) -> float:
    """Return the cores of each worker of a set, the same for any number of workers up to this.

    On this machine they are whole ones, and workers that would share one raise UsageError, unless
    they shall. A cluster has as many machines as it takes.
    """
    cores = info.limits.cpus
    if info.pool != "local":
        return wanted or cores
    each = wanted or max(1.0, float(cores // workers))
    if workers * each > cores and not oversubscribe:
        raise UsageError(
            f"{workers} workers want {workers * each:g} cores, and this machine has {cores:g}: "
            "choose fewer --workers or --cpus, or --oversubscribe, which the report will say"
        )
    return each


def seed_of_repeat(benchmark: Benchmark | None, seed: int | None, repeat: int) -> int | None:
    """Return the seed of a repeat, the first of which is 0; None if the task takes no seed.

    Giving one to such a task raises UsageError.
    """
    if benchmark is None or benchmark.takes_seed:
        return (1 if seed is None else seed) + repeat
    if seed is not None:
        raise UsageError(f"--seed: {benchmark.name} takes none; leave it out")
    return None


def plan_runs(name: str, workers: Sequence[int], seeds: Sequence[int | None]) -> list[PlannedRun]:
    """Return the runs of a set in their order, with one repeat for each seed.

    Each repeat runs on all numbers of workers, so that a slow drift of the machine affects all
    alike. The largest number comes first: if there are too few workers, it is refused at once.
    Too many runs, or too long a name, raise UsageError.
    """
    if len(workers) * len(seeds) > _MOST_RUNS:
        raise UsageError(
            f"these are {len(workers) * len(seeds)} runs; at most {_MOST_RUNS} can be compared"
        )
    longest = LONGEST_NAME - len(_suffix(max(workers), len(seeds)))
    if len(name) > longest:
        raise UsageError(f"--name {name}: it may have at most {longest} characters")
    return [
        PlannedRun(name + _suffix(count, repeat), count, seed)
        for repeat, seed in enumerate(seeds, 1)
        for count in sorted(workers, reverse=True)
    ]


def _suffix(workers: int, repeat: int) -> str:
    return f"-w{workers}-r{repeat}"


def find_earlier(planned: Iterable[PlannedRun], runs: Iterable[Run]) -> dict[PlannedRun, Run]:
    """Return the runs of a set that exist: the newest of each name, unless it has failed."""
    newest = {run.name: run for run in runs}
    found = {one: newest[one.name] for one in planned if one.name in newest}
    return {one: run for one, run in found.items() if run.active or run.state == "FINISHED"}


def check_earlier(
    earlier: Mapping[PlannedRun, Run], order: Order, rules: Mapping[str, Sequence[Any]]
) -> None:
    """Make sure that earlier runs are what the set would order now, or raise UsageError.

    ``rules`` has the values that the task permits for each option, its default first.
    """
    for planned, run in earlier.items():
        differing = [*_differing(planned, run, order), *_differing_args(run, order, rules)]
        if differing:
            raise UsageError(
                f"run {run.id} ({run.name}) differs in {', '.join(differing)}: "
                "choose another --name, or delete it"
            )


def _differing(planned: PlannedRun, run: Run, order: Order) -> list[str]:
    wanted = asdict(order) | {
        "num_workers": planned.num_workers,
        "seed": planned.seed,
        "backend": (order.backend or run.backend).lower(),
    }
    # Restarts change nothing in what is measured.
    passed_over = ("title", "args", "max_restarts")
    return [
        name
        for name, value in wanted.items()
        if name not in passed_over and getattr(run, name) != value
    ]


def _differing_args(run: Run, order: Order, rules: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the options in which a run differs from an order of the same seed and goal."""
    # The master adds these options by itself.
    added = {"seed": True, "backend": True, "device": order.gpu_enabled, "goal": order.light_target}
    usual = {name for name, is_added in added.items() if is_added}
    usual |= {
        name for name, value in run.args.items() if value in map(str, rules.get(name, [])[:1])
    }
    return [
        f"option {name}"
        for name in sorted({*run.args, *order.args})
        if run.args.get(name) != order.args.get(name) and (name in order.args or name not in usual)
    ]


def seconds_left(
    finished: Sequence[tuple[PlannedRun, float]], waiting: Sequence[PlannedRun]
) -> float | None:
    """Return how long the waiting runs will take, or None before the first run has ended.

    The estimate of a run is the mean over runs with as many workers, or else over all.
    """
    if not finished:
        return None
    by_workers: dict[int, list[float]] = {}
    for one, seconds in finished:
        by_workers.setdefault(one.num_workers, []).append(seconds)
    every = [seconds for _, seconds in finished]
    return sum(mean(by_workers.get(one.num_workers, every)) for one in waiting)
