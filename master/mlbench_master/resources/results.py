"""``/api/runs/{id}/result/`` and ``/api/compare/``: what runs reached, alone and side by side."""

from dataclasses import dataclass

from falcon import Request, Response

from mlbench.evaluation.criteria import Criteria, read_finite, read_goal
from mlbench.records import Goal
from mlbench.results import Comparison, Result
from mlbench_master.errors import BadFieldError
from mlbench_master.fields import parse_whole_number
from mlbench_master.models import Run
from mlbench_master.openapi.operation import Parameter, operation
from mlbench_master.reading.series import SeriesReader
from mlbench_master.results.query import comparison_of, mllog_of, result_of
from mlbench_master.runs import life
from mlbench_master.runs.requests import MOST_RUNS

# Of seconds, and of the price of one.
LARGEST = 1e12

_NUMBER = r"[+-]?[0-9]{1,50}(\.[0-9]{1,50})?([eE][+-]?[0-9]{1,2})?"
_ID = "[0-9]{1,18}"
_CRITERIA = (
    Parameter(
        "goal",
        {"type": "string", "pattern": rf"^[^ \x00][^\x00]*(>=|<=){_NUMBER}$"},
        "The target, `METRIC>=VALUE` or `METRIC<=VALUE`; by default each run's own goal.",
        example="val_global_Prec@1>=97",
    ),
    Parameter(
        "after",
        {"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST},
        "The seconds of accuracy after time; by default the run's deadline, else two hours.",
        example=3600,
    ),
    Parameter(
        "price",
        {"type": "number", "minimum": 0, "maximum": LARGEST},
        "What a worker costs in a second, in whatever currency.",
        example=0.0001,
    ),
)
_MLLOG = (
    ':::MLLOG {"namespace": "", "time_ms": 1772356891000, "event_type": "POINT_IN_TIME", '
    '"key": "global_batch_size", "value": 128, "metadata": {}}\n'
)
_RUNS = Parameter(
    "runs",
    {"type": "string", "pattern": f"^{_ID}(,{_ID}){{0,{MOST_RUNS - 1}}}$"},
    f"The ids of 1 to {MOST_RUNS} runs, each once.",
    example="1,3",
    required=True,
)


@dataclass(frozen=True)
class ResultResource:
    """What one run reached."""

    reader: SeriesReader

    @operation(
        "get_result",
        "What the run reached.",
        Result,
        parameters=_CRITERIA,
        errors=(404, 502, 503),
    )
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the figures of the run, computed from its series; so far, if it goes on."""
        query = _query(req)
        resp.media = result_of(self.reader, life.find(run_id), query)


@dataclass(frozen=True)
class MllogResource:
    """``…/mllog/``: one run in the format of MLPerf's logging."""

    reader: SeriesReader

    @operation(
        "get_mllog",
        "The run's lines, in order of time.",
        files={"text/plain; charset=utf-8": {"type": "string", "examples": [_MLLOG]}},
        errors=(404, 502, 503),
    )
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the run so far as `:::MLLOG` lines, for MLPerf's compliance checker."""
        run = life.find(run_id)
        resp.text = "".join(mllog_of(self.reader, run))
        resp.content_type = "text/plain; charset=utf-8"
        resp.downloadable_as = f"metrics_{run.name}.mllog"


@dataclass(frozen=True)
class CompareResource:
    """Several runs side by side."""

    reader: SeriesReader

    @operation(
        "compare_runs",
        "The runs side by side.",
        Comparison,
        parameters=(_RUNS, *_CRITERIA),
        errors=(404, 502, 503),
    )
    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with the figures of some runs, and of groups of them that are alike.

        Also with what they differ in, and whether that keeps them from being compared.
        """
        query, found = _query(req), _runs(req)
        resp.media = comparison_of(self.reader, found, query)


def _runs(req: Request) -> list[Run]:
    # In one parameter, or in several of the same name.
    text = ",".join(req.get_param_as_list("runs") or ())
    ids = [parse_whole_number(part) for part in text.split(",")]
    wanted_ids = [run_id for run_id in ids if run_id is not None]
    if len(wanted_ids) < len(ids) or len(ids) > MOST_RUNS:
        raise BadFieldError(
            "runs", f"the ids of 1 to {MOST_RUNS} runs, such as 1,2,3 (not {text[:80]!r})"
        )
    twice = next((run_id for i, run_id in enumerate(wanted_ids) if run_id in wanted_ids[:i]), None)
    if twice is not None:
        raise BadFieldError("runs", f"each run once (run {twice} is named twice)")
    return [life.find(run_id) for run_id in wanted_ids]


def _query(req: Request) -> Criteria:
    after_seconds = _number(req, "after")
    if after_seconds == 0:
        raise BadFieldError("after", "more than 0 seconds (not '0')")
    return Criteria(_target(req), after_seconds, _number(req, "price"))


def _target(req: Request) -> Goal | None:
    """Return the query parameter ``goal``, such as ``val_loss<=0.1``.

    Raises:
        BadFieldError: it is something else.
    """
    text = req.get_param("goal")
    if text is None:
        return None
    try:
        return read_goal(text)
    except ValueError as error:
        raise BadFieldError("goal", str(error)) from None


def _number(req: Request, name: str) -> float | None:
    text = req.get_param(name)
    if text is None:
        return None
    number = read_finite(text)
    if number is None or not 0 <= number <= LARGEST:
        raise BadFieldError(name, f"a number from 0 to {LARGEST:g} (not {text[:80]!r})")
    return number
