"""``mlbench compare``, and printing and writing of comparisons."""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mlbench.archive import SUFFIX
from mlbench.cli.common import (
    JsonOption,
    UsageError,
    connected,
    find_run,
    out,
    print_json,
    warn,
    writing,
)
from mlbench.cli.spec import DURATION, quantity
from mlbench.contract.comparisons import Comparison
from mlbench.contract.distribution import how_to_install
from mlbench.evaluation import sandbox
from mlbench.evaluation.inputs import Criteria, read_target
from mlbench.report import tables
from mlbench.report.pages import ReadRuns, comparison_page, of_archives, of_master
from mlbench.report.statement import lists, subtitle, title

_PAGE, _JSON = ".html", ".json"
_STYLES = {"yes": "green", "no": "red"}  # others are yellow
# Minimum width of the column with the name of a group or run.
_MIN_TEXT = 10

OutputsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Also write the comparison to a file: .html or .json (repeatable).",
    ),
]


def compare(
    run_names: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="Ids or names of runs, or archives of runs or benchmark sets."
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Target to compare by: 'METRIC>=VALUE' or 'METRIC<=VALUE'.",
            show_default="the targets of the runs",
        ),
    ] = None,
    after: Annotated[
        float | None,
        quantity(
            DURATION,
            help="Time limit for the accuracy after time, e.g. 10m.",
            show_default="the deadline, or 2h",
        ),
    ] = None,
    price: Annotated[float | None, typer.Option(min=0.0, help="Price of a worker-second.")] = None,
    group: Annotated[
        str,
        typer.Option(
            metavar="SETTING,...",
            help="Settings to group runs by, separated by commas.",
            show_default="all",
        ),
    ] = "",
    output: OutputsOption = None,
    json: JsonOption = False,
) -> None:
    """Compare runs: time to target, speedup, and whether the comparison is fair."""
    files = output or []
    check_files(files)
    group_by = tuple(filter(None, group.split(",")))
    if archives := [
        Path(name) for name in run_names if name.endswith(SUFFIX) or Path(name).is_file()
    ]:
        if len(archives) < len(run_names):
            raise UsageError(
                "RUN: cannot compare files with runs of a master. Export the runs first."
            )
        try:
            criteria = Criteria(read_target(target) if target else None, after, price, group_by)
            comparison, digests = sandbox.compare(archives, criteria)
        except ValueError as error:
            raise UsageError(f"--target: {error}") from None
        _warn_of_target(target, comparison)
        write_and_show(of_archives(archives, digests), comparison, files, as_json=json)
        return
    with connected() as client:
        ids = [find_run(client, run).id for run in run_names]
        response = client.compare(
            ids, target=target, after_seconds=after, price=price, group_by=group_by
        )
        comparison = response.result().value
        _warn_of_target(target, comparison)
        write_and_show(of_master(client), comparison, files, as_json=json)


def _warn_of_target(requested_target: str | None, comparison: Comparison) -> None:
    target = comparison.results[0].target
    if (
        requested_target
        and target
        and all(result.best_value is None for result in comparison.results)
    ):
        warn(f"--target: no run has recorded {target.metric}")


def check_files(files: Iterable[Path]) -> None:
    """Raise UsageError, before any run starts, if a file cannot be written."""
    for file in files:
        suffix = file.suffix.lower()
        if suffix not in (_PAGE, _JSON):
            raise UsageError(f"-o {file}: name must end with {_PAGE} or {_JSON}")
        if file.is_dir():
            raise UsageError(f"-o {file}: is a folder")
        if not file.absolute().parent.is_dir():
            raise UsageError(f"-o {file}: folder {file.parent} not found")
        if suffix == _PAGE and not find_spec("jinja2"):
            raise UsageError(f"-o {file}: requires jinja2. Run {how_to_install('report')}.")


def write_and_show(
    read: ReadRuns,
    comparison: Comparison,
    files: Sequence[Path],
    *,
    as_json: bool,
) -> None:
    """Write a comparison to files, and print it even if that fails.

    Raises:
        UsageError: a file could not be written.
    """
    try:
        for file in files:
            if file.suffix.lower() == _PAGE:
                from mlbench.report.page import render  # noqa: PLC0415 - in the extra `report`

                runs = read([result.run_id for result in comparison.results])
                text = render(comparison_page(comparison, runs))
            else:
                text = dumps(comparison.to_fields(), indent=2) + "\n"
            with writing(file):
                file.write_text(text, encoding="utf-8")
    finally:
        if as_json:
            print_json(comparison.to_fields())
        else:
            show_comparison(comparison)
    if not as_json:
        for file in files:
            out.print(f"written: {file}", soft_wrap=True)


def show_comparison(comparison: Comparison) -> None:
    """Print a comparison: whether it is fair, then its tables."""
    out.print(title(comparison), style="bold")
    out.print(subtitle(comparison))
    findings = comparison.findings
    if findings.sentence:
        out.print(findings.sentence, style=_STYLES.get(findings.verdict, "yellow"))
    for heading, texts in lists(findings):
        if heading:
            out.print(heading, style="yellow")
        for text in texts:
            if out.is_terminal:
                out.print(Padding(Text(text), (0, 0, 0, 2), expand=False))
            else:
                out.print(f"  {text}", soft_wrap=True)
    for table in tables.tables(comparison):
        if comparison.sweep and table.title not in (tables.SWEEP, tables.FAILURES):
            continue
        out.print()
        out.print(table.title, style="bold")
        if table.note:
            out.print(table.note, style="dim")
        out.print(_lay_out(table))
    if comparison.sweep:
        out.print("\nFor all figures and plots: -o FILE.html", style="dim")


def _lay_out(table: tables.ReportTable) -> RenderableType:
    """Lay out a table; on a narrow terminal without minor columns, closer, or as lists."""
    every = range(len(table.columns))
    major = [i for i in every if not table.columns[i].is_minor]
    unlimited = out.options.update(max_width=10_000)
    for columns, gap, can_fold in ((every, 2, False), (major, 2, False), (major, 1, True)):
        grid = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
        for column in (table.columns[i] for i in columns):
            # One word per line, so that a heading is not wider than the numbers.
            grid.add_column(
                "\n".join(f"{column.text} {column.unit}".split()),
                justify="right" if column.is_figure else "left",
                no_wrap=column.is_figure,
                overflow="fold",
                min_width=None if column.is_figure else _MIN_TEXT,
            )
        for row in table.rows:
            grid.add_row(*(row[i] for i in columns))
        width = Measurement.get(out, unlimited, grid)
        if (width.minimum if can_fold else width.maximum) <= out.width:
            return grid
    name = next(i for i, column in enumerate(table.columns) if not column.is_figure)
    lists: list[RenderableType] = []
    for row in table.rows:
        figures = Table.grid(padding=(0, 2))
        figures.add_column(overflow="fold")
        figures.add_column(justify="right", no_wrap=True)
        for i, (column, cell) in enumerate(zip(table.columns, row, strict=True)):
            if i != name:
                figures.add_row(Text(f"{column.text} {column.unit}".strip()), Text(cell))
        lists += [Text(row[name], style="italic"), Padding(figures, (0, 0, 0, 2), expand=False)]
    return Group(*lists)
