"""What the ranks of a run are told to run: an official task, or the user's own command."""

import shlex
from collections.abc import Sequence

from master.benchmarks import BENCHMARKS
from master.models import Run
from master.runs import mlbench_options

# The part of a rank that leaves the work to rank 0: with MPI, the command itself starts them all.
_NOTHING = ["true"]


def command(run: Run, rank: int, hosts: Sequence[str], python: str) -> list[str]:
    """Return the command of a rank.

    Args:
        run: what is to be run.
        rank: of the worker.
        hosts: the workers' addresses in order of rank.
        python: the Python that has the official tasks.
    """
    if run.benchmark:
        options = [part for key, value in run.args.items() for part in (f"--{key}", value)]
        return [python, "-m", BENCHMARKS[run.benchmark].module, *options]
    if rank > 0 and not run.run_all_nodes:
        return _NOTHING
    return [
        *(_fill_in(word, run, rank, hosts) for word in shlex.split(run.command)),
        *mlbench_options(run),
    ]


def _fill_in(word: str, run: Run, rank: int, hosts: Sequence[str]) -> str:
    """Replace what MLBench's commands have in braces; other braces stay as they are."""
    values = {
        "hosts": ",".join(hosts),
        "rank": str(rank),
        "run_id": str(run.id),
        "backend": run.backend,
    }
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word
