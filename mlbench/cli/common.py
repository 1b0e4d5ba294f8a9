"""Shared by all commands: the client, finding a run, exit codes, printing."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mlbench.client import ApiClient
from mlbench.client.transport import Response
from mlbench.contract import names
from mlbench.contract.errors import ApiError, MLBenchError
from mlbench.contract.humanize import visible
from mlbench.contract.records import Run, RunSet
from mlbench.local.discovery import find_connection
from mlbench.local.home import StackConnection

Value = TypeVar("Value")

# Exit codes.
FAILED = 1
WRONG_CALL = 2
INTERRUPTED = 130

_HINTS = {
    401: f"is ${names.ENV_TOKEN} the token of this master?",
    403: f"is ${names.ENV_TOKEN} the user's token, not the agents'?",
    421: f"${names.ENV_URL} must contain a host name or address that the master accepts",
}


class _SafeConsole(Console):
    """A console that escapes control characters, which texts of runs and archives may contain.

    Colours and cursor movements by rich itself are not escaped.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape a string before tables are laid out."""
        return super().render_str(visible(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def _console(*, stderr: bool) -> Console:
    # Markup and emoji are off: [this] and :this: have no meaning in names and values.
    console = _SafeConsole(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 1000  # so that no line is cut in a pipe
    return console


out = _console(stderr=False)
err = _console(stderr=True)

RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Id or name of a run; the newest if several have the name."),
]
RunOrSetArgument = Annotated[
    str,
    typer.Argument(metavar="RUN|SET", help="Id or name of a run, or name of a benchmark set."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


class UsageError(MLBenchError):
    """An argument or option is wrong."""


@contextmanager
def connected(connection: StackConnection | None = None) -> Iterator[ApiClient]:
    """Connect to a master; by default the master in the environment, or else the local stack.

    If a remote master refuses, the error hints at the environment variable to check.
    """
    place = connection or find_connection()
    try:
        with ApiClient.from_connection(place) as client:
            yield client
    except ApiError as error:
        if not place.elsewhere or error.status not in _HINTS:
            raise
        # The message of the master would name the token file of a local stack.
        refused = "the token" if error.status == HTTPStatus.UNAUTHORIZED else f"({error})"
        raise MLBenchError(
            f"the master at {place.url} refused {refused}: {_HINTS[error.status]}"
        ) from error


def find_run(client: ApiClient, run_name: str) -> Run:
    """Return the run with an id, or the newest run with a name.

    An unknown id raises ApiError, an unknown name UsageError.
    """
    run = client.find_run(run_name)
    if run is None:
        raise UsageError(f"run {run_name!r} not found. `mlbench status` lists runs.")
    return run


def find_run_or_set(client: ApiClient, name: str) -> Run | RunSet:
    """Return the run or else the benchmark set with a name; UsageError if there is neither."""
    try:
        return find_run(client, name)
    except UsageError:
        run_set = value_or_none(client.get_set(name))
        if run_set is None:
            raise UsageError(
                f"run or set {name!r} not found. `mlbench status` lists runs."
            ) from None
        return run_set


@contextmanager
def open_run(run_name: str) -> Iterator[tuple[ApiClient, Run]]:
    """Connect to a master, and find a run there with ``find_run``."""
    with connected() as client:
        yield client, find_run(client, run_name)


def confirm(question: str) -> None:
    """Ask the user, and abort unless the answer is yes.

    Raises:
        UsageError: standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError("--yes: required if standard input is not a terminal")
    typer.confirm(question, abort=True)


def value_or_none(answer: Future[Response[Value]]) -> Value | None:
    """Return the value of an answer; None if the master responded 404."""
    try:
        return answer.result().value
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    return None


def wait_until_sealed(client: ApiClient, run: Run) -> None:
    """Wait up to 30 s for the archive of a run; raise UsageError if the run is active."""
    if run.active:
        raise UsageError(
            f"run {run.id} ({run.title}) is active. Wait for its end, or run "
            f"`mlbench stop {run.id}` first."
        )
    # Runs are sealed within a few seconds of their end.
    until = time.monotonic() + 30.0
    while run.archive is None and not run.archive_problem and time.monotonic() < until:
        time.sleep(0.3)
        run = client.get_run(run.id).result().value


def warn(text: str) -> None:
    """Print a warning, unwrapped, to stderr."""
    err.print(text, style="yellow", soft_wrap=True)


def print_pairs(pairs: Iterable[tuple[str, str | Text]]) -> None:
    """Print two columns: labels, and a text for each."""
    rows = list(pairs)
    if not out.is_terminal:
        # A table would pad every line to the width of the longest.
        width = max((len(label) for label, _ in rows), default=0)
        for label, text in rows:
            print_line(f"{label:<{width}}  {text}".rstrip())
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, text)
    out.print(table)


def print_line(text: str) -> None:
    """Print a plain line with escaped control characters, much faster than ``out.print``."""
    typer.echo(visible(text).replace("\r", "\\r"))


def print_json(content: object) -> None:
    """Print JSON for programs."""
    typer.echo(json.dumps(content, indent=2))


def print_outcome(fields: object, *lines: str, as_json: bool) -> None:
    """Print the outcome of a command: fields as JSON, or lines for people."""
    if as_json:
        print_json(fields)
    else:
        out.print("\n".join(lines), soft_wrap=True)


@contextmanager
def writing(target: Path, option: str = "-o ") -> Iterator[None]:
    """Turn an OSError into a UsageError about an option; an empty one is an argument."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{option}{target}: {error.strerror or error}") from None
