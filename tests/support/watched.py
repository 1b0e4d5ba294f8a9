"""Run training code as the ranks of a job, with the agent's ``sitecustomize``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.results import Stragglers
from mlbench.evaluation.inputs import Column, Columns
from mlbench.evaluation.stragglers import stragglers_of
from mlbench.evaluation.timeline import ClockCorrection
from tests.support.ranks import Rank, finish, start_ranks

DDP_TRAINING = ("-m", "tests.support.ddp_training")


@dataclass(frozen=True)
class WatchedJob:
    """The output and recorded values of a job's ranks."""

    printed: Sequence[str]
    columns: Columns
    """Recorded series."""
    not_recorded: Sequence[Mapping[str, int]]
    """The list of unrecorded values that rank 0 reported."""

    @property
    def stragglers(self) -> Stragglers | None:
        """Cost of stragglers."""
        return stragglers_of(self.columns, ClockCorrection([0], [0], 1 << 60, {}))

    def last(self, metric: str, rank: int = 0) -> float:
        """Return the last value of a metric."""
        return self.columns[metric][str(rank)].values[-1]


def run_watched(folder: Path, size: int, *command: str, **environ: str) -> WatchedJob:
    """Run ``python *command`` once for each rank, with one thread each. All must succeed."""
    folder.mkdir(exist_ok=True)
    ranks = start_ranks(folder, size, *command, watched=environ)
    printed = finish(ranks)
    recorded = [rank for rank in ranks if rank.metrics_file.exists()]
    columns: dict[str, dict[str, Column]] = {}
    for number, rank in enumerate(recorded):
        for metric, column in _columns(rank).items():
            columns.setdefault(metric, {})[str(number)] = column
    return WatchedJob(printed, columns, recorded[0].stated("not_recorded") if recorded else [])


def _columns(rank: Rank) -> Mapping[str, Column]:
    points: dict[str, dict[int, float]] = {}
    for line in rank.lines():
        values = line.get("metrics", {})
        step = {names.STEP: line["step"]} if "step" in line else {}
        for metric, value in {**values, **step}.items():
            points.setdefault(metric, {})[round(line["time"] * 1e6)] = float(value)
    return {metric: Column(list(at), list(at.values())) for metric, at in points.items()}
