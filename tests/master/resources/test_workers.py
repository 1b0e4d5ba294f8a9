"""The routes of agents: polling and shipping streams."""

from typing import Any

import pytest
from falcon.testing import TestClient

from mlbench_master.database.models import Rank, Run, Stream, Worker
from tests.conftest import as_pod
from tests.master.resources.agents import poll, ship
from tests.support.rows import make_ranks, see_pod


@pytest.fixture
def assigned(run: Run) -> Run:
    make_ranks(run)
    return run


# --- Shipping ---


def test_the_response_has_the_next_offset(api: TestClient, assigned: Run) -> None:
    assert ship(api, assigned.id, b"abc").json == {"offset": 3, "next_ship_seconds": 1.0}
    assert ship(api, assigned.id, b"abcde").json["offset"] == 5
    assert ship(api, assigned.id, b"z", offset=9).json["offset"] == 5
    assert ship(api, assigned.id, b"").json["offset"] == 5
    assert ship(api, assigned.id, b"out", "stdout", rank=1).json["offset"] == 3
    sizes = {(stream.rank, stream.name): stream.size for stream in Stream.select()}
    assert sizes == {(0, "metrics"): 5, (1, "stdout"): 3}


def test_ended_attempts_and_runs_accept_no_data(api: TestClient, assigned: Run) -> None:
    assert ship(api, assigned.id, b"abc", rank=0).status_code == 200
    # An agent may then forget the rank and take the next one.
    Run.update(attempt=2).where(Run.id == assigned.id).execute()
    message = f"attempt 1 of run {assigned.id} has ended"
    assert ship(api, assigned.id, b"abc").json == {"status": 409, "message": message}
    for state in ("FINISHED", "FAILED", "STOPPED"):
        Run.update(state=state).where(Run.id == assigned.id).execute()
        answer = ship(api, assigned.id, b"abc")
        assert answer.json == {"status": 409, "message": f"run {assigned.id} has ended"}


@pytest.mark.parametrize(
    ("params", "stream"),
    [
        ({"rank": "2"}, "metrics"),
        ({"rank": "-1"}, "metrics"),
        ({"rank": "9" * 30}, "metrics"),
        ({"attempt": "2"}, "metrics"),
        ({"attempt": "9" * 18}, "metrics"),
        ({}, "posted"),
        ({}, "Metrics"),
    ],
)
def test_unknown_ranks_attempts_and_streams_are_not_found(
    api: TestClient, assigned: Run, params: dict[str, Any], stream: str
) -> None:
    assert ship(api, assigned.id, b"abc", stream, **params).status_code == 404
    assert not Stream.select().exists()


@pytest.mark.parametrize("field", ["attempt", "offset"])
@pytest.mark.parametrize("value", ["-1", "x", "", "9" * 19, None])
def test_invalid_parameters(api: TestClient, assigned: Run, field: str, value: str | None) -> None:
    params: dict[str, Any] = {field: value}
    answer = ship(api, assigned.id, b"abc", **params)
    assert answer.status_code == 400
    assert field in answer.json["message"]


def test_bodies_are_limited(api: TestClient, assigned: Run) -> None:
    assert ship(api, assigned.id, b"x" * (4 << 20)).status_code == 200
    answer = ship(api, assigned.id, b"x" * ((4 << 20) + 1))
    assert answer.status_code == 413
    assert answer.json == {"status": 413, "message": "body: must be at most 4 MiB"}


@pytest.mark.parametrize(
    ("name", "uid"), [("w-1", "uid-1"), ("w-0", "uid-0"), ("w-0", ""), ("other", "uid-1")]
)
def test_a_pod_ships_only_for_its_rank(api: TestClient, run: Run, name: str, uid: str) -> None:
    make_ranks(run, pod_uid="uid-1")
    answer = ship(api, run.id, b"abc", headers=as_pod(name, uid))
    assert answer.status_code == 403
    assert answer.json["message"] == "rank: rank 0 belongs to another pod"
    assert not Stream.select().exists()


