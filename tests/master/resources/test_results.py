"""``/api/runs/{id}/result/`` and ``/api/compare/``: responses and refused requests."""

import math
import time
from typing import Any

import pytest
from falcon.testing import Result, TestClient
from peewee import Database

from mlbench.contract import comparisons, results
from mlbench_master.database.models import Run
from tests.support.known import known
from tests.support.rows import line, make_ranks, make_run, record

_TARGET = {"metric": "acc", "value": 97.0, "lower_is_better": False}


@pytest.fixture
def judged(database: Database) -> Run:
    """A finished run that reached its target 20 s after its start, after 10 s of training."""
    started_at = float(round(time.time()) - 60)
    times: dict[str, Any] = {"started_at": started_at, "finished_at": started_at + 50}
    run = make_run(state="FINISHED", target=_TARGET, **times)
    make_ranks(run, assigned_at=started_at, exited_at=started_at + 50)
    record(run, line(started_at + 10, acc=math.nan, train_seconds=5))
    last = {"acc": 97, "train_seconds": 10, "val_loss": 0.1, "forward_seconds": 4}
    record(run, line(started_at + 20, **last))
    return run


def get_result(api: TestClient, run_id: object, **params: Any) -> Result:
    return api.simulate_get(f"/api/runs/{run_id}/result/", params=params)


def compare(api: TestClient, *runs: object, **params: Any) -> Result:
    return api.simulate_get("/api/compare/", params={"runs": ",".join(map(str, runs)), **params})


def test_the_client_can_decode_a_result(api: TestClient, judged: Run) -> None:
    answer = get_result(api, judged.id)
    assert answer.status_code == 200
    found = results.Result.from_fields(answer.json)
    assert found.to_fields() == answer.json
    assert found.time_to_target == results.TimeToTarget(10.0, 20.0)
    assert found.accuracy_after_time == results.AccuracyAfterTime(7200.0, 97.0, 10.0, "training")
    assert found.phases == {"forward": 4.0, "other": 6.0}
    assert known(found.curve).values == (None, 97.0), "JSON has no NaN"


