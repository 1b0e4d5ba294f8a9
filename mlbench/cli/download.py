"""``mlbench download``: the metrics of a run as a file."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

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
)
from mlbench.client import ApiClient, Format
from mlbench.home import replacing
from mlbench.records import Run

_FORMATS: tuple[Format, ...] = get_args(Format)
_STDOUT = Path("-")


def download(
    wanted: RunArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write; - is stdout, metrics_NAME.zip the default.",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        Format | None, typer.Option(help="Format of the file; by default what its name ends with.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Download a run's metrics: every value of every series."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that nothing is left behind
    with connected() as client:
        kind = format or _guess_format(output)
        if output == _STDOUT and (json or sys.stdout.isatty()):
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


def _guess_format(output: Path | None) -> Format:
    if output is None or output == _STDOUT:
        return "zip"
    for known in _FORMATS:
        if output.suffix.lower() == f".{known}":
            return known
    raise UsageError(
        f"-o {output}: its name ends with none of {', '.join(_FORMATS)}; give --format"
    )


def _save(client: ApiClient, run: Run, kind: Format, target: Path) -> int:
    """Write the metrics of a run to a file or to stdout, and return their size in bytes."""
    if target == _STDOUT:
        with _progress(run) as show:
            size = client.download(run.id, sys.stdout.buffer, format=kind, on_progress=show)
        sys.stdout.buffer.flush()
        return size
    place = target.resolve()
    if place.exists() and not place.is_file():
        raise UsageError(f"-o {target}: it exists and is no regular file")
    try:
        with replacing(place) as file, _progress(run) as show:
            return client.download(run.id, file, format=kind, on_progress=show)
    except OSError as error:
        raise UsageError(f"-o {target}: {error.strerror or error}") from None


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
        task = bar.add_task(f"run {run.id} ({run.name})", total=None)
        yield lambda received, total: bar.update(task, completed=received, total=total)
