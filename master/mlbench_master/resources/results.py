"""``/api/runs/{id}/result/`` and ``/api/compare/``: results and comparisons of runs."""

import time
from collections import Counter
from dataclasses import dataclass, field, replace

from falcon import Request, Response

from mlbench.contract.comparisons import Comparison
from mlbench.contract.conversion import parse_whole_number
from mlbench.contract.names import ACTIVE_STATES
from mlbench.contract.records import RunCurve
from mlbench.contract.results import Breakdown, Goodput, Result
from mlbench.evaluation.inputs import OWN_CRITERIA, Criteria, read_finite, read_target
from mlbench_master.database.models import Run
from mlbench_master.errors import BadFieldError
from mlbench_master.openapi.operation import Parameter, operation, whole
from mlbench_master.reading.series import SeriesReader
from mlbench_master.results.result_curves import small_curves
from mlbench_master.results.result_query import breakdown_of, comparison_of, result_of
from mlbench_master.runs import lifecycle
from mlbench_master.runs.requests import MAX_RUNS

LARGEST = 1e12
"""Largest value of the parameters `after` (seconds) and `price` (per second)."""
_A_NUMBER = f"a number from 0 to {LARGEST:g}"


def _number(text: str) -> float:
    number = read_finite(text)
    if number is None or not 0 <= number <= LARGEST:
        raise ValueError
    return number


_NUMBER = r"[+-]?[0-9]{1,50}(\.[0-9]{1,50})?([eE][+-]?[0-9]{1,2})?"
_ID = "[0-9]{1,18}"
_TARGET = Parameter(
    "target",
    {"type": "string", "pattern": rf"^[^ \x00][^\x00]*(>=|<=){_NUMBER}$"},
    "Target, `METRIC>=VALUE` or `METRIC<=VALUE`. Default: the target of each run.",
    read_target,
    default=None,
    example="val_global_Prec@1>=97",
)
_AFTER = Parameter(
    "after",
    {"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST},
    "Training seconds after which the accuracy is reported. Default: the deadline of the run, or "
    "two hours.",
    _number,
    default=None,
    must_be=_A_NUMBER,
    example=3600,
)
_PRICE = Parameter(
    "price",
    {"type": "number", "minimum": 0, "maximum": LARGEST},
    "Price of a worker per second, in any currency.",
    _number,
    default=None,
    must_be=_A_NUMBER,
    example=0.0001,
)
_CRITERIA = (_TARGET, _AFTER, _PRICE)
_GROUP = Parameter[tuple[str, ...]](
    "group",
    {"type": "string", "pattern": r"^[^,\x00]+(,[^,\x00]+){0,9}$"},
    "Attributes to group runs by, separated by commas. Default: all attributes.",
    lambda text: tuple(text.split(",")),
    default=(),
    example="learning_rate",
)
_MAX_BINS, _DEFAULT_BINS = 500, 200
_BINS = whole(
    "bins", f"Maximum number of bins, up to {_MAX_BINS}. Default: {_DEFAULT_BINS}.", 100, least=1
)
# Slower results, such as those of a thousand ranks, are reused for a multiple of their duration.
_SLOW_SECONDS, _REUSE_FACTOR = 1.0, 10
_RUNS = Parameter(
    "runs",
    {"type": "string", "pattern": f"^{_ID}(,{_ID}){{0,{MAX_RUNS - 1}}}$"},
    f"Ids of 1 to {MAX_RUNS} different runs.",
    str,
    default="",
    example="1,3",
    required=True,
)


@dataclass(frozen=True)
class ResultsResource:
    """Results of runs, and comparisons."""

    reader: SeriesReader
    _so_far: dict[tuple[int, Criteria], tuple[Result, float]] = field(default_factory=dict)
    """Slowly computed results of active runs, each with the time until which it is reused."""

    @operation(
        "list_curves",
        "The curves of the runs that have one, in any order.",
        list[RunCurve],
        parameters=(_RUNS,),
    )
    def on_get_curves(self, req: Request, resp: Response) -> None:
        """Return the target's metric over time for several runs, with few points each."""
        resp.media = small_curves(self.reader, _read_ids(req))

    @operation("get_result", "The result.", Result, parameters=_CRITERIA, errors=(502, 503))
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Compute the result of a run from its series. For an active run, the result so far."""
        resp.media = self._result(lifecycle.find(run_id), _criteria(req))

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
        parameters=(_BINS,),
        errors=(502, 503),
    )
    def on_get_breakdown(self, req: Request, resp: Response, run_id: int) -> None:
        """Return the time breakdown of a run over time; empty before the start.

        A run of many ranks has fewer bins: 20,000 divided by the ranks of all attempts.
        """
        bins = min(_MAX_BINS, _BINS.read(req) or _DEFAULT_BINS)
        breakdown = breakdown_of(self.reader, lifecycle.find(run_id), bins)
        resp.media = breakdown or Breakdown(0.0, 0.0, {}, (), ())

    @operation(
        "compare_runs",
        "The comparison.",
        Comparison,
        parameters=(_RUNS, *_CRITERIA, _GROUP),
        errors=(404, 502, 503),
    )
    def on_get_comparison(self, req: Request, resp: Response) -> None:
        """Compare runs, and groups of runs with equal settings.

        The comparison lists the differences between the runs, and whether these make the runs
        incomparable.
        """
        criteria, runs = _criteria(req), [lifecycle.find(run_id) for run_id in _read_ids(req)]
        criteria = replace(criteria, group_by=_GROUP.read(req))
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


def _read_ids(req: Request) -> list[int]:
    # The parameter can be repeated.
    text = ",".join(req.get_param_as_list("runs") or ())
    parts = text.split(",")
    ids = [number for number in map(parse_whole_number, parts) if number is not None]
    if len(ids) < len(parts) or len(ids) > MAX_RUNS:
        must_be = f"must be the ids of 1 to {MAX_RUNS} runs, such as 1,2,3"
        raise BadFieldError("runs", f"{must_be} (got {text[:80]!r})")
    for run_id, times in Counter(ids).items():
        if times > 1:
            raise BadFieldError("runs", f"ids must be unique (got run {run_id} {times} times)")
    return ids


def _criteria(req: Request) -> Criteria:
    after_seconds = _AFTER.read(req)
    if after_seconds == 0:
        raise BadFieldError("after", "must be greater than 0 seconds (got '0')")
    return Criteria(_TARGET.read(req), after_seconds, _PRICE.read(req))
