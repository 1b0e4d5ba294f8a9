"""Values that the original MLBench's library posts, as lines of the metrics file."""

from http import HTTPStatus
from urllib.parse import urlencode

import pytest

from mlbench_sources.http_receiver import ReceiverRequest, ReceiverResponse
from mlbench_sources.mlbench_core import Reports
from mlbench_worker.agent.sources import Line
from tests.support.assignments import ASSIGNMENT
from tests.support.known import known

_DATE = "2026-03-01 09:21:30.500250"
_TIME = 1772356890.50025
_REACHED = "80% Top 1 Validation Accuracy reached in 12.345 seconds, Compute: 9.1 seconds"


def post(reports: Reports, **fields: object) -> ReceiverResponse:
    """Post a value like the library."""
    form = {"run_id": 7, "name": "train_loss @ 1", "cumulative": False, "date": _DATE}
    form |= {"value": 0.25, "metadata": "{rank: 1, epoch:3}", **fields}
    body = urlencode(form).encode()
    answer = known(reports.answer(ReceiverRequest("POST", "/api/metrics/", {}, body)))
    assert answer.status == HTTPStatus.CREATED
    return answer


def lines(reports: Reports, **fields: object) -> list[Line]:
    """Return the written lines without time and metadata."""
    written = list(post(reports, **fields).lines)
    assert {line["time"] for line in written} == {_TIME}
    assert all(line.get("metadata", "{rank: 1, epoch:3}") for line in written)
    return [{k: v for k, v in line.items() if k not in {"time", "metadata"}} for line in written]


def test_a_value_keeps_its_time_rank_and_metadata() -> None:
    answer = post(Reports(ASSIGNMENT))
    assert answer.lines[-1] == {
        "time": _TIME,
        "rank": "1",
        "name": "train_loss",
        "value": "0.25",
        "metadata": "{rank: 1, epoch:3}",
    }
    assert answer.body["name"] == "train_loss @ 1"


def test_a_value_without_a_rank_belongs_to_the_worker() -> None:
    [line] = post(Reports(ASSIGNMENT), name="loss", metadata="", cumulative=True).lines
    assert line == {"time": _TIME, "name": "loss", "value": "0.25", "cumulative": True}


def test_each_epoch_is_recorded_once_per_rank_after_its_start() -> None:
    reports = Reports(ASSIGNMENT)
    epoch: Line = {"rank": "1", "name": "epoch", "value": "3"}
    assert lines(reports)[0] == epoch
    assert len(lines(reports)) == 1
    other = lines(reports, name="train_loss @ 0", metadata="{rank: 0, epoch:3}")
    assert other[0] == {**epoch, "rank": "0"}
    # The library counts the next epoch before it validates this one.
    assert len(lines(reports, name="val_loss @ 1", metadata="{rank: 1, epoch:4}")) == 1
    assert lines(reports, metadata="{rank: 1, epoch:4}")[0] == {**epoch, "value": "4"}


@pytest.mark.parametrize(
    ("said", "goal"),
    [
        (_REACHED, ("val_global_Prec@1", 80.0, False)),
        ("Validation Perplexity of 70 reached in 1.0 s", ("val_global_Perplexity", 70, True)),
        ("Validation BLEU-Score of 24 reached in 1.0 s", ("val_global_BLEU-Score", 24, False)),
        ("something of one's own", None),
    ],
)
def test_the_target_is_read_from_the_task_result(
    said: str, goal: tuple[str, float, bool] | None
) -> None:
    *stated, result = lines(Reports(ASSIGNMENT), name="TaskResult @ 0", value=said)
    assert result == {"rank": "0", "name": "TaskResult", "value": said}
    named = goal and dict(zip(("metric", "value", "lower_is_better"), goal, strict=True))
    assert stated == ([{"goal": named}] if named else [])


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"run_id": 8}, "run_id: this code is part of run 7 and no other"),
        ({"name": ""}, "name: must be a text of 1 to 200 characters"),
        ({"date": "yesterday"}, "date: a date such as 2026-03-01 09:21:30.5"),
    ],
)
def test_invalid_values_and_values_of_other_runs_are_refused(
    fields: dict[str, object], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        post(Reports(ASSIGNMENT), **fields)


def ask(method: str, path: str) -> ReceiverResponse | None:
    return Reports(ASSIGNMENT).answer(ReceiverRequest(method, path, {}, b""))


def test_the_run_is_returned() -> None:
    run = {"id": 7, "state": "STARTED", "attempt": 2, "num_workers": 4, "seed": 42}
    assert ask("GET", "/api/runs/7/") == ReceiverResponse(run)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/runs/8"), ("DELETE", "/api/runs/7"), ("GET", "/api/metrics/7")],
)
def test_other_requests_to_the_master_are_not_found(method: str, path: str) -> None:
    refused = known(ask(method, path))
    assert refused.status == HTTPStatus.NOT_FOUND


def test_requests_to_other_receivers_are_ignored() -> None:
    assert ask("POST", "/api/2.0/mlflow/runs/create") is None
