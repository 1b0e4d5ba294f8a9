"""Requests of MLflow clients, and the resulting lines of the metrics file."""

import json
from pathlib import Path
from typing import Any

import pytest

from mlbench_sources.http_receiver import ReceiverRequest, ReceiverResponse
from mlbench_sources.mlflow import Tracking, setting
from tests.support.known import known

MOMENT = 1_763_683_200_123
OUTPUT = Path("/home/me/out put")


def ask(tracking: Tracking, call: str, fields: object = None, **query: str) -> ReceiverResponse:
    method, path = call.split()
    body = json.dumps(fields).encode() if fields is not None else b""
    return known(tracking.answer(ReceiverRequest(method, f"/api/2.0/mlflow/{path}", query, body)))


def nested(tracking: Tracking, **order: object) -> str:
    """Create a nested run and return its id."""
    tags = [{"key": "mlflow.parentRunId", "value": "7"}]
    made: Any = ask(tracking, "POST runs/create", {"tags": tags, **order}).body["run"]
    return str(made["info"]["run_id"])


def shown(tracking: Tracking, run_id: str = "7") -> Any:
    """Return a run as a client would read it."""
    return ask(tracking, "GET runs/get", run_id=run_id).body["run"]


@pytest.fixture
def tracking() -> Tracking:
    return Tracking(7, OUTPUT)


def metric(key: str, value: object, step: int = 0, timestamp: int = MOMENT) -> dict[str, Any]:
    return {"key": key, "value": value, "step": step, "timestamp": timestamp}


def test_a_line_has_the_values_of_one_time_and_step(tracking: Tracking) -> None:
    batch = [
        metric("loss", 0.5, 1),
        metric("accuracy", "NaN", 1),
        metric("loss", 0.4, 1),
        metric("loss", 0.3, 2),
        metric("accuracy", 90, 2, MOMENT + 1000),
    ]
    at = MOMENT / 1000
    assert ask(tracking, "POST runs/log-batch", {"metrics": batch}).lines == [
        {"time": at, "step": 1, "metrics": {"loss": 0.5, "accuracy": "NaN"}},
        {"time": at, "step": 1, "metrics": {"loss": 0.4}},
        {"time": at, "step": 2, "metrics": {"loss": 0.3}},
        {"time": at + 1, "step": 2, "metrics": {"accuracy": 90}},
    ]


def test_a_repeated_value_is_recorded_once(tracking: Tracking) -> None:
    batch = {"metrics": [metric("loss", 0.5, 1)]}
    assert ask(tracking, "POST runs/log-batch", batch).lines
    assert not ask(tracking, "POST runs/log-batch", batch).lines


def test_the_counter_of_system_metrics_is_not_a_step(tracking: Tracking) -> None:
    [line] = ask(tracking, "POST runs/log-metric", metric("system/cpu", 12.5, 4)).lines
    assert line == {"time": MOMENT / 1000, "metrics": {"system/cpu": 12.5}}


