"""``mlbench token``: tokens with which external jobs are recorded."""

from typing import Annotated

import typer
from rich.table import Table

from mlbench.cli.command import Command
from mlbench.cli.common import JsonOption, connected, out, print_json
from mlbench.local.discovery import find_connection

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command(cls=Command)
def join(
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days until the token expires.")] = 30,
    name: Annotated[str, typer.Option(help="User or purpose of the token.")] = "",
) -> None:
    """Create a joining token, which allows `mlbench record` to record jobs, and print it."""
    with connected(find_connection()) as client:
        typer.echo(client.create_token(name, days).result().value.token)


@app.command("list", cls=Command)
def list_(json: JsonOption = False) -> None:
    """List the joining tokens that have not expired."""
    with connected(find_connection()) as client:
        answer = client.get_tokens().result()
    if json:
        print_json(answer.json())
        return
    table = Table("id", "name", "created", "expires", "last used", "runs", "", box=None)
    for token in answer.value:
        times = (token.created_at, token.expires_at, token.last_used_at)
        days = [time[:10] if time else "-" for time in times]
        revoked = "revoked" if token.revoked_at else ""
        table.add_row(token.id, token.name, *days, str(token.runs), revoked)
    out.print(table if answer.value else "no joining tokens; `mlbench token join` creates one")


@app.command(cls=Command)
def revoke(
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the token in `mlbench token list`.")
    ],
) -> None:
    """Revoke a joining token, so that no more processes can join with it."""
    with connected(find_connection()) as client:
        client.revoke_token(token_id).result()
