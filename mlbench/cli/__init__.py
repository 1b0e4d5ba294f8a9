"""The command line: ``mlbench COMMAND``. A call imports the module of its command alone."""

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mlbench.contract.distribution import own_version

# Of each, the function with its module, and what `mlbench --help` says of it: the first sentence of
# its own help.
_COMMANDS: Mapping[str, tuple[str, str]] = {
    "up": ("stack.up", "Start the stack: Prometheus, master, exporter, workers, Grafana."),
    "down": ("stack.down", "Stop the local stack."),
    "demo": ("stack.demo", "Start the stack, run a benchmark, and show the result."),
    "open": ("show.open_page", "Open the web pages, or that of a run, signed in."),
    "run": ("run.run", "Run a benchmark or your own code, and show how it goes."),
    "record": (
        "record.record",
        "Run a command that Slurm, torchrun, Kubernetes or a shell starts, and record it.",
    ),
    "ship": ("record.ship", "Ship what `mlbench record` could not, as the master was away."),
    "status": ("show.status", "Show the newest runs, workers and alerts, or one run."),
    "runs": (
        "show.runs",
        "List the runs that match a query, with columns of choice, or groups of them.",
    ),
    "stop": ("run.stop", "Stop a run, and wait until it has."),
    "edit": ("run.edit", "Change the title, the tags or the note of a run, also after its end."),
    "delete": (
        "run.delete",
        "Delete runs with their series and archives; an active run is stopped first.",
    ),
    "prune": ("prune.prune", "Delete the runs that ended longer ago; imported ones stay."),
    "bench": ("bench.bench", "Run a benchmark on several numbers of workers, and compare."),
    "compare": (
        "compare.compare",
        "Compare runs: time to accuracy, speed-up, and whether that is fair.",
    ),
    "benchmarks": ("show.benchmarks", "List what can be run, or the options of one benchmark."),
    "data": ("data.data", "Fetch the texts that sotu-lstm and sotu-gpt need."),
    "logs": ("show.logs", "Print what a rank writes to stdout or stderr."),
    "autopsy": ("autopsy.autopsy", "Say why a run does not go on, and which rank is at fault."),
    "stacks": ("autopsy.stacks", "Show where all ranks of a run are in their code, as one tree."),
    "profile": (
        "profile.profile",
        "Show what a rank spends its time on, by PyTorch's profiler or py-spy.",
    ),
    "fault": ("fault.fault", "Have a failure hit a rank of a run that is going on."),
    "files": ("files.files", "List the files that a run left, or download them."),
    "metrics": ("show.metrics", "Show a run's metrics, or the values of one."),
    "manifest": ("show.manifest", "Show what a run ran, and on which machines."),
    "download": ("download.download", "Download a run's metrics: every value of every series."),
    "verify": ("verify.verify", "Check the archive of a run: digests, counts, and its result."),
    "export": ("share.export", "Write the archive of a run, or those of a set, to a file."),
    "import": ("share.import_", "Show runs of elsewhere beside your own, read only."),
    "publish": ("share.publish", "Make a static site of archives."),
    "token": ("token.app", "Make, list or revoke tokens for recording external jobs."),
    "grafana": ("grafana.app", "Install Grafana, or bring dashboards to one."),
}


def load_command(name: str) -> Any:
    """Import a command; a name that there is not raises KeyError."""
    path, _ = _COMMANDS[name]
    module, _, function = path.partition(".")
    command = getattr(import_module(f"mlbench.cli.{module}"), function)
    if isinstance(command, typer.Typer):
        return typer.main.get_command(command)
    from mlbench.cli.command import Command  # noqa: PLC0415
    from mlbench.cli.order import CodeCommand  # noqa: PLC0415

    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name, cls=CodeCommand if name in {"run", "bench"} else Command)(command)
    return typer.main.get_command(single)


class _Commands(TyperGroup):
    """All commands: those of the list have their summaries alone."""

    _is_listed = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            name: TyperCommand(name, help=summary) for name, (_, summary) in _COMMANDS.items()
        }

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None."""
        found = super().get_command(ctx, cmd_name)
        return load_command(cmd_name) if found and not self._is_listed else found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the list."""
        self._is_listed = True
        super().format_help(ctx, formatter)


def _print_version(asked: bool) -> None:
    if asked:
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