def test_a_replaced_pod_may_not_ship(api: TestClient, run: Run) -> None:
    """This holds even before the controller marks the rank as lost."""
    make_ranks(run, pod_uid="uid-1")
    assert ship(api, run.id, b"abc", headers=as_pod("w-0", "uid-1")).json["offset"] == 3
    see_pod("w-0", "uid-2")
    for uid in ("uid-1", "uid-2"):
        assert ship(api, run.id, b"abcdef", headers=as_pod("w-0", uid)).status_code == 403
    assert [stream.size for stream in Stream.select()] == [3]


# --- Polling ---


def test_a_poll(api: TestClient, assigned: Run) -> None:
    answer = poll(api, {"state": "idle", "ip": "10.0.0.1"}, pod="w-1")
    assert answer.status_code == 200
    assert answer.json | {"time": 0.0} == {
        "do": "start",
        "next_poll_seconds": 0.25,
        "busy": True,
        "time": 0.0,
        "assignment": {"run_id": assigned.id, "attempt": 1, "rank": 1},
        "diagnosis": None,
        "native_rank": None,
        "profile": None,
        "faults": [],
    }
    assert Worker.get_by_id("w-1").ip == "10.0.0.1"


@pytest.mark.parametrize(
    ("name", "uid", "said", "field"),
    [
        ("w-1", "uid-1", "uid-1", "pod"),
        ("w-0", "uid-0", "uid-1", "pod_uid"),
        ("w-0", "", "uid-1", "pod_uid"),
        ("w-0", "uid-1", "", "pod_uid"),
    ],
)
def test_a_pod_may_report_only_about_itself(
    api: TestClient, run: Run, name: str, uid: str, said: str, field: str
) -> None:
    make_ranks(run, pod_uid="uid-1")
    ended = EXITED | {"run_id": run.id, "pod_uid": said}
    answer = poll(api, ended, headers=as_pod(name, uid))
    assert answer.status_code == 403
    assert answer.json["message"] == f"{field}: token belongs to another pod"
    assert not Worker.select().exists()
    assert not Rank.get(rank=0).reported


RUNNING = {"state": "running", "ip": "", "run_id": 1, "attempt": 1, "rank": 0}
EXITED = RUNNING | {"state": "exited", "exit_code": 0, "exited_at": 1.0, "sizes": {}}


_WRONG: list[tuple[object, str]] = [
    ("", "state"),
    ({}, "state"),
    ({"state": "asleep", "ip": ""}, "state"),
    ({"state": "idle"}, "ip"),
    ({"state": "idle", "ip": 3}, "ip"),
    ({"state": "idle", "ip": "x" * 65}, "ip"),
    ({"state": "idle", "ip": "", "mood": 1}, "mood"),
    ({"state": "running", "ip": ""}, "run_id, attempt, rank"),
    ({"state": "exited", "ip": ""}, "exit_code, exited_at"),
    *((RUNNING | {"run_id": wrong}, "run_id") for wrong in (-1, 10**30, True)),
    *((RUNNING | {"attempt": wrong}, "attempt") for wrong in ("x", True)),
    *((RUNNING | {"rank": wrong}, "rank") for wrong in (2**31, True)),
    *((EXITED | {"exit_code": wrong}, "exit_code") for wrong in (None, 10**30, True)),
    *((EXITED | {"exited_at": wrong}, "exited_at") for wrong in (None, float("nan"), True)),
    (EXITED | {"sizes": {"metrics": -1}}, "sizes.metrics"),
    (EXITED | {"sizes": {"metrics": 2**63}}, "sizes.metrics"),
    (EXITED | {"sizes": {"other": 1}}, "sizes.other"),
    (EXITED | {"sizes": [1]}, "sizes"),
]


def test_an_invalid_report_is_refused(api: TestClient, assigned: Run) -> None:
    for body, field in _WRONG:
        answer = poll(api, body)
        assert answer.status_code == 400
        assert field in answer.json["message"]
    assert not Worker.select().exists()
