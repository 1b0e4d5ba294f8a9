"""``mlbench token``: named tokens of users, and joining tokens of external jobs."""

from typing import Annotated, cast, get_args

import typer
from rich.table import Table

from mlbench.cli.command import Command
from mlbench.cli.common import JsonOption, UsageError, connected, out, print_json
from mlbench.contract.people import Role

app = typer.Typer(no_args_is_help=True, add_completion=False)

_Days = Annotated[int, typer.Option(min=1, max=3650, help="Days until the token expires.")]


@app.command(cls=Command)
def create(
    user: Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")],
    role: Annotated[
        str, typer.Option(help=f"What the user may do: {', '.join(get_args(Role))}.")
    ] = "run",
    days: _Days = 365,
) -> None:
    """Create a token with a role for a user, and print it."""
    if role not in get_args(Role):
        raise UsageError(f"--role: must be one of {', '.join(get_args(Role))} (got {role!r})")
    with connected() as client:
        typer.echo(client.create_token(user, days, cast("Role", role)).result().value.token)


@app.command(cls=Command)
def join(
    days: _Days = 30,
    name: Annotated[str, typer.Option(help="User or purpose of the token.")] = "",
) -> None:
    """Create a joining token, which allows `mlbench record` to record jobs, and print it."""
    with connected() as client:
        typer.echo(client.create_token(name, days).result().value.token)


@app.command("list", cls=Command)
def list_(json: JsonOption = False) -> None:
    """List the tokens that have not expired."""
    with connected() as client:
        answer = client.get_tokens().result()
    if json:
        print_json(answer.json())
        return
    table = Table("id", "name", "role", "created", "expires", "last used", "runs", "", box=None)
    for token in answer.value:
        times = (token.created_at, token.expires_at, token.last_used_at)
        days = [time[:10] if time else "-" for time in times]
        revoked = "revoked" if token.revoked_at else ""
        table.add_row(token.id, token.name, token.role, *days, str(token.runs), revoked)
    out.print(table if answer.value else "no named tokens; `mlbench token create USER` creates one")


@app.command(cls=Command)
def revoke(
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the token in `mlbench token list`.")
    ],
) -> None:
    """Revoke a token: nobody can use it, or join with it, any more."""
    with connected() as client:
        client.revoke_token(token_id).result()
