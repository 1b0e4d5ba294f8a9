"""``/api/runs/{id}/result/`` and ``/api/compare/``: what runs reached, alone and side by side."""

import time
from collections import Counter
from dataclasses import dataclass, field

from falcon import Request, Response

from mlbench.contract.comparisons import Comparison
from mlbench.contract.names import ACTIVE_STATES
from mlbench.contract.records import RunCurve
from mlbench.contract.results import Goodput, Result
from mlbench.evaluation.inputs import OWN_CRITERIA, Criteria, read_finite, read_goal
from mlbench_master.database.models import Run
from mlbench_master.errors import BadFieldError
from mlbench_master.http.bodies import offer_file
from mlbench_master.http.fields import parse_whole_number
from mlbench_master.openapi.operation import Parameter, operation
from mlbench_master.reading.series import SeriesReader
from mlbench_master.results.curves import small_curves
from mlbench_master.results.query import comparison_of, mllog_of, result_of
from mlbench_master.runs import life
from mlbench_master.runs.requests import MOST_RUNS

# Of seconds, and of the price of one.
LARGEST = 1e12
_A_NUMBER = f"a number from 0 to {LARGEST:g}"


def _number(text: str) -> float:
    number = read_finite(text)
    if number is None or not 0 <= number <= LARGEST:
        raise ValueError
    return number


_NUMBER = r"[+-]?[0-9]{1,50}(\.[0-9]{1,50})?([eE][+-]?[0-9]{1,2})?"
_ID = "[0-9]{1,18}"
_GOAL = Parameter(
    "goal",
    {"type": "string", "pattern": rf"^[^ \x00][^\x00]*(>=|<=){_NUMBER}$"},
    "The target, `METRIC>=VALUE` or `METRIC<=VALUE`; by default each run's own goal.",
    read_goal,
    default=None,
    example="val_global_Prec@1>=97",
)
_AFTER = Parameter(
    "after",
    {"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST},
    "The seconds of accuracy after time; by default the run's deadline, else two hours.",
    _number,
    default=None,
    must_be=_A_NUMBER,
    example=3600,
)
_PRICE = Parameter(
    "price",
    {"type": "number", "minimum": 0, "maximum": LARGEST},
    "What a worker costs in a second, in whatever currency.",
    _number,
    default=None,
    must_be=_A_NUMBER,
    example=0.0001,
)
_CRITERIA = (_GOAL, _AFTER, _PRICE)
# A result that takes longer, as that of a thousand ranks, is not computed again for so many times.
_LONG_SECONDS, _REST = 1.0, 10
_MLLOG = (
    ':::MLLOG {"namespace": "", "time_ms": 1772356891000, "event_type": "POINT_IN_TIME", '
    '"key": "global_batch_size", "value": 128, "metadata": {}}\n'
)
_RUNS = Parameter(
    "runs",
    {"type": "string", "pattern": f"^{_ID}(,{_ID}){{0,{MOST_RUNS - 1}}}$"},
    f"The ids of 1 to {MOST_RUNS} runs, each once.",
    str,
    default="",
    example="1,3",
    required=True,
)


@dataclass(frozen=True)
class ResultsResource:
    """What runs reached: one alone, also in the format of MLPerf's logging, or several."""

    reader: SeriesReader
    _so_far: dict[tuple[int, Criteria], tuple[Result, float]] = field(default_factory=dict)
    """Results that took long, of runs that go on, and until when they do for all readers."""

    @operation(
        "list_curves",
        "The curves of those that have one, in any order.",
        list[RunCurve],
        parameters=(_RUNS,),
    )
    def on_get_curves(self, req: Request, resp: Response) -> None:
        """Answer with the goal's metric of several runs over time, in few points each."""
        resp.media = small_curves(self.reader, _read_ids(req))

    @operation(
        "get_result", "What the run reached.", Result, parameters=_CRITERIA, errors=(502, 503)
    )
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the figures of the run, computed from its series; so far, if it goes on."""
        resp.media = self._result(life.find(run_id), _query(req))

    @operation(
        "get_goodput", "In each bucket, of all and by rank and attempt.", Goodput, errors=(502, 503)
    )
    def on_get_goodput(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with where every worker-second went, from the order on; empty before the start."""
        resp.media = self._result(life.find(run_id)).goodput or Goodput(None, {}, ())

    @operation(
        "get_mllog",
        "The run's lines, in order of time.",
        files={"text/plain; charset=utf-8": {"type": "string", "examples": [_MLLOG]}},
        errors=(502, 503),
    )
    def on_get_mllog(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the run so far as `:::MLLOG` lines, for MLPerf's compliance checker."""
        run = life.find(run_id)
        resp.text = "".join(mllog_of(self.reader, run))
        resp.content_type = "text/plain; charset=utf-8"
        offer_file(resp, f"metrics_{run.name}.mllog")

    @operation(
        "compare_runs",
        "The runs side by side.",
        Comparison,
        parameters=(_RUNS, *_CRITERIA),
        errors=(404, 502, 503),
    )
    def on_get_comparison(self, req: Request, resp: Response) -> None:
        """Answer with the figures of some runs, and of groups of them that are alike.

        Also with what they differ in, and whether that keeps them from being compared.
        """
        query, found = _query(req), [life.find(run_id) for run_id in _read_ids(req)]
        resp.media = comparison_of(self.reader, found, query)

    def _result(self, run: Run, criteria: Criteria = OWN_CRITERIA) -> Result:
        """Return a run's result; if it took long, and its run goes on, for a while the same."""
        began, key = time.monotonic(), (run.id, criteria)
        for old, (result, until) in [*self._so_far.items()]:
            if began > until:
                self._so_far.pop(old, None)
            elif old == key and result.state == run.state:
                return result
        result = result_of(self.reader, run, criteria)
        if (took := time.monotonic() - began) > _LONG_SECONDS and run.state in ACTIVE_STATES:
            self._so_far[key] = result, time.monotonic() + _REST * took
        return result


def _read_ids(req: Request) -> list[int]:
    # In one parameter, or in several of the same name.
    text = ",".join(req.get_param_as_list("runs") or ())
    parts = text.split(",")
    ids = [number for number in map(parse_whole_number, parts) if number is not None]
    if len(ids) < len(parts) or len(ids) > MOST_RUNS:
        must_be = f"must be the ids of 1 to {MOST_RUNS} runs, such as 1,2,3"
        raise BadFieldError("runs", f"{must_be} (got {text[:80]!r})")
    for run_id, times in Counter(ids).items():
        if times > 1:
            raise BadFieldError("runs", f"ids must be unique (got run {run_id} {times} times)")
    return ids


def _query(req: Request) -> Criteria:
    after_seconds = _AFTER.read(req)
    if after_seconds == 0:
        raise BadFieldError("after", "must be greater than 0 seconds (got '0')")
    return Criteria(_GOAL.read(req), after_seconds, _PRICE.read(req))