def test_a_slow_result_of_an_active_run_is_cached(
    api: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlbench_master.resources.results._SLOW_SECONDS", 0.0)
    monkeypatch.setattr("mlbench_master.resources.results._REUSE_FACTOR", 1e6)
    run = make_run(1, target=_TARGET, started_at=time.time() - 20)
    make_ranks(run, ["w-0"], assigned_at=time.time() - 20)

    for value, state, result in ((50, "STARTED", 50), (60, "STARTED", 50), (70, "FINISHED", 70)):
        record(run, line(time.time(), acc=value))
        Run.update(state=state).execute()
        assert get_result(api, run.id).json["last_value"] == result


def test_target_time_and_price_are_parameters(api: TestClient, judged: Run) -> None:
    answer = get_result(api, judged.id, target="val_loss <= 0.1", after="9.5", price="0.02").json
    assert answer["target"] == {"metric": "val_loss", "value": 0.1, "lower_is_better": True}
    reached = {"training_seconds": 10.0, "wall_seconds": 20.0, "epochs": None}
    assert answer["time_to_target"] == reached
    assert answer["accuracy_after_time"]["limit_seconds"] == 9.5
    assert answer["accuracy_after_time"]["value"] is None
    assert answer["cost"] == {
        "worker_seconds": 100.0,
        "worker_seconds_to_target": 40.0,
        "price": 0.02,
        "total": 2.0,
        "to_target": 0.8,
    }


def test_a_target_is_parsed(api: TestClient, judged: Run) -> None:
    targets = {
        "acc>=97": ("acc", 97.0, False),
        "acc<=-1e-3": ("acc", -0.001, True),
        "a <= b >= +5.": ("a <= b", 5.0, False),
        "a>=b<=5": ("a>=b", 5.0, True),
        "val_Prec@1 @ 0>=.5": ("val_Prec@1 @ 0", 0.5, False),
    }
    for text, target in targets.items():
        answer = get_result(api, judged.id, target=text).json["target"]
        assert (answer["metric"], answer["value"], answer["lower_is_better"]) == target


def test_invalid_targets_are_refused(api: TestClient, judged: Run) -> None:
    for target in (
        *("", "acc", "acc>97", "acc=97", ">=97", " >=97", "acc>=", "acc>=x", "acc>=nan"),
        *("acc<=inf", "acc>=1e999", "acc>=1_000", "acc>=\N{FULLWIDTH DIGIT NINE}"),
        *("a" * 201 + ">=1", "a\0>=1"),
    ):
        for ask in (get_result, compare):
            answer = ask(api, judged.id, target=target)
            assert answer.status_code == 400
            assert answer.json["message"].startswith("target: must be METRIC>=VALUE or METRIC<=VAL")


def test_numbers_have_bounds(api: TestClient, judged: Run) -> None:
    most = "1000000000000"
    bounds = {"price": f"from 0 to {most}", "after": f"more than 0 and at most {most}"}
    for name, within in bounds.items():
        for values, problem in (
            (("", "x", "1_0"), "must be a number"),
            (("nan", "-inf", "1e999"), "must be a finite number"),
            (("-1", "1e13"), f"must be {within}"),
        ):
            for value in values:
                answer = get_result(api, judged.id, **{name: value})
                assert answer.status_code == 400
                assert answer.json["message"] == f"{name}: {problem} (got {value!r})"
    assert get_result(api, judged.id, price=0).json["cost"]["total"] == 0.0
    assert get_result(api, judged.id, after="-0").status_code == 400


def test_the_client_can_decode_a_comparison(api: TestClient, judged: Run) -> None:
    other = make_run(state="FAILED", target={**_TARGET, "value": 90.0}, settings={"batch_size": 64})
    answer = compare(api, other.id, judged.id, price=1)
    assert answer.status_code == 200
    comparison = comparisons.Comparison.from_fields(answer.json)
    assert comparison.to_fields() == answer.json
    assert [result.run_id for result in comparison.results] == [other.id, judged.id]
    assert comparison.results[1].to_fields() == get_result(api, judged.id, price=1).json
    assert comparison.comparable == "no"
    assert [(difference.name, difference.breaks) for difference in comparison.differences] == [
        ("target", "yes"),
        ("batch_size", "unknown"),
    ]
    asked = compare(api, other.id, judged.id, target="acc>=95").json
    assert (asked["comparable"], asked["differences"][-1]["name"]) == ("unknown", "own_target")


def test_malformed_lists_of_runs_are_refused(api: TestClient, judged: Run) -> None:
    for runs in ("", "x", "1,", ",1", "1,,2", "1, 2", "-1", "1.0", "1" * 19):
        answer = compare(api, runs)
        assert answer.status_code == 400
        expected = f"runs: must be the ids of 1 to 200 runs, such as 1,2,3 (got {runs!r})"
        assert answer.json["message"] == expected
    assert api.simulate_get("/api/compare/").json["message"].startswith("runs: ")
    twice = {"status": 400, "message": f"runs: ids must be unique (got run {judged.id} 2 times)"}
    assert compare(api, judged.id, 1, judged.id).json == twice
    one_by_one = {"runs": [judged.id] * 2}
    answer = api.simulate_get("/api/compare/", params=one_by_one, params_csv=False)
    assert answer.json == twice


def test_at_most_200_runs_are_compared(api: TestClient, database: Database) -> None:
    ids = [make_run(state="STOPPED").id for _ in range(200)]
    answer = compare(api, *ids)
    assert answer.status_code == 200
    assert [group["run_ids"] for group in answer.json["groups"]] == [ids]
    refused = compare(api, *ids, 1)
    assert refused.status_code == 400
    assert refused.json["message"].startswith("runs: must be the ids of 1 to 200 runs")
    unknown = compare(api, ids[0], ids[-1] + 1)
    assert unknown.json == {"status": 404, "message": f"run_id: run {ids[-1] + 1} not found"}
