"""The command line: one file for each group of commands."""

import typer

from mlbench.cli import bench, comparing, download, grafana, pages, read, runs, stack

app = typer.Typer(
    name="mlbench",
    help="Benchmark distributed machine learning, and trust the number.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
stack.add_to(app)
pages.add_to(app)
runs.add_to(app)
bench.add_to(app)
comparing.add_to(app)
read.add_to(app)
download.add_to(app)
grafana.add_to(app)
