"""``mlbench download``: the metrics of a run as a file."""

import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

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
    out,
    print_json,
    writing,
)
from mlbench.cli.event_files import write_event_files
from mlbench.client import ApiClient
from mlbench.home import replacing
from mlbench.opened import open_runs
from mlbench.records import Run

_TENSORBOARD: Final = "tensorboard"
_PARQUET: Final = "parquet"
Kind = Literal["zip", "csv", "json", "mllog", "parquet", "tensorboard"]
_FORMATS: tuple[Kind, ...] = get_args(Kind)
_STDOUT = Path("-")


def download(
    wanted: RunArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write; - is stdout, metrics_NAME.zip the default. For tensorboard, a "
            "new folder.",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        Kind | None, typer.Option(help="Format of the file; by default what its name ends with.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Download a run's metrics: every value of every series."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that nothing is left behind
    with connected() as client:
        kind = format or _guess_format(output)
        if output == _STDOUT and (json or sys.stdout.isatty() or kind in {_TENSORBOARD, _PARQUET}):
            raise UsageError("-o -: stdout must be a file or a pipe, and --json must not be given")
        run = find_run(client, wanted)
        target = output or Path(f"metrics_{run.name}.{kind}")
        try:
            size = _save(client, run, kind, target)
        except KeyboardInterrupt:
            err.print("interrupted; nothing was written")
            raise typer.Exit(INTERRUPTED) from None
    if json:
        print_json({"file": str(target), "format": kind, "bytes": size})
    elif target != _STDOUT:
        out.print(f"{target}: {size:,} bytes", soft_wrap=True)


def _guess_format(output: Path | None) -> Kind:
    if output is None or output == _STDOUT:
        return "zip"
    for known in _FORMATS:
        if output.suffix.lower() == f".{known}":
            return known
    raise UsageError(
        f"-o {output}: its name ends with none of {', '.join(_FORMATS)}; give --format"
    )


def _save(client: ApiClient, run: Run, kind: Kind, target: Path) -> int:
    """Write the metrics of a run to a file or to stdout, and return their size in bytes."""
    if kind == _TENSORBOARD:
        return _save_event_files(client, run, target)
    if kind == _PARQUET:
        return _save_parquet(client, run, target)
    if target == _STDOUT:
        with _progress(run) as show:
            size = client.download(run.id, sys.stdout.buffer, format=kind, on_progress=show)
        sys.stdout.buffer.flush()
        return size
    place = target.resolve()
    if place.exists() and not place.is_file():
        raise UsageError(f"-o {target}: it exists and is no regular file")
    with writing(target), replacing(place) as file, _progress(run) as show:
        return client.download(run.id, file, format=kind, on_progress=show)


def _save_parquet(client: ApiClient, run: Run, target: Path) -> int:
    """Write the table of a run, with a row for each value."""
    _, parquet = pyarrow()
    table = open_runs(run.id, client).table()
    with writing(target), replacing(target.resolve()) as file:
        parquet.write_table(table, file)
        return file.tell()


def _save_event_files(client: ApiClient, run: Run, target: Path) -> int:
    """Write a folder of event files: the whole of it, or none."""
    place = target.resolve()
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as draft:
        made = Path(draft, "made")
        with writing(target):
            with _progress(run) as show:
                size = write_event_files(client, run, made, show)
            made.rename(place)
    return size


@contextmanager
def _progress(run: Run) -> Iterator[Callable[[int, int | None], None]]:
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
