"""``mlbench download``: metrics of a run as a file."""

import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

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
from mlbench.contract.atomic_files import replacing
from mlbench.contract.extensions import registered
from mlbench.contract.records import Run

_PARQUET: Final = "parquet"
_ADDED = registered("mlbench.downloads")
if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal["zip", "csv", "json", "parquet", *_ADDED]
_FORMATS: tuple[str, ...] = ("zip", "csv", "json", _PARQUET, *_ADDED)
_STDOUT = Path("-")

Write = Callable[[ApiClient, Run, Path, OnProgress], int]
"""Function that writes a run to a new file or folder: an entry point of ``mlbench.downloads``.

It returns the size in bytes. The name of the entry point is the format, and the ending of a file.
"""


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
    """Download the values of all series of a run.

    Only parquet has the values that a restart discarded.
    """
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
        unsuitable = (_PARQUET, *_ADDED)
        if output == _STDOUT and (json or sys.stdout.isatty() or kind in unsuitable):
            raise UsageError(
                "-o -: requires a file or pipe as stdout, no --json, and a format other than "
                f"{', '.join(unsuitable)}"
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


def _save(client: ApiClient, run: Run, kind: str, target: Path) -> int:
    """Write the metrics of a run to a file or to stdout, and return their size in bytes."""
    place = target.resolve()
    if kind in _ADDED:
        write: Write = _ADDED[kind].load()
        # A temporary folder, so that an interrupted download leaves no incomplete files.
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as draft:
            content = Path(draft, "content")
            with writing(target):
                with _progress(run) as show:
                    size = write(client, run, content, show)
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
