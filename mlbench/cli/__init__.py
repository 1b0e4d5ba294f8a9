"""The command line: ``mlbench COMMAND``."""

from collections.abc import Callable
from typing import Annotated

import typer

from mlbench.cli import bench, compare, data, download, grafana, run, share, show, stack, verify
from mlbench.cli.command import Command
from mlbench.cli.order import CodeCommand
from mlbench.distribution import own_version

_COMMANDS: dict[str, Callable[..., None]] = {
    "up": stack.up,
    "down": stack.down,
    "demo": stack.demo,
    "open": show.open_page,
    "run": run.run,
    "status": show.status,
    "stop": run.stop,
    "delete": run.delete,
    "bench": bench.bench,
    "compare": compare.compare,
    "benchmarks": show.benchmarks,
    "data": data.data,
    "logs": show.logs,
    "metrics": show.metrics,
    "manifest": show.manifest,
    "download": download.download,
    "verify": verify.verify,
    "export": share.export,
    "import": share.import_,
    "publish": share.publish,
}


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"mlbench {own_version()}")
        raise typer.Exit


app = typer.Typer(
    name="mlbench",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for name, command in _COMMANDS.items():
    app.command(name, cls=CodeCommand if name in ("run", "bench") else Command)(command)
grafana.add_to(app)


@app.callback()
def _options_of_all(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Benchmark distributed machine learning, and trust the number."""
