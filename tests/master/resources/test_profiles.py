"""Profiles of ranks: requests to agents, their results, and the uploaded file."""

import gzip
import hashlib
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from falcon.testing import TestClient

from mlbench.contract.profiles import MAX_BYTES, CodeLine, Operator, ProfileResult
from mlbench_master.database.models import Profile, Rank, Run
from mlbench_master.runs import run_profiles
from tests.conftest import as_pod
from tests.master.resources.agents import poll_running
from tests.support.rows import make_ranks

pytestmark = pytest.mark.both_databases

FILE = gzip.compress(
    b'{"traceEvents": []}', mtime=0
)  # fixed time: the bytes are in the ids of tests
LINE = CodeLine("train.py:4 loss.backward()", 2.0, "aten::mm", 0.25)
RECORDED = ProfileResult("pytorch", 1.0, 7.5, "", (Operator("aten::mm", 3, 0.25, 0.5),), (LINE,))


@pytest.fixture
def asked(api: TestClient, run: Run) -> int:
    """Id of a requested profile of rank 0, in a run with two ranks."""
    make_ranks(run)
    answer = ask(api, run, seconds=2)
    about = {"attempt": 1, "rank": 0, "seconds": 2, "done": False, "file": None}
    assert (answer.status_code, answer.json) == (201, answer.json | about)
    return int(answer.json["id"])


def ask(api: TestClient, run: Run, **body: Any) -> Any:
    return api.simulate_post(f"/api/runs/{run.id}/profiles", json=body)


def give(
    api: TestClient, asked: int, file: bytes = FILE, pod: str = "w-0", whose: str = "", **facts: Any
) -> int:
    body = json.dumps(RECORDED.to_fields() | facts).encode() + b"\n" + file
    path = f"/api/workers/{pod}/profiles/{asked}"
    answer = api.simulate_put(path, body=body, headers=as_pod(whose or pod))
    return int(answer.status_code)


def poll(api: TestClient, run: Run, rank: int) -> Any:
    return poll_running(api, run, rank)["profile"]


def read(api: TestClient, run: Run) -> Any:
    return api.simulate_get(f"/api/runs/{run.id}/profiles").json


def test_a_profile_is_requested_until_the_rank_sends_it(
    api: TestClient, run: Run, asked: int
) -> None:
    wanted = {"id": asked, "seconds": 2}
    # The same report again is handled as unchanged, but still gets the request.
    assert [poll(api, run, rank) for rank in (0, 1, 0)] == [wanted, None, wanted]
    assert give(api, asked) == 204
    assert poll(api, run, 0) is None
    [profile] = read(api, run)
    name = f"profiles/{asked}.trace.json.gz"
    assert (profile["done"], profile["tool"], profile["file"]) == (True, "pytorch", name)
    assert profile["operators"] == [RECORDED.operators[0].to_fields()]
    assert profile["lines"] == [RECORDED.lines[0].to_fields()]
    assert profile["began_at"] == "1970-01-01T00:00:01.000000Z"
    assert profile["ended_at"] == "1970-01-01T00:00:07.500000Z"
    [file] = api.simulate_get(f"/api/runs/{run.id}/files").json
    assert (file["name"], file["size"]) == (name, profile["size"])
    assert file["sha256"] == hashlib.sha256(FILE).hexdigest()
    assert api.simulate_get(f"/api/runs/{run.id}/files/{name}").content == FILE


def test_a_failed_profile_has_the_reason(api: TestClient, run: Run, asked: int) -> None:
    assert give(api, asked, b"", problem="rank: it has no py-spy", tool="") == 204
    [found] = read(api, run)
    assert (found["done"], found["problem"]) == (True, "rank: it has no py-spy")
    assert found["file"] is None
    assert api.simulate_get(f"/api/runs/{run.id}/files").json == []


def test_the_first_result_counts(api: TestClient, run: Run, asked: int) -> None:
    assert [give(api, asked), give(api, asked, b"other")] == [204, 204]
    assert read(api, run)[0]["size"] == len(FILE)


@pytest.mark.parametrize("how", ["late", "ended"])
def test_a_profile_times_out(api: TestClient, run: Run, asked: int, how: str) -> None:
    if how == "late":
        Profile.update(asked_at=time.time() - 1000).execute()
        assert poll(api, run, 0) is None
    else:
        Run.update(state="FINISHED").execute()
    assert give(api, asked) == 409
    [found] = read(api, run)
    assert (found["done"], found["problem"]) == (True, "its agent has not brought it in time")


def test_a_rank_may_send_only_its_own_profile(api: TestClient, run: Run, asked: int) -> None:
    assert give(api, asked, pod="w-1") == 404
    assert give(api, asked, pod="w-1", whose="w-0") == 403
    assert give(api, asked + 1) == 404
    assert not read(api, run)[0]["done"]


@pytest.mark.parametrize(
    ("file", "facts"),
    [
        (FILE, {"problem": "it failed"}),
        (b"", {}),
        (FILE, {"tool": "perf"}),
        (FILE, {"began_at": "now"}),
        (FILE, {"operators": [RECORDED.operators[0].to_fields()] * 11}),
        (FILE, {"operators": [Operator("x" * 301, None, 0.0, 0.0).to_fields()]}),
        (FILE, {"lines": [LINE.to_fields()] * 11}),
        (FILE, {"lines": [replace(LINE, activity="x" * 301).to_fields()]}),
    ],
)
def test_invalid_profiles_are_refused(api: TestClient, asked: int, file: bytes, facts: Any) -> None:
    assert give(api, asked, file, **facts) == 400


def test_a_file_that_is_too_large_is_refused(api: TestClient, asked: int) -> None:
    assert give(api, asked, bytes(MAX_BYTES + (64 << 10))) == 413


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 409, "rank 0 is being profiled (profile {asked})"),
        ({"rank": 1}, 409, "rank 1 of run {run} has ended"),
        ({"rank": 2}, 400, "rank: run {run} has started ranks 0, 1 (got 2)"),
        ({"seconds": 61}, 400, "seconds: "),
        ({"seconds": 0}, 400, "seconds: "),
        ({"rank": -1}, 400, "rank: "),
    ],
)
def test_invalid_requests_are_refused(
    api: TestClient, run: Run, asked: int, body: Any, status: int, message: str
) -> None:
    Rank.update(exit_code=0, exited_at=1.0).where(Rank.rank == 1).execute()
    answer = ask(api, run, **body)
    assert answer.status_code == status
    assert answer.json["message"].startswith(message.format(asked=asked, run=run.id))


def test_an_ended_run_cannot_be_profiled(api: TestClient, run: Run) -> None:
    make_ranks(run)
    Run.update(state="FINISHED").execute()
    assert ask(api, run).status_code == 409


def test_the_oldest_profiles_are_deleted(api: TestClient, run: Run, asked: int) -> None:
    for _ in range(run_profiles._MAX_PROFILES):
        give(api, asked)
        asked = ask(api, run).json["id"]
    kept = [profile["id"] for profile in read(api, run)]
    assert kept == [*range(asked - run_profiles._MAX_PROFILES + 1, asked + 1)]
