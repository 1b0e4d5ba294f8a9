"""The command line: ``mlbench COMMAND``. Only the module of the command is imported."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mlbench.contract.distribution import own_version
from mlbench.contract.extensions import load_all

Commands = Mapping[str, tuple[str, str]]
"""Commands by name: the value of an entry point of ``mlbench.commands``.

Each has its ``module:function``, and its line in `mlbench --help`, which is also the first sentence
of the command's help.
"""
# Modules of this package.
_COMMANDS: Commands = {
    "up": (
        "stack:up",
        "Start the local stack: Prometheus, master, exporter, workers and Grafana.",
    ),
    "down": ("stack:down", "Stop the local stack."),
    "demo": ("stack:demo", "Start the stack, run a benchmark, and show its result."),
    "open": ("show:open_page", "Open the web pages, or one run's page, signed in."),
    "run": ("run:run", "Run a benchmark or your own code, and show its progress."),
    "record": (
        "record:record",
        "Record a command started by Slurm, torchrun, Kubernetes or a shell.",
    ),
    "ship": (
        "record:ship",
        "Send the data that `mlbench record` kept while the master was unreachable.",
    ),
    "status": ("show:status", "Show the newest runs, workers and alerts, or one run."),
    "runs": (
        "show:runs",
        "List the runs that match a query, or the means of groups of runs.",
    ),
    "stop": ("run:stop", "Stop a run or a benchmark set, and wait until it has stopped."),
    "edit": ("run:edit", "Change the title, tags or note of a run."),
    "delete": (
        "run:delete",
        "Delete runs with their series and archives; active runs are stopped first.",
    ),
    "prune": (
        "prune:prune",
        "Delete runs by age or total size, except imported and pinned ones.",
    ),
    "bench": (
        "bench:bench",
        "Run a benchmark on several numbers of workers, and compare the runs.",
    ),
    "watch": ("bench:watch", "Show the runs of a benchmark set until its end, and compare them."),
    "compare": (
        "compare:compare",
        "Compare runs: time to target, speedup, and whether the comparison is fair.",
    ),
    "benchmarks": ("show:benchmarks", "List the benchmarks, or the options of one."),
    "fetch-data": (
        "fetch_data:fetch_data",
        "Download the datasets of benchmarks that need them.",
    ),
    "logs": ("show:logs", "Print the stdout or stderr of a rank."),
    "explain": (
        "explain:explain",
        "Explain why a run was slow or failed, and what it cost.",
    ),
    "files": ("files:files", "List or download the output files of a run."),
    "metrics": (
        "show:metrics",
        "List the metrics of a run, or print the values of one.",
    ),
    "manifest": ("manifest:manifest", "Show the code, settings and machines of a run."),
    "download": ("download:download", "Download the values of all series of a run."),
    "verify": (
        "verify:verify",
        "Check the archive of a run: digests, counts and result.",
    ),
    "token": (
        "token:app",
        "Create, list or revoke tokens of users and of external jobs.",
    ),
    "grafana": (
        "grafana:app",
        "Install Grafana, or push dashboards to an existing one.",
    ),
}


@cache
def all_commands() -> Commands:
    """Return the commands of the core, then the commands of extensions."""
    commands = {
        name: (f"{__name__}.{path}", summary) for name, (path, summary) in _COMMANDS.items()
    }
    for added in load_all("mlbench.commands").values():
        commands |= added
    return commands


def load_command(name: str) -> Any:
    """Import a command by its name; raise KeyError if there is no such command."""
    path, summary = all_commands()[name]
    module, _, function = path.partition(":")
    command = getattr(import_module(module), function)
    if isinstance(command, typer.Typer):
        command.info.help = summary
        return typer.main.get_command(command)
    from mlbench.cli.command import Command  # noqa: PLC0415
    from mlbench.cli.request import CodeCommand  # noqa: PLC0415

    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name, cls=CodeCommand if name in {"run", "bench"} else Command)(command)
    return typer.main.get_command(single)


class _Commands(TyperGroup):
    """The group of all commands. The list of commands imports none of them."""

    _is_listed = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            name: TyperCommand(name, help=summary) for name, (_, summary) in all_commands().items()
        }

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        return load_command(cmd_name) if command and not self._is_listed else command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._is_listed = True
        super().format_help(ctx, formatter)


def _print_version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"mlbench {own_version()}")
        raise typer.Exit


app = typer.Typer(
    name="mlbench", cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False
)


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
