"""``/api/runs/{id}/result/`` and ``/api/compare/``: results and comparisons of runs."""

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Annotated

from falcon import Request, Response

from mlbench.contract.comparisons import Comparison
from mlbench.contract.conversion import parse_whole_number
from mlbench.contract.fields import Before, Field
from mlbench.contract.names import ACTIVE_STATES
from mlbench.contract.records import RunCurve, Target
from mlbench.contract.results import Breakdown, Goodput, Result
from mlbench.evaluation.inputs import OWN_CRITERIA, Criteria, read_target
from mlbench_master.database.models import Run
from mlbench_master.openapi.operation import operation
from mlbench_master.openapi.parameters import Names
from mlbench_master.reading.series import SeriesReader
from mlbench_master.results.result_curves import small_curves
from mlbench_master.results.result_query import breakdown_of, comparison_of, result_of
from mlbench_master.runs import lifecycle
from mlbench_master.runs.requests import MAX_RUNS

_LARGEST = 1e12
_NUMBER = r"[+-]?[0-9]{1,50}(\.[0-9]{1,50})?([eE][+-]?[0-9]{1,2})?"
_Target = Annotated[str, Field(schema={"pattern": rf"^[^ \x00][^\x00]*(>=|<=){_NUMBER}$"})]
_ID = "[0-9]{1,18}"
_Ids = Annotated[str, Field(schema={"pattern": f"^{_ID}(,{_ID}){{0,{MAX_RUNS - 1}}}$"})]
# Slower results, such as those of a thousand ranks, are reused for a multiple of their duration.
_SLOW_SECONDS, _REUSE_FACTOR = 1.0, 10


def _read_ids(text: str) -> list[int]:
    parts = text.split(",")
    ids = [number for number in map(parse_whole_number, parts) if number is not None]
    if len(ids) < len(parts) or len(ids) > MAX_RUNS:
        raise ValueError(f"must be the ids of 1 to {MAX_RUNS} runs, such as 1,2,3")
    for run_id, times in Counter(ids).items():
        if times > 1:
            raise ValueError(f"ids must be unique (got run {run_id} {times} times)")
    return ids


@dataclass(frozen=True, kw_only=True)
class RunsQuery:
    """The parameters that name several runs."""

    runs: Annotated[tuple[int, ...], Before(_read_ids, _Ids), Field(example="1,3")]
    """Ids of different runs, separated by commas."""


@dataclass(frozen=True, kw_only=True)
class ResultQuery:
    """The parameters of ``GET /api/runs/{run_id}/result/``."""

    target: Annotated[
        Target | None, Before(read_target, _Target), Field(example="val_global_Prec@1>=97")
    ] = None
    """Target, `METRIC>=VALUE` or `METRIC<=VALUE`. Default: the target of each run."""
    after: Annotated[float | None, Field(gt=0, le=_LARGEST, example=3600)] = None
    """Training seconds after which the accuracy is reported. Default: the deadline of the run, or
    two hours."""
    price: Annotated[float | None, Field(ge=0, le=_LARGEST, example=0.0001)] = None
    """Price of a worker per second, in any currency."""

    @property
    def criteria(self) -> Criteria:
        """The criteria by which runs are evaluated."""
        return Criteria(self.target, self.after, self.price)


@dataclass(frozen=True, kw_only=True)
class BreakdownQuery:
    """The parameters of ``GET /api/runs/{run_id}/breakdown/``."""

    bins: Annotated[int, Field(ge=1, le=500, example=100)] = 200
    """Maximum number of bins."""


@dataclass(frozen=True, kw_only=True)
class ComparisonQuery(ResultQuery, RunsQuery):
    """The parameters of ``GET /api/compare/``."""

    group: Annotated[Names, Field(example="learning_rate")] = ()
    """Attributes to group runs by, separated by commas. Default: all attributes."""


@dataclass(frozen=True)
class ResultsResource:
    """Results of runs, and comparisons."""

    reader: SeriesReader
    _so_far: dict[tuple[int, Criteria], tuple[Result, float]] = field(default_factory=dict)
    """Slowly computed results of active runs, each with the time until which it is reused."""

    @operation("list_curves", "The curves of the runs that have one, in any order.", list[RunCurve])
    def on_get_curves(self, req: Request, resp: Response, query: RunsQuery) -> None:
        """Return the target's metric over time for several runs, with few points each."""
        resp.media = small_curves(self.reader, query.runs)

    @operation("get_result", "The result.", Result, errors=(502, 503))
    def on_get(self, req: Request, resp: Response, query: ResultQuery, run_id: int) -> None:
        """Compute the result of a run from its series. For an active run, the result so far."""
        resp.media = self._result(lifecycle.find(run_id), query.criteria)

    @operation(
        "get_goodput",
        "Seconds in each bucket: in total, by rank and by attempt.",
        Goodput,
        errors=(502, 503),
    )
    def on_get_goodput(self, req: Request, resp: Response, run_id: int) -> None:
        """Return the goodput of a run: every worker-second by bucket; empty before the start."""
        resp.media = self._result(lifecycle.find(run_id)).goodput or Goodput(None, {}, ())

    @operation(
        "get_breakdown",
        "Worker-seconds of each bin by bucket.",
        Breakdown,
        errors=(502, 503),
    )
    def on_get_breakdown(
        self, req: Request, resp: Response, query: BreakdownQuery, run_id: int
    ) -> None:
        """Return the time breakdown of a run over time; empty before the start.

        A run of many ranks has fewer bins: 20,000 divided by the ranks of all attempts.
        """
        breakdown = breakdown_of(self.reader, lifecycle.find(run_id), query.bins)
        resp.media = breakdown or Breakdown(0.0, 0.0, {}, (), ())

    @operation("compare_runs", "The comparison.", Comparison, errors=(404, 502, 503))
    def on_get_comparison(self, req: Request, resp: Response, query: ComparisonQuery) -> None:
        """Compare runs, and groups of runs with equal settings.

        The comparison lists the differences between the runs, and whether these make the runs
        incomparable.
        """
        runs = [lifecycle.find(run_id) for run_id in query.runs]
        criteria = replace(query.criteria, group_by=query.group)
        resp.media = comparison_of(self.reader, runs, criteria)

    def _result(self, run: Run, criteria: Criteria = OWN_CRITERIA) -> Result:
        """Return the result of a run, reused for a while if it took long and the run is active."""
        start, key = time.monotonic(), (run.id, criteria)
        for cached, (result, until) in [*self._so_far.items()]:
            if start > until:
                self._so_far.pop(cached, None)
            elif cached == key and result.state == run.state:
                return result
        result = result_of(self.reader, run, criteria)
        duration = time.monotonic() - start
        if duration > _SLOW_SECONDS and run.state in ACTIVE_STATES:
            self._so_far[key] = result, time.monotonic() + _REUSE_FACTOR * duration
        return result
