"""``mlbench compare``: any runs beside each other; and how a comparison is printed."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.measure import Measurement
from rich.table import Table

from mlbench.cli import outputs
from mlbench.cli.common import JsonOption, connected, find_run, out, print_json
from mlbench.cli.options import read_duration
from mlbench.cli.outputs import OutputsOption
from mlbench.report import tables
from mlbench.report.statement import statement, subtitle, title
from mlbench.results import Comparison

_STYLES = {"yes": "green", "no": "red", "unknown": "yellow"}
# Columns of a group's or run's name, before it is folded.
_LEAST_TEXT = 10
_UNLIMITED = 10_000


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)


def compare(
    wanted: Annotated[list[str], typer.Argument(metavar="RUN", help="Ids or names of runs.")],
    goal: Annotated[
        str | None,
        typer.Option(
            metavar="GOAL",
            help="Judge by 'METRIC>=VALUE' or 'METRIC<=VALUE', instead of by the runs' own goals.",
        ),
    ] = None,
    after: Annotated[
        float | None,
        typer.Option(
            parser=read_duration, metavar="TIME", help="For accuracy after time, e.g. 10m, 2h."
        ),
    ] = None,
    price: Annotated[float | None, typer.Option(min=0.0, help="Of a worker for a second.")] = None,
    output: OutputsOption = None,
    json: JsonOption = False,
) -> None:
    """Compare runs: time to accuracy, speed-up, where the time went, and whether that is fair."""
    files = output or []
    with connected() as client:
        outputs.check(files)
        ids = [find_run(client, run).id for run in wanted]
        found = client.compare(ids, goal=goal, after_seconds=after, price=price).result().value
        outputs.write(files, found, client)
    if json:
        print_json(found.to_fields())
        return
    show_comparison(found)
    outputs.tell(files)


def show_comparison(comparison: Comparison) -> None:
    """Print a comparison: its statement, then its tables."""
    out.print(title(comparison), style="bold")
    out.print(subtitle(comparison))
    said = statement(comparison)
    if said.sentence:
        out.print(said.sentence, style=_STYLES[said.comparable])
    _show_list(said.reasons)
    if said.departures:
        out.print("departures from the rules of the task:", style="yellow")
        _show_list(said.departures)
    if said.differences:
        out.print("what else differs:")
        _show_list(said.differences)
    for table in tables.tables(comparison):
        out.print()
        out.print(table.title, style="bold")
        if table.note:
            out.print(table.note, style="dim")
        out.print(_draw(table))


def _show_list(texts: tuple[str, ...]) -> None:
    for text in texts:
        out.print(f"  {text}")


def _draw(table: tables.Table) -> Table:
    """Lay a table out; where the terminal is narrow, closer and without minor columns."""
    every = range(len(table.headings))
    major = [i for i in every if not table.headings[i].is_minor]
    layouts = (_lay_out(table, columns, gap) for columns, gap in ((every, 2), (major, 2)))
    unlimited = out.options.update(max_width=_UNLIMITED)
    fitting = (one for one in layouts if Measurement.get(out, unlimited, one).maximum <= out.width)
    return next(fitting, _lay_out(table, major, gap=1))


def _lay_out(table: tables.Table, columns: Sequence[int], gap: int) -> Table:
    drawn = Table(
        box=None,
        pad_edge=False,
        padding=(0, gap, 0, 0),
    )
    for heading in (table.headings[i] for i in columns):
        # Words one below the other, so that a heading is no wider than its figures.
        words = f"{heading.text} {heading.unit}".split()
        drawn.add_column(
            "\n".join(words),
            justify="right" if heading.is_figure else "left",
            no_wrap=heading.is_figure,
            overflow="fold",
            min_width=None if heading.is_figure else _LEAST_TEXT,
        )
    for row in table.rows:
        drawn.add_row(*(row[i] for i in columns))
    return drawn
