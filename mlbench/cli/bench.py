"""``mlbench bench`` and ``watch``: a benchmark set, its progress, and its comparison."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from mlbench.cli import request, spec
from mlbench.cli.common import (
    FAILED,
    INTERRUPTED,
    JsonOption,
    UsageError,
    connected,
    err,
    print_outcome,
    value_or_none,
)
from mlbench.cli.compare import OutputsOption, check_files, write_and_show
from mlbench.cli.live import follow, patiently
from mlbench.cli.run_tables import show_last_values
from mlbench.client import ApiClient
from mlbench.contract import figures
from mlbench.contract.comparisons import MIN_LOOKED_AT
from mlbench.contract.records import Benchmark, Info, Planned, RunSet
from mlbench.contract.runspec import SWEPT
from mlbench.report.pages import of_master

_Sweeps = Mapping[str, Sequence[str]]
"""Swept values by key, in the order of the command line."""


def bench(
    ctx: typer.Context,
    task: request.TaskArgument,
    arguments: request.ArgumentsArgument = None,
    workers: Annotated[
        str, typer.Option(metavar="N,N...", help="Numbers of workers, separated by commas.")
    ] = "1,2",
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Runs for each number of workers.",
            show_default="5; 10 if official; at most 20 with --until",
        ),
    ] = None,
    until: Annotated[
        float | None,
        spec.quantity(
            spec.PERCENT,
            help="After five repeats, stop once every mean is known to this precision, e.g. 5%.",
        ),
    ] = None,
    official: Annotated[
        bool,
        typer.Option(
            "--official", help="Score by MLPerf's rules: every run counts, including crashed runs."
        ),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the benchmark set; an existing name resumes that set."),
    ] = None,
    bandwidth: spec.Bandwidth = None,
    latency: spec.Latency = None,
    loss: spec.Loss = None,
    cpus: Annotated[
        float | None,
        spec.declare(
            "num_cpus",
            "Cores of each worker, equal in all runs of the set. Without it, the largest number of "
            "workers shares the machine's cores.",
        ),
    ] = None,
    gpu: spec.Gpu = False,
    backend: spec.Backend = None,
    light: spec.Light = False,
    deadline: spec.Deadline = None,
    restarts: spec.Restarts = 0,
    faults: spec.Faults = None,
    oversubscribe: Annotated[
        bool,
        typer.Option("--oversubscribe", help="Let workers share cores; the report mentions it."),
    ] = False,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V1,V2",
            help="Run with each of these values of a benchmark option, or of bandwidth, latency, "
            "loss, cpus or faults. Your own code gets the value in place of {KEY}, or else as "
            "--KEY VALUE. Several sweeps run every combination (repeatable).",
        ),
    ] = None,
    settings: request.SettingsOption = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of the first repeat; each further repeat adds 1."),
    ] = None,
    image: request.ImageOption = None,
    from_stdout: request.FromStdoutOption = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return once the set is registered.")
    ] = False,
    output: OutputsOption = None,
    json: JsonOption = False,
) -> None:
    """Run a benchmark on several numbers of workers, and compare the runs.

    The master submits the runs, also after Ctrl-C, and waits for other active runs. Exit code 1 if
    a run did not finish.
    """
    common = spec.common_of(ctx)
    with connected() as client:
        check_files(output or [])
        counts = read_workers(workers)
        benchmarks = {item.name: item for item in client.get_benchmarks().result().value}
        info = client.get_info().result().value
        is_local = info.pool == "local"
        code = request.read_code(task, arguments or [], image, benchmarks, local=is_local)
        if from_stdout:
            code = code.with_printed_values()
        sweeps = read_sweeps(sweep)
        cores = [
            share_cores(info, max(counts), each, oversubscribe=oversubscribe)
            for each in (map(float, sweeps["cpus"]) if "cpus" in sweeps else [cpus])
        ]
        common = replace(common, num_cpus=cpus if "cpus" in sweeps else cores[0])
        if is_local and not json and max(counts) * max(cores) >= info.limits.cpus:
            text = f"{max(counts)} workers use all {info.limits.cpus:g} cores, and share them with"
            text += " MLBench's processes. The report shows the CPU contention of each rank."
            err.print(text, soft_wrap=True)
        fields = code.request_fields(common, settings)
        default = 10 if official else 5
        runs = repeats or (default if until is None else 20)
        if until is not None and runs <= MIN_LOOKED_AT:
            raise UsageError(
                f"--until: needs more than {MIN_LOOKED_AT} repeats (got {runs}). "
                "Increase --repeats."
            )
        benchmark = benchmarks.get(code.benchmark or "")
        seeds = [seed_of_repeat(benchmark, seed, repeat) for repeat in range(runs)]
        slots = plan_places(counts, seeds, sweeps)
        room = len(f"-w{max(counts)}-c{len(slots)}-r{runs}")
        set_name = request.make_name(code.title, room) if name is None else name
        registered = client.create_set(
            set_name, slots, official=official, until_percent=until, **fields
        )
        run_set = registered.result().value
        if not run_set.is_active:
            run_set = client.resume_set(set_name).result().value
        if not json:
            about = f"registered {run_set.created_at}, plan {run_set.plan_sha256}"
            err.print(f"set {run_set.name}: {about}", soft_wrap=True)
        if not detach:
            _watch_and_compare(client, run_set, output or [], as_json=json)
            return
    hint = f"`mlbench watch {set_name}` shows the set, `mlbench stop {set_name}` stops it"
    print_outcome(run_set.fields, hint, as_json=json)


def watch(
    name: Annotated[str, typer.Argument(metavar="SET", help="Name of a benchmark set.")],
    output: OutputsOption = None,
    json: JsonOption = False,
) -> None:
    """Show the runs of a benchmark set until its end, and compare them.

    Exit code 1 if a run did not finish.
    """
    with connected() as client:
        check_files(output or [])
        run_set = client.get_set(name).result().value
        _watch_and_compare(client, run_set, output or [], as_json=json)


def _watch_and_compare(
    client: ApiClient, run_set: RunSet, files: Sequence[Path], *, as_json: bool
) -> None:
    try:
        ended = _watch_runs(client, run_set, quiet=as_json)
    except KeyboardInterrupt:
        name = run_set.name
        text = f"set {name} continues: `mlbench watch {name}` shows it, `mlbench stop {name}` stops"
        err.print(f"{text} it", soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    if not as_json:
        err.print(f"set {ended.name}: ledger {ended.ledger_sha256}", soft_wrap=True)
    if ended.counted:
        comparison = client.compare(ended.counted).result().value
        write_and_show(of_master(client), comparison, files, as_json=as_json)
        if not as_json and not any(result.target for result in comparison.results):
            _show_last_values(client, ended)
    tried = [slot for slot in ended.slots if slot.trials]
    if missing := sum(not slot.finished for slot in tried):
        err.print(f"{missing} of {len(tried)} runs did not finish", style="red")
    if missing or ended.state == "stopped":
        raise typer.Exit(FAILED)


def _show_last_values(client: ApiClient, run_set: RunSet) -> None:
    """Print the last values of a set without a target, once they are known of all runs."""
    deadline = time.monotonic() + 5.0
    while True:
        found = patiently(client.get_set_analysis, run_set.name).last_values
        known = (mean.count == values.runs for values in found for mean in values.means.values())
        is_complete = sum(values.runs for values in found) == len(run_set.counted) and all(known)
        if is_complete or time.monotonic() > deadline:
            break
        time.sleep(0.3)
    if found:
        show_last_values(found)


def _watch_runs(client: ApiClient, run_set: RunSet, *, quiet: bool) -> RunSet:
    """Show the runs of a set until the master submits no more of them, and return the set."""
    name, state = run_set.name, ("running", "")
    shown = {trial.run_id for trial in run_set.trials if not trial.active}

    def tell(text: str, style: str | None = None) -> None:
        if not quiet:
            err.print(text, style=style, soft_wrap=True)

    while True:
        for trial in sorted(run_set.trials, key=lambda trial: trial.run_id):
            run = None if trial.run_id in shown else value_or_none(client.get_run(trial.run_id))
            shown.add(trial.run_id)
            if run is None:
                continue
            slot = run_set.slots[trial.slot - 1]
            seconds_left = client.get_set_analysis(name).result().value.seconds_left
            when = (
                ""
                if seconds_left is None
                else f", about {figures.whole_seconds(seconds_left)} left"
            )
            swept = f" ({figures.pairs(slot.swept)})" if slot.swept else ""
            tell(f"run {slot.number} of {len(run_set.slots)}: {slot.name}{swept}{when}")
            run = follow(client, run, quiet=quiet)
            if run.state != "FINISHED":
                tell(f"run {run.id} ({run.title}): {run.state}: {run.reason}", style="red")
        if (run_set.state, run_set.reason) != state:
            state = run_set.state, run_set.reason
            tell(f"set {name}: {': '.join(filter(None, state))}")
        if not run_set.is_active:
            return run_set
        time.sleep(0.3)
        run_set = patiently(client.get_set, name)


# --- Decisions, without side effects ---


def read_workers(text: str) -> list[int]:
    """Return the numbers in ``1,2,4`` in ascending order; raise UsageError for another form."""
    if not re.fullmatch(r"0*[1-9][0-9]*(,0*[1-9][0-9]*)*", text):
        raise UsageError(f"--workers: must be numbers separated by commas, e.g. 1,2,4 (got {text})")
    return sorted({int(part) for part in text.split(",")})


def share_cores(info: Info, workers: int, requested: float | None, *, oversubscribe: bool) -> float:
    """Return the cores of each worker of a set with up to this many workers.

    On this machine, each worker gets whole cores. A cluster has enough machines.

    Raises:
        UsageError: workers would share cores, and ``oversubscribe`` is not set.
    """
    cores = info.limits.cpus
    if info.pool != "local":
        return requested or cores
    each = requested or max(1.0, float(cores // workers))
    if workers * each > cores and not oversubscribe:
        raise UsageError(
            f"--workers: {workers} workers need {workers * each:g} cores, but this machine has "
            f"{cores:g}. Choose fewer --workers or --cpus, or add --oversubscribe, which the "
            "report mentions."
        )
    return each


def read_sweeps(sweeps: Sequence[str] | None) -> _Sweeps:
    """Return the values of each ``--sweep KEY=V1,V2``; raise UsageError for another form."""
    values_of: dict[str, Sequence[str]] = {}
    for sweep in sweeps or ():
        key, _, listed = sweep.partition("=")
        values = listed.split(",")
        if key in SWEPT and (option := SWEPT[key][1]).is_number:
            try:
                # The API expects values without units.
                values = [
                    value
                    if value in ("", option.swept_out)
                    else f"{spec.read_quantity(value, option):.15g}"
                    for value in values
                ]
            except typer.BadParameter as error:
                raise UsageError(f"--sweep {sweep}: {error.message}") from None
        if not key or not all(values):
            raise UsageError(f"--sweep {sweep}: must be KEY=V1,V2, e.g. bandwidth=20,100")
        if key in values_of:
            raise UsageError(f"--sweep {sweep}: {key} is swept twice. Give all values at once.")
        if len({*values}) < len(values):
            raise UsageError(f"--sweep {sweep}: values must differ")
        values_of[key] = values
    return values_of


def plan_places(
    workers: Sequence[int], seeds: Sequence[int | None], sweeps: _Sweeps
) -> list[Planned]:
    """Return the runs of a set: for each seed, one of each combination and number of workers.

    All runs of a repeat have the same seed, so that they do equal work. To spread a drift of the
    machine evenly, every second repeat runs in reverse order, and each pair of repeats starts at
    another combination.
    """
    combinations = [dict(zip(sweeps, values, strict=True)) for values in product(*sweeps.values())]
    runs = [(count, swept) for swept in combinations for count in sorted(workers, reverse=True)]
    pairs = (len(seeds) + 1) // 2
    slots = []
    for repeat, seed in enumerate(seeds):
        first = repeat // 2 * len(runs) // pairs
        rotated = [*runs[first:], *runs[:first]]
        repeated = reversed(rotated) if repeat % 2 else rotated
        slots += [Planned(count, seed, swept) for count, swept in repeated]
    return slots


def seed_of_repeat(benchmark: Benchmark | None, seed: int | None, repeat: int) -> int | None:
    """Return the seed of a repeat, counted from 0; None if the benchmark does not take a seed.

    Raises:
        UsageError: a seed for a benchmark that does not take one.
    """
    if benchmark is None or benchmark.takes_seed:
        return (1 if seed is None else seed) + repeat
    if seed is not None:
        raise UsageError(f"--seed: {benchmark.name} does not take a seed. Leave it out.")
    return None
