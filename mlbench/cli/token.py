"""``mlbench token join``: a token with which jobs are recorded that MLBench does not start."""

import time
from typing import Annotated, Literal

import typer

from mlbench import join_token
from mlbench.cli.common import connected
from mlbench.discovery import find_connection

_DAY_SECONDS = 24 * 3600


def token(
    kind: Annotated[
        Literal["join"], typer.Argument(metavar="KIND", help="join: it reaches one route alone.")
    ],
    days: Annotated[int, typer.Option(min=1, max=3650, help="How many days it is good for.")] = 30,
) -> None:
    """Print a token for recording jobs that others start."""
    connection = find_connection()
    with connected(connection) as client:
        client.get_info().result()  # a token that the master refuses would sign in vain
    expires_at = int(time.time()) + days * _DAY_SECONDS
    typer.echo(join_token.make(connection.token, expires_at, join_token.new_holder()))
