"""``mlbench benchmarks``, ``logs``, ``metrics``, ``manifest``: what can be run, what a run left."""

import time
from dataclasses import asdict
from typing import Annotated, Literal

import typer
from rich.table import Table

from mlbench.cli.common import (
    JsonOption,
    RunArgument,
    WrongCallError,
    connected,
    find_run,
    out,
    print_json,
    print_pairs,
)
from mlbench.client import ApiClient, Point, Run, Series
from mlbench.names import StreamName
from mlbench.report.manifest import facts

_FOLLOW_SECONDS = 0.3


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(benchmarks)
    app.command()(logs)
    app.command()(metrics)
    app.command()(manifest)


def benchmarks(json: JsonOption = False) -> None:
    """List what `mlbench run` can run."""
    with connected() as client:
        found = client.get_benchmarks().result().value
    if json:
        print_json([benchmark.fields for benchmark in found])
        return
    table = Table.grid(padding=(0, 2))
    for benchmark in found:
        table.add_row(benchmark.name, benchmark.description)
    out.print(table)


def logs(
    wanted: RunArgument,
    rank: Annotated[int, typer.Option(min=0, help="The rank that wrote it.")] = 0,
    stream: Annotated[
        Literal["stdout", "stderr"], typer.Option(help="The stream it wrote to.")
    ] = "stdout",
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Of a run that was restarted; else the latest one.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run ends.")] = False,
    json: JsonOption = False,
) -> None:
    """Print what a rank writes to stdout or stderr."""
    with connected() as client:
        run = find_run(client, wanted)
        if json:
            text = _read(client, run, rank, stream, attempt)
            print_json({"rank": rank, "stream": stream, "text": text})
            return
        offset = 0
        while True:
            # Asked before reading: what is read after the end is all there is.
            active = client.get_run(run.id).result().value.active
            asked = client.get_logs(run.id, rank, stream, offset=offset, attempt=attempt)
            page = asked.result().value
            typer.echo(page.text, nl=False)
            if page.offset == offset:
                if not (follow and active):
                    return
                time.sleep(_FOLLOW_SECONDS)
            offset = page.offset


def metrics(
    wanted: RunArgument,
    metric: Annotated[str | None, typer.Option(help="Only this one, every value.")] = None,
    json: JsonOption = False,
) -> None:
    """Show a run's metrics: an overview, or every value of one."""
    with connected() as client:
        run = find_run(client, wanted)
        series = client.get_run_metrics(run.id, metric_filter=metric).result().value
        if metric is not None and not series:
            raise WrongCallError(
                f"run {run.id} has no metric {metric!r}; `mlbench metrics {run.id}` lists them"
            )
    if json:
        print_json(
            {name: [_point_fields(point) for point in points] for name, points in series.items()}
        )
        return
    if metric is None:
        _show_overview(series)
    else:
        _show_values(series)


def manifest(wanted: RunArgument, json: JsonOption = False) -> None:
    """Show what a run ran and on which machines; as JSON with every package's version."""
    with connected() as client:
        found = client.get_manifest(find_run(client, wanted).id).result().value
    if json:
        print_json(found)
        return
    print_pairs((fact.name, fact.text) for fact in facts(found))


def _point_fields(point: Point) -> dict[str, object]:
    """Return a point as the API writes it."""
    return {key: value for key, value in asdict(point).items() if value is not None}


def _show_overview(series: Series) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("metric", overflow="fold")
    for heading in ("values", "first", "last"):
        table.add_column(heading, justify="right")
    for name, points in series.items():
        table.add_row(name, f"{len(points):,}", _short(points[0]), _short(points[-1]))
    out.print(table)


def _show_values(series: Series) -> None:
    # Plain lines: there can be a million, more than a table can be laid out for.
    width = max(len(name) for name in series)
    for name, points in series.items():
        for point in points:
            typer.echo(f"{name:{width}}  {point.date}  {point.value}")


def _read(client: ApiClient, run: Run, rank: int, stream: StreamName, attempt: int | None) -> str:
    pieces: list[str] = []
    offset = 0
    while True:
        asked = client.get_logs(run.id, rank, stream, offset=offset, attempt=attempt)
        page = asked.result().value
        if page.offset == offset:
            return "".join(pieces)
        pieces.append(page.text)
        offset = page.offset


def _short(point: Point) -> str:
    try:
        return f"{point.number:.6g}"
    except ValueError:
        return point.value[:20]
