"""``mlbench download``: metrics of a run as a file."""

import csv
import io
import signal
import sys
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal, NamedTuple, get_args

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from mlbench.archive import pyarrow
from mlbench.cli.common import (
    INTERRUPTED,
    JsonOption,
    RunArgument,
    UsageError,
    connected,
    err,
    find_run,
    print_outcome,
    writing,
)
from mlbench.client import ApiClient
from mlbench.client.run_data import open_runs
from mlbench.client.transport import OnProgress
from mlbench.contract import names
from mlbench.contract.atomic_files import replacing
from mlbench.contract.records import Run
from mlbench.contract.series import split_name
from mlbench.tracking.tensorboard import Scalar, first_record, to_record

_TENSORBOARD: Final = "tensorboard"
_PARQUET: Final = "parquet"
Kind = Literal["zip", "csv", "json", "mllog", "parquet", "tensorboard"]
_FORMATS: tuple[Kind, ...] = get_args(Kind)
_STDOUT = Path("-")
# TensorBoard recognizes its files by this name.
_EVENT_FILE = "events.out.tfevents.{began:.0f}.mlbench.{run}.0"


def download(
    run_name: RunArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write, or - for stdout. For tensorboard, a new folder.",
            show_default="metrics_NAME.zip",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        Kind | None,
        typer.Option(help="Format of the file.", show_default="the ending of its name"),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Download every value of every series of a run."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that partial files are removed
    with connected() as client:
        is_file = output is not None and output != _STDOUT
        ending = output.suffix.lower().removeprefix(".") if output and is_file else "zip"
        kind = format or next((known for known in _FORMATS if known == ending), None)
        if kind is None:
            raise UsageError(
                f"-o {output}: name must end with one of {', '.join(_FORMATS)}. Or add --format."
            )
        if output == _STDOUT and (json or sys.stdout.isatty() or kind in {_TENSORBOARD, _PARQUET}):
            raise UsageError(
                "-o -: requires a file or pipe as stdout, no --json, and a format other than "
                f"{_TENSORBOARD} and {_PARQUET}"
            )
        run = find_run(client, run_name)
        target = output or Path(f"metrics_{run.resource_name}.{kind}")
        try:
            size = _save(client, run, kind, target)
        except KeyboardInterrupt:
            err.print("interrupted; nothing was written")
            raise typer.Exit(INTERRUPTED) from None
    if target != _STDOUT:
        fields = {"file": str(target), "format": kind, "bytes": size}
        print_outcome(fields, f"{target}: {size:,} bytes", as_json=json)


def _save(client: ApiClient, run: Run, kind: Kind, target: Path) -> int:
    """Write the metrics of a run to a file or to stdout, and return their size in bytes."""
    place = target.resolve()
    if kind == _TENSORBOARD:
        # A temporary folder, so that an interrupted download leaves no incomplete event files.
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as draft:
            content = Path(draft, "content")
            with writing(target):
                with _progress(run) as show:
                    size = _write_event_files(client, run, content, show)
                content.rename(place)
        return size
    if kind == _PARQUET:
        _, parquet = pyarrow()
        table = open_runs(run.id, client).table()
        with writing(target), replacing(place) as file:
            parquet.write_table(table, file)
            return file.tell()
    if target == _STDOUT:
        with _progress(run) as show:
            size = client.download(run.id, sys.stdout.buffer, format=kind, on_progress=show)
        sys.stdout.buffer.flush()
        return size
    if place.exists() and not place.is_file():
        raise UsageError(f"-o {target}: exists and is not a regular file")
    with writing(target), replacing(place) as file, _progress(run) as show:
        return client.download(run.id, file, format=kind, on_progress=show)


class _Row(NamedTuple):
    metric: str
    rank: str
    time: float
    value: float


def _write_event_files(client: ApiClient, run: Run, folder: Path, on_progress: OnProgress) -> int:
    """Write the numbers of a run into a new folder, and return the size of all files in bytes.

    The step of a value is the last one that its rank recorded, or else the position of the value in
    its series. Strings are left out.

    Raises:
        OSError: the disk is full, or the folder exists.
    """
    folder.mkdir(parents=True)
    with tempfile.TemporaryFile() as table, ExitStack() as stack:
        client.download(run.id, table, format="csv", on_progress=on_progress)
        steps: dict[str, list[tuple[float, int]]] = {}
        for row in _rows(table):
            if row.metric == names.STEP and row.value.is_integer():
                steps.setdefault(row.rank, []).append((row.time, int(row.value)))
        files: dict[str, BinaryIO] = {}
        places: Counter[tuple[str, str]] = Counter()
        for row in _rows(table):
            if row.rank not in files:
                place = folder / (f"rank-{row.rank}" if row.rank else "posted")
                place.mkdir()
                file = place / _EVENT_FILE.format(began=row.time, run=run.id)
                files[row.rank] = stack.enter_context(file.open("xb"))
                files[row.rank].write(first_record(row.time))
            of_rank = steps.get(row.rank, [])
            position = bisect_right(of_rank, row.time, key=lambda recorded: recorded[0])
            step = of_rank[position - 1][1] if position else places[row.metric, row.rank]
            places[row.metric, row.rank] += 1
            files[row.rank].write(to_record(Scalar(row.metric, row.time, step, row.value)))
        return sum(file.tell() for file in files.values())


def _rows(table: BinaryIO) -> Iterator[_Row]:
    table.seek(0)
    text = io.TextIOWrapper(table, encoding="utf-8", newline="")
    try:
        for line in csv.DictReader(text):
            metric, rank = split_name(line["series"])
            try:
                value = float(line["value"])
            except ValueError:
                continue
            yield _Row(metric, rank, datetime.fromisoformat(line["date"]).timestamp(), value)
    finally:
        text.detach()


@contextmanager
def _progress(run: Run) -> Iterator[OnProgress]:
    """Draw a progress bar on a terminal, and give the function that updates it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(f"run {run.id} ({run.title})", total=None)
        yield lambda received, total: bar.update(task, completed=received, total=total)