def test_parameters_and_user_tags_become_settings(tracking: Tracking) -> None:
    ask(tracking, "POST runs/create", {"tags": [{"key": "mlflow.user", "value": "me"}]})
    ask(tracking, "POST runs/log-parameter", {"key": "batch_size", "value": "32"})
    [line] = ask(tracking, "POST runs/set-tag", {"key": "team", "value": "blue"}).lines
    assert line == {"settings": {"batch_size": 32, "team": "blue"}}
    run = shown(tracking)
    assert run["info"]["run_id"] == "7"
    assert run["data"]["params"] == [{"key": "batch_size", "value": "32"}]
    assert [tag["key"] for tag in run["data"]["tags"]] == ["mlflow.user", "team"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("32", 32),
        ("0.1", 0.1),
        ("1e-05", 1e-05),
        ("True", True),
        ("None", None),
        ("1.10", "1.10"),
        ("007", "007"),
        ("nan", "nan"),
        ("adam", "adam"),
        ("a" * 1025, "a" * 1023 + "…"),
    ],
)
def test_a_setting_is_parsed_from_its_text(text: str, value: object) -> None:
    found = setting(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("call", "fields", "said"),
    [
        ("runs/log-metric", {"key": "loss", "value": "much", "timestamp": 1}, "must be a number"),
        ("runs/log-metric", {"key": "loss", "value": 1}, "a timestamp in milliseconds"),
        ("runs/log-metric", metric("a" * 201, 1), "1 to 200 characters"),
        ("runs/log-metric", {**metric("loss", 1), "step": "x"}, "step of metric 'loss'"),
        ("runs/log-batch", {"metrics": {}}, "metrics must be a list"),
        ("runs/log-batch", {"params": ["a"]}, "a key and a value"),
        ("runs/log-parameter", {"key": "a" * 201, "value": ""}, "name of a setting"),
        ("runs/search", {"filter": "metrics.acc > 0"}, "^filter: MLBench searches without filter"),
        ("experiments/search", {"order_by": ["metrics.acc"]}, "^order_by: MLBench searches"),
        ("runs/search", {"max_results": "some"}, "^max_results: must be a whole number"),
    ],
)
def test_invalid_requests_are_refused_with_a_reason(
    tracking: Tracking, call: str, fields: object, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        ask(tracking, f"POST {call}", fields)


def test_names_of_a_nested_run_have_its_name_as_prefix(tracking: Tracking) -> None:
    ask(tracking, "POST runs/log-parameter", {"run_id": "7", "key": "trials", "value": "2"})
    first, second = (nested(tracking, run_name="trial") for _ in range(2))
    loss = {**metric("loss", 0.5, 3), "run_id": first}
    [line] = ask(tracking, "POST runs/log-metric", loss).lines
    assert line["metrics"] == {"trial/loss": 0.5}
    [line] = ask(tracking, "POST runs/log-metric", {**loss, "run_id": second}).lines
    assert line["metrics"] == {"trial-2/loss": 0.5}
    ask(tracking, "POST runs/log-parameter", {"run_id": first, "key": "lr", "value": "0.1"})
    rate = {"run_id": second, "key": "lr", "value": "0.2"}
    [line] = ask(tracking, "POST runs/log-parameter", rate).lines
    assert line == {"settings": {"trials": 2, "trial/lr": 0.1, "trial-2/lr": 0.2}}
    assert shown(tracking)["data"]["params"] == [{"key": "trials", "value": "2"}]
    system = {**metric("system/cpu", 1, 4), "run_id": first}
    assert "step" not in ask(tracking, "POST runs/log-metric", system).lines[0]


def test_too_many_settings_of_nested_runs_are_skipped_with_a_warning(tracking: Tracking) -> None:
    for number in range(30):
        params = [{"key": f"p{one}", "value": "1"} for one in range(20)]
        batch = {"run_id": nested(tracking), "params": params}
        answer = ask(tracking, "POST runs/log-batch", batch)
        assert ("at most 500 settings" in answer.words) == (number >= 25)


def test_too_many_nested_tags_do_not_fail_the_outer_run(tracking: Tracking) -> None:
    inner = nested(tracking)
    for number in range(600):
        told = {"run_id": inner, "key": f"k{number}", "value": "1"}
        ask(tracking, "POST runs/set-tag", told)
    answer = ask(tracking, "POST runs/log-parameter", {"run_id": "7", "key": "a", "value": "1"})
    assert (answer.lines, "at most 500 settings" in answer.words) == ([], True)


def test_nested_runs_with_equal_long_names_have_separate_prefixes(tracking: Tracking) -> None:
    prefixes = []
    for _ in range(2):
        told = {"run_id": nested(tracking, run_name="t" * 200), **metric("m" * 90, 1)}
        [line] = ask(tracking, "POST runs/log-metric", told).lines
        metrics: Any = line["metrics"]
        prefixes += [name.partition("/")[0] for name in metrics]
        ask(tracking, "POST runs/update", {"run_id": told["run_id"], "run_name": "renamed"})
    assert prefixes == ["t" * 100, "t" * 100 + "-2"]


def test_a_second_run_is_reported(tracking: Tracking) -> None:
    assert not ask(tracking, "POST runs/create", {}).words
    assert not ask(tracking, "POST runs/create", {}).words, (
        "another process of the worker may create the run again"
    )
    ask(tracking, "POST runs/update", {"run_id": "7", "status": "FINISHED"})
    assert "one MLflow run after another" in ask(tracking, "POST runs/create", {}).words


def test_a_deleted_tag_is_not_a_setting(tracking: Tracking) -> None:
    ask(tracking, "POST runs/set-tag", {"key": "team", "value": "blue"})
    [line] = ask(tracking, "POST runs/delete-tag", {"key": "team"}).lines
    assert line == {"settings": {}}


def test_the_size_of_stored_tags_is_limited(tracking: Tracking) -> None:
    for number in range(1200):
        key = f"mlflow.{number}" + "k" * 10_000
        ask(tracking, "POST runs/set-tag", {"key": key, "value": "v" * 10_000})
    assert len(json.dumps(shown(tracking))) < 17 << 20


def test_a_model_registration_does_not_fail_the_code(tracking: Tracking) -> None:
    answer = ask(tracking, "POST registered-models/create", {"name": "net"})
    assert answer.body["registered_model"] == {"name": "net"}
    answer = ask(tracking, "POST model-versions/create", {"name": "net"})
    assert "no registry of models" in answer.words


def test_clients_write_artifacts_to_the_output_folder(tracking: Tracking) -> None:
    experiment: Any = ask(tracking, "GET experiments/get").body["experiment"]
    root = "file:///home/me/out%20put"
    assert shown(tracking)["info"]["artifact_uri"] == experiment["artifact_location"] == root


@pytest.mark.parametrize(
    ("name", "folder"),
    [("trial", "trial"), ("a/b", "a/b")]
    + [(name, "7-1") for name in ("..", "../../etc", "/etc", "a\0b")],
)
def test_artifacts_of_a_nested_run_have_a_subfolder(
    tracking: Tracking, name: str, folder: str
) -> None:
    run = shown(tracking, nested(tracking, run_name=name))
    assert run["info"]["artifact_uri"] == f"file:///home/me/out%20put/{folder}"


def test_each_model_has_a_subfolder(tracking: Tracking) -> None:
    for name, folder in (("net", "models/net"), ("../..", "models")):
        made: Any = ask(tracking, "POST logged-models", {"name": name}).body["model"]
        assert made["info"]["artifact_uri"] == f"file:///home/me/out%20put/{folder}"


def found_ids(tracking: Tracking, **search: object) -> list[str]:
    answer: Any = ask(tracking, "POST runs/search", {"experiment_ids": ["0"], **search}).body
    return [run["info"]["run_id"] for run in answer["runs"]]


def test_runs_are_listed_in_pages_newest_first(tracking: Tracking) -> None:
    runs = ["7", *(nested(tracking, run_name=name) for name in ("a", "b", "c"))][::-1]
    assert found_ids(tracking) == runs
    assert found_ids(tracking, max_results=1, filter="", order_by=[]) == runs[:1]
    assert found_ids(tracking, run_view_type="DELETED_ONLY") == []
    pages = []
    token = ""
    for _ in range(2):
        search = {"max_results": 3, "page_token": token}
        answer: Any = ask(tracking, "POST runs/search", search).body
        pages.append([run["info"]["run_id"] for run in answer["runs"]])
        token = answer.get("next_page_token", "")
    assert pages == [runs[:3], runs[3:]]
    assert not token


@pytest.mark.parametrize("call", ["GET artifacts/list", "POST webhooks/create"])
def test_unsupported_requests_are_refused_with_a_reason(tracking: Tracking, call: str) -> None:
    answer = ask(tracking, call)
    assert answer.status == 404
    assert f"has no {call.split()[1]}" in str(answer.body["message"])
