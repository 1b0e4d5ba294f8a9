"""What MLBench's original library posts, in lines of the metrics file."""

from http import HTTPStatus
from urllib.parse import urlencode

import pytest

from mlbench_sources.http_receiver import (
    ReceiverRequest,
    ReceiverResponse,
)
from mlbench_sources.mlbench_core import Reports
from mlbench_worker.agent.sources import Line
from tests.support.assignments import ASSIGNMENT
from tests.support.known import known

_DATE = "2026-03-01 09:21:30.500250"
_TIME = 1772356890.50025
_REACHED = "80% Top 1 Validation Accuracy reached in 12.345 seconds, Compute: 9.1 seconds"


def post(reports: Reports, **fields: object) -> ReceiverResponse:
    """Post a value as the library does."""
    form = {"run_id": 7, "name": "train_loss @ 1", "cumulative": False, "date": _DATE}
    form |= {"value": 0.25, "metadata": "{rank: 1, epoch:3}", **fields}
    body = urlencode(form).encode()
    answer = known(reports.answer(ReceiverRequest("POST", "/api/metrics/", {}, body)))
    assert answer.status == HTTPStatus.CREATED
    return answer


def lines(reports: Reports, **fields: object) -> list[Line]:
    """Return what is written without its time and metadata, which are the posted ones."""
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


def test_a_value_of_no_rank_is_the_workers_own() -> None:
    [line] = post(Reports(ASSIGNMENT), name="loss", metadata="", cumulative=True).lines
    assert line == {"time": _TIME, "name": "loss", "value": "0.25", "cumulative": True}


def test_each_epoch_is_stated_once_for_each_rank_when_it_has_begun() -> None:
    reports = Reports(ASSIGNMENT)
    epoch: Line = {"rank": "1", "name": "epoch", "value": "3"}
    assert lines(reports)[0] == epoch
    assert len(lines(reports)) == 1
    other = lines(reports, name="train_loss @ 0", metadata="{rank: 0, epoch:3}")
    assert other[0] == {**epoch, "rank": "0"}
    # The next one is counted before the validation of this one.
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
def test_the_result_of_a_task_states_its_goal(
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
        ({"name": ""}, "name: a text of 1 to 200 characters"),
        ({"date": "yesterday"}, "date: a date such as 2026-03-01 09:21:30.5"),
    ],
)
def test_what_is_no_value_of_this_run_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        post(Reports(ASSIGNMENT), **fields)


def ask(method: str, path: str) -> ReceiverResponse | None:
    return Reports(ASSIGNMENT).answer(ReceiverRequest(method, path, {}, b""))


def test_its_run_is_told() -> None:
    run = {"id": 7, "state": "STARTED", "attempt": 2, "num_workers": 4, "seed": 42}
    assert ask("GET", "/api/runs/7/") == ReceiverResponse(run)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/runs/8"), ("DELETE", "/api/runs/7"), ("GET", "/api/metrics/7")],
)
def test_all_else_is_the_masters(method: str, path: str) -> None:
    refused = known(ask(method, path))
    assert refused.status == HTTPStatus.NOT_FOUND


def test_what_is_others_is_left_to_them() -> None:
    assert ask("POST", "/api/2.0/mlflow/runs/create") is None
