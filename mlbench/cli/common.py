"""What all commands share: the client, finding a run, errors as exit codes, JSON."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mlbench import names
from mlbench.client import ApiClient, ApiError, Run
from mlbench.client.connection import find_connection
from mlbench.errors import MLBenchError
from mlbench.home import Connection

FAILED = 1
WRONG_CALL = 2
INTERRUPTED = 130

_UNAUTHORIZED = 401
_HINTS = {
    _UNAUTHORIZED: f"is ${names.ENV_TOKEN} the token of this master?",
    403: f"is ${names.ENV_TOKEN} the user's token, not the agents'?",
    421: f"${names.ENV_URL} must call it by a name or address that it knows",
}

# A pipe has no edge at which a line would have to be cut.
_PIPE_WIDTH = 1000


def _console(*, stderr: bool) -> Console:
    # Names and values are the user's: printed as they are, with no meaning to [this] or :this:.
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


out = _console(stderr=False)
err = _console(stderr=True)

RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Id or name of the run; of several with a name the newest."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class WrongCallError(MLBenchError):
    """The command was called with what cannot be."""


@contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Say what is wrong in one line, and exit with 2."""
    try:
        yield
    except MLBenchError as error:
        err.print(f"mlbench: {error}", style="red", soft_wrap=True)
        raise typer.Exit(WRONG_CALL) from None


@contextmanager
def connected(connection: Connection | None = None) -> Iterator[ApiClient]:
    """Give a client of a master; what goes wrong ends the command.

    ``connection`` is by default what the environment names, or else the running stack.
    """
    with errors_as_exit_codes():
        place = connection or find_connection()
        with _hints(place), ApiClient.from_connection(place) as client:
            yield client


@contextmanager
def _hints(place: Connection) -> Iterator[None]:
    """Say of a master elsewhere that lets nobody in what the environment may have wrong."""
    try:
        yield
    except ApiError as error:
        if not place.elsewhere or error.status not in _HINTS:
            raise
        # What a master says of a wrong token is where a local stack keeps the right one.
        said = "the token" if error.status == _UNAUTHORIZED else f"({error})"
        hint = _HINTS[error.status]
        raise MLBenchError(f"the master at {place.url} refuses {said}: {hint}") from error


def find_run(client: ApiClient, wanted: str) -> Run:
    """Return the run with an id, or the newest one with a name.

    Raises:
        ApiError: there is no run with this id.
        WrongCallError: there is no run with this name.
    """
    if wanted.isascii() and wanted.isdecimal():
        return client.get_run(int(wanted)).result().value
    named = [run for run in client.get_runs().result().value if run.name == wanted]
    if not named:
        raise WrongCallError(f"there is no run {wanted!r}; `mlbench status` lists them")
    return named[-1]


def print_pairs(pairs: Iterable[tuple[str, str | Text]]) -> None:
    """Print labels, each with its text beside it."""
    rows = list(pairs)
    if not out.is_terminal:
        # In a pipe nothing is cut, so a table would fill every line up to the longest.
        width = max((len(label) for label, _ in rows), default=0)
        for label, text in rows:
            typer.echo(f"{label:<{width}}  {text}".rstrip())
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, text)
    out.print(table)


def print_json(content: object) -> None:
    """Print JSON, for programs."""
    typer.echo(json.dumps(content, indent=2))
