"""``mlbench bench``: a benchmark set, run by run, and its comparison."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

import typer

from mlbench.cli import outputs
from mlbench.cli.alerts import AlertWatch
from mlbench.cli.common import (
    FAILED,
    INTERRUPTED,
    JsonOption,
    connected,
    err,
)
from mlbench.cli.comparing import write_and_show
from mlbench.cli.live import follow
from mlbench.cli.matrix import (
    Cell,
    cells,
    check_earlier,
    find_earlier,
    longest_suffix,
    read_workers,
    seconds_left,
)
from mlbench.cli.options import (
    ArgumentsArgument,
    BackendOption,
    BandwidthOption,
    CpusOption,
    DeadlineOption,
    GpuOption,
    ImageOption,
    LightOption,
    QueueOption,
    RestartsOption,
    SettingsOption,
    TaskArgument,
)
from mlbench.cli.ordering import Order, make_name, read_code, read_order, seed_of_repeat
from mlbench.cli.outputs import OutputsOption
from mlbench.client import ApiClient, Run
from mlbench.client.connection import find_connection
from mlbench.report import figures


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(bench)


def bench(
    task: TaskArgument,
    arguments: ArgumentsArgument = None,
    workers: Annotated[
        str, typer.Option(metavar="N,N...", help="Numbers of workers, separated by commas.")
    ] = "1,2",
    repeats: Annotated[int, typer.Option(min=1, help="Runs for each number of workers.")] = 5,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the set; the same one again goes on where it was interrupted."),
    ] = None,
    cpus: CpusOption = None,
    bandwidth: BandwidthOption = None,
    settings: SettingsOption = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the first repeat; each other has the next.")
    ] = None,
    light: LightOption = False,
    backend: BackendOption = None,
    gpu: GpuOption = False,
    restarts: RestartsOption = 0,
    deadline: DeadlineOption = None,
    image: ImageOption = None,
    queue: QueueOption = False,
    output: OutputsOption = None,
    json: JsonOption = False,
) -> None:
    """Run a benchmark on several numbers of workers, several times each, and compare.

    Exits with 1 if a run did not finish.
    """
    files = output or []
    with connected() as client:
        outputs.check(files)
        counts = read_workers(workers)
        known = {one.name: one for one in client.get_benchmarks().result().value}
        code = read_code(task, arguments or [], image, [*known])
        order = read_order(
            code,
            settings=settings or [],
            num_cpus=cpus,
            max_bandwidth=bandwidth,
            backend=backend,
            gpu=gpu,
            light=light,
            restarts=restarts,
            deadline_seconds=deadline,
        )
        official = known.get(code.benchmark or "")
        seeds = [seed_of_repeat(official, seed, repeat) for repeat in range(repeats)]
        called = name or make_name(code.title, room=longest_suffix(counts, repeats))
        wanted = cells(called, counts, seeds)
        earlier = find_earlier(wanted, client.get_runs().result().value)
        check_earlier(earlier, order, official.rules if official else {})
        show = _Progress(wanted, earlier, quiet=json)
        try:
            ended = _run_all(client, order, earlier, show, queue=queue)
        except KeyboardInterrupt:
            again = _again(None if name else called)
            err.print(f"interrupted: this run goes on; for the rest: {again}", soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from None
        finished = [run.id for run in ended if run.state == "FINISHED"]
        missing = len(wanted) - len(finished)
        if finished:
            comparison = client.compare(finished).result().value
            write_and_show(client, comparison, files, left_out=missing, as_json=json)
    if missing:
        err.print(f"{missing} of {len(wanted)} runs did not finish, and are left out", style="red")
        raise typer.Exit(FAILED)


class _Progress:
    """Says which run of how many goes on, and how long the rest takes."""

    def __init__(self, wanted: Sequence[Cell], earlier: Mapping[Cell, Run], *, quiet: bool) -> None:
        self.wanted = wanted
        self.quiet = quiet
        self._waiting = [cell for cell in wanted if cell not in earlier or earlier[cell].active]
        self._took: list[tuple[Cell, float]] = []

    def begin(self, cell: Cell) -> None:
        """Tell that a run begins, or that it is there already."""
        left = seconds_left(self._took, self._waiting)
        if cell not in self._waiting:
            when = " is there already"
        else:
            when = "" if left is None else f", about {figures.whole_seconds(left)} left"
        self._print(f"run {self.wanted.index(cell) + 1} of {len(self.wanted)}: {cell.name}{when}")

    def end(self, cell: Cell, run: Run) -> None:
        """Tell how a run ended, and note how long it took."""
        if cell in self._waiting:
            self._waiting.remove(cell)
        if run.started_at and run.finished_at:
            began, ended = map(datetime.fromisoformat, (run.started_at, run.finished_at))
            self._took.append((cell, (ended - began).total_seconds()))
        if run.state != "FINISHED":
            self._print(f"run {run.id} ({run.name}): {run.state}: {run.reason}", style="red")

    def _print(self, text: str, style: str | None = None) -> None:
        if not self.quiet:
            err.print(text, style=style, soft_wrap=True)


def _run_all(
    client: ApiClient,
    order: Order,
    earlier: Mapping[Cell, Run],
    show: _Progress,
    *,
    queue: bool,
) -> list[Run]:
    """Run what has not been run, and return all runs of the set."""
    prometheus_url = find_connection().prometheus_url
    ended: list[Run] = []
    for cell in show.wanted:
        show.begin(cell)
        run = earlier.get(cell)
        if run is None:
            # Once the set has begun, it waits for what others order meanwhile.
            waits = queue or bool(ended)
            run = order.place(client, cell.name, cell.num_workers, cell.seed, queue=waits)
        if run.active:
            run = follow(client, run, AlertWatch(prometheus_url, run.id), quiet=show.quiet)
        show.end(cell, run)
        ended.append(run)
    return ended


def _again(name: str | None) -> str:
    """Return the command that goes on with this set: the same one, with the name it was given."""
    command, *words = sys.argv[1:]
    named = ["--name", name] if name else []
    return shlex.join(["mlbench", command, *named, *words])
