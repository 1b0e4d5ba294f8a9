"""Extensions register objects by entry points. The core knows the groups, and loads what is there.

A package that is installed beside the core adds to a group in its ``pyproject.toml``::

    [project.entry-points."mlbench.frameworks"]
    mine = "my_package:FRAMEWORK"
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

Group = Literal[
    "mlbench.benchmarks",
    "mlbench.commands",
    "mlbench.downloads",
    "mlbench.evidence",
    "mlbench.frameworks",
    "mlbench.injectors",
    "mlbench.judgements",
    "mlbench.routes",
    "mlbench.scoring",
    "mlbench.sources",
    "mlbench.sweeps",
]
"""A group of entry points:

- ``mlbench.benchmarks``: benchmarks, as ``mlbench.benchmarks.benchmark.Benchmark``, which has the
  name of its entry point.
- ``mlbench.commands``: commands of the command line, as ``mlbench.cli.Commands``.
- ``mlbench.downloads``: formats of ``mlbench download``, as ``mlbench.cli.download.Write``.
- ``mlbench.evidence``: what agents gather of a rank on request, as
  ``mlbench_worker.agent.rank_recorder.Gather``. They need the standard library only.
- ``mlbench.frameworks``: frameworks that train official tasks in PyTorch's place, as
  ``mlbench_worker.training.frameworks.Framework``.
- ``mlbench.injectors``: what injects faults into a rank, as
  ``mlbench_worker.agent.rank_recorder.Injector``. They need the standard library only.
- ``mlbench.judgements``: what evidence says, as ``mlbench_master.runs.diagnoses.Judgement``.
- ``mlbench.routes``: routes of the REST API, as ``mlbench_master.services.Routes``.
- ``mlbench.scoring``: the rules that score official sets, as
  ``mlbench.evaluation.official_rules.Scoring``.
- ``mlbench.sources``: readers of values that programs report in other formats, as
  ``mlbench_worker.agent.sources.Source``. They need the standard library only.
- ``mlbench.sweeps``: what a sweep tells about its options, as
  ``mlbench.evaluation.sweeps.SweepAnalysis``.
"""


def registered(group: Group) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, in the order of the names."""
    return {entry.name: entry for entry in sorted(entry_points(group=group))}


def load_all(group: Group) -> dict[str, Any]:
    """Import the objects of a group, and return them by name."""
    return {name: entry.load() for name, entry in registered(group).items()}
