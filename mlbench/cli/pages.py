"""``mlbench open``, and the addresses of the web pages that other commands print."""

import html
import webbrowser
from typing import Annotated
from urllib.parse import urlencode

import typer

from mlbench.cli.common import JsonOption, connected, err, find_run, out, print_json
from mlbench.client.connection import find_connection
from mlbench.home import Connection, Home, write_private

_WAY_IN = """\
<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0;url={url}">
<title>MLBench</title>
<a href="{url}">MLBench</a>
"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("open")(open_page)


def open_page(
    wanted: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Id or name.")] = None,
    json: JsonOption = False,
) -> None:
    """Open the web pages, or the one of a run, in the browser, and sign in there."""
    path = "/"
    with connected() as client:
        connection = find_connection()
        if wanted is not None:
            path = run_path(find_run(client, wanted).id)
    shown = page_url(connection, path)
    opened = _open_signed_in(connection, path)
    if json:
        print_json({"web_url": shown, "opened": opened})
        return
    out.print(shown, soft_wrap=True)
    if not opened:
        err.print("there is no browser here: open this address in yours", style="yellow")


def page_url(connection: Connection, path: str = "/") -> str:
    """Return the address of a page to open: with the token, if that is the user's alone."""
    if connection.elsewhere:
        return f"{connection.url}{path}"
    return _signed_in_url(connection, path)


def run_path(run_id: int) -> str:
    """Return the path of a run's page."""
    return f"/runs/{run_id}"


def _open_signed_in(connection: Connection, path: str) -> bool:
    """Have a browser open a page, and return whether there is one.

    It is given a file that only this user can read: a command line, everyone on this machine can.
    """
    url = html.escape(_signed_in_url(connection, path))
    file = Home.from_environ().sign_in_page
    write_private(file, _WAY_IN.format(url=url))
    return webbrowser.open(file.as_uri())


def _signed_in_url(connection: Connection, path: str) -> str:
    return f"{connection.url}{path}?{urlencode({'token': connection.token})}"
