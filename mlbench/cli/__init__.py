"""The command line: ``mlbench COMMAND``. A call imports the module of its command alone."""

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from mlbench.distribution import own_version


class _Command(NamedTuple):
    function: str
    """In which module it is, and its name."""
    summary: str
    """What `mlbench --help` says of it: the first sentence of its own help."""


_COMMANDS: Mapping[str, _Command] = {
    "up": _Command("stack.up", "Start the stack: Prometheus, master, exporter, workers, Grafana."),
    "down": _Command("stack.down", "Stop the local stack."),
    "demo": _Command("stack.demo", "Start the stack, run a benchmark, and show the result."),
    "open": _Command("show.open_page", "Open the web pages, or that of a run, signed in."),
    "run": _Command("run.run", "Run a benchmark or your own code, and show how it goes."),
    "record": _Command(
        "record.record",
        "Run a command that Slurm, torchrun, Kubernetes or a shell starts, and record it.",
    ),
    "ship": _Command(
        "record.ship", "Ship what `mlbench record` could not, as the master was away."
    ),
    "status": _Command("show.status", "Show the newest runs, workers and alerts, or one run."),
    "runs": _Command(
        "show.runs", "List the runs that match a query, with columns of choice, or groups of them."
    ),
    "stop": _Command("run.stop", "Stop a run, and wait until it has."),
    "edit": _Command(
        "run.edit", "Change the title, the tags or the note of a run, also after its end."
    ),
    "delete": _Command("run.delete", "Delete a run; one that is active is stopped first."),
    "prune": _Command("prune.prune", "Delete the runs that ended longer ago; imported ones stay."),
    "bench": _Command("bench.bench", "Run a benchmark on several numbers of workers, and compare."),
    "compare": _Command(
        "compare.compare", "Compare runs: time to accuracy, speed-up, and whether that is fair."
    ),
    "benchmarks": _Command(
        "show.benchmarks", "List what can be run, or the options of one benchmark."
    ),
    "data": _Command("data.data", "Fetch the texts that sotu-lstm and sotu-gpt need."),
    "logs": _Command("show.logs", "Print what a rank writes to stdout or stderr."),
    "autopsy": _Command(
        "autopsy.autopsy", "Say why a run does not go on, and which rank is at fault."
    ),
    "stacks": _Command(
        "autopsy.stacks", "Show where all ranks of a run are in their code, as one tree."
    ),
    "profile": _Command(
        "profile.profile", "Show what a rank spends its time on, by PyTorch's profiler or py-spy."
    ),
    "fault": _Command("fault.fault", "Have a failure hit a rank of a run that is going on."),
    "files": _Command("files.files", "List the files that a run left, or download them."),
    "metrics": _Command("show.metrics", "Show a run's metrics, or every value of one."),
    "manifest": _Command("show.manifest", "Show what a run ran, and on which machines."),
    "download": _Command(
        "download.download", "Download a run's metrics: every value of every series."
    ),
    "verify": _Command(
        "verify.verify", "Check the archive of a run: digests, counts, and its result."
    ),
    "export": _Command("share.export", "Write the archive of a run, or those of a set, to a file."),
    "import": _Command("share.import_", "Show runs of elsewhere beside your own, read only."),
    "publish": _Command("share.publish", "Make a static site of archives."),
    "token": _Command("token.token", "Print a token for recording jobs that others start."),
    "grafana": _Command("grafana.app", "Bring dashboards to a Grafana."),
}


def load_command(name: str) -> Any:
    """Import a command; a name that there is not raises KeyError."""
    module, _, function = _COMMANDS[name].function.partition(".")
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
            name: TyperCommand(name, help=command.summary) for name, command in _COMMANDS.items()
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
