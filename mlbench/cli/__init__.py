"""The command line: ``mlbench COMMAND``."""

from collections.abc import Callable

import typer

from mlbench.cli import bench, compare, download, grafana, look, run, stack

_COMMANDS: dict[str, Callable[..., None]] = {
    "up": stack.up,
    "down": stack.down,
    "demo": stack.demo,
    "open": look.open_page,
    "run": run.run,
    "status": look.status,
    "stop": run.stop,
    "delete": run.delete,
    "bench": bench.bench,
    "compare": compare.compare,
    "benchmarks": look.benchmarks,
    "logs": look.logs,
    "metrics": look.metrics,
    "manifest": look.manifest,
    "download": download.download,
}

app = typer.Typer(
    name="mlbench",
    help="Benchmark distributed machine learning, and trust the number.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for name, command in _COMMANDS.items():
    app.command(name)(command)
grafana.add_to(app)
