"""Hang diagnosis: requests to agents, their evidence, and the verdict."""

import json
import re
from typing import Any

import pytest
from falcon.testing import TestClient

from mlbench.contract import names
from mlbench.contract.diagnosis import Evidence
from mlbench_master.database.models import Diagnosis, Rank, RankEvidence, Run
from mlbench_master.runs import diagnoses, lifecycle
from tests.conftest import as_pod
from tests.master.resources.agents import poll_running
from tests.support.evidence import LOAD, MAIN, entered, evidence_of, over
from tests.support.rows import make_ranks

pytestmark = pytest.mark.both_databases


@pytest.fixture
def asked(api: TestClient, run: Run) -> int:
    """Id of a requested diagnosis of a run with two ranks."""
    make_ranks(run)
    answer = api.simulate_post(f"/api/runs/{run.id}/diagnosis")
    assert (answer.status_code, answer.json["done"], answer.json["reason"]) == (200, False, "asked")
    return int(answer.json["id"])


def give(api: TestClient, asked: int, body: object, pod: str = "w-0", whose: str = "") -> Any:
    fields = body.to_fields() if isinstance(body, Evidence) else body
    text = fields if isinstance(fields, str) else json.dumps(fields)
    path = f"/api/workers/{pod}/diagnoses/{asked}"
    return api.simulate_put(path, body=text, headers=as_pod(whose or pod))


def poll(api: TestClient, run: Run, rank: int) -> Any:
    return poll_running(api, run, rank)["diagnosis"]


def read(api: TestClient, run: Run, **params: Any) -> Any:
    return api.simulate_get(f"/api/runs/{run.id}/diagnosis", params=params).json


def test_evidence_is_requested_until_the_ranks_send_it(
    api: TestClient, run: Run, asked: int
) -> None:
    assert [poll(api, run, rank) for rank in (0, 1)] == [asked, asked]
    # The same report again is handled as unchanged, but still gets the request.
    assert poll(api, run, 1) == asked
    assert give(api, asked, evidence_of(0, entered(22))).status_code == 204
    assert [poll(api, run, rank) for rank in (0, 1)] == [None, asked]
    assert not read(api, run)["done"]
    late = evidence_of(1, over(21), at=(LOAD,))
    assert give(api, asked, late, "w-1").status_code == 204
    diagnosis = read(api, run)
    sentence = "rank 1 is at `load_batch` (data.py:41); rank 0 waits for it in all-reduce 22"
    assert (diagnosis["done"], diagnosis["verdict"]["sentence"]) == (True, sentence)
    assert [item["rank"] for item in diagnosis["evidence"]] == [0, 1]
    load = {"depth": 0, "frame": LOAD.to_fields(), "here": [1], "elsewhere": [0]}
    assert diagnosis["stacks"][-1] == load
    assert read(api, run, evidence="false") == diagnosis | {"evidence": []}
    events = api.simulate_get(f"/api/runs/{run.id}/events").json
    texts = [event["text"] for event in events if event["kind"] == "diagnosis"]
    assert texts == [f"Hang diagnosis: {sentence}"]


def test_native_frames_are_requested_from_one_rank(api: TestClient, run: Run) -> None:
    make_ranks(run)
    path = f"/api/runs/{run.id}/diagnosis"
    assert "ranks 0-1" in api.simulate_post(path, params={"native": 2}).json["message"]
    asked = api.simulate_post(path, params={"native": 1}).json["id"]
    assert [poll_running(api, run, rank)["native_rank"] for rank in (0, 1)] == [1, 1]
    # A request without a native rank shares the pending diagnosis.
    assert api.simulate_post(path).json["id"] == asked
    assert api.simulate_post(path, params={"native": 0}).json["id"] > asked
    assert poll_running(api, run, 1)["native_rank"] == 0


def test_the_first_evidence_of_a_rank_counts(api: TestClient, run: Run, asked: int) -> None:
    for steps in (3, 4):
        assert give(api, asked, evidence_of(0, steps=steps)).status_code == 204
    assert [evidence["steps"] for evidence in read(api, run)["evidence"]] == [3]


def test_a_silent_rank_is_given_up(api: TestClient, run: Run, asked: int) -> None:
    give(api, asked, evidence_of(0, entered(22)))
    Diagnosis.update(asked_at=Diagnosis.asked_at - 2 * diagnoses.ANSWER_SECONDS).execute()
    assert poll(api, run, 1) is None
    assert give(api, asked, evidence_of(1), "w-1").status_code == 409
    found = read(api, run)
    told = "cannot tell: rank 0 is in all-reduce 22; rank 1 has sent no evidence"
    assert (found["done"], found["verdict"]["sentence"]) == (True, told)


def test_the_exit_code_of_an_exited_rank_is_evidence(api: TestClient, run: Run) -> None:
    make_ranks(run)
    Rank.update(exit_code=0, exited_at=1.0).where(Rank.rank == 1).execute()
    asked = api.simulate_post(f"/api/runs/{run.id}/diagnosis").json["id"]
    give(api, asked, evidence_of(0, entered(22)))
    found = read(api, run)
    said = "rank 1 has ended with exit code 0; rank 0 waits for it in all-reduce 22"
    assert (found["done"], found["verdict"]["sentence"]) == (True, said)


def test_the_last_verdict_is_a_metric(api: TestClient, run: Run, asked: int) -> None:
    give(api, asked, evidence_of(0, entered(22)))
    assert f"\n{names.RUN_DIAGNOSIS}{{" not in api.simulate_get("/metrics").text
    give(api, asked, evidence_of(1, over(21), at=(LOAD, MAIN)), "w-1")
    [line] = re.findall(rf"\n{names.RUN_DIAGNOSIS}{{(.*)}} ", api.simulate_get("/metrics").text)
    said = "rank 1 is at `load_batch` (data.py:41); rank 0 waits for it in all-reduce 22"
    assert line == f'run_id="{run.id}",verdict="{said}"'


def test_a_rank_may_send_only_its_own_evidence(api: TestClient, run: Run, asked: int) -> None:
    assert give(api, asked, evidence_of(1)).status_code == 404
    assert give(api, asked, evidence_of(1), "w-1", whose="w-0").status_code == 403
    assert give(api, asked + 1, evidence_of(0)).status_code == 404
    assert give(api, asked, evidence_of(0), "w-7").status_code == 404
    assert not RankEvidence.select().count()


@pytest.mark.parametrize(
    "changed",
    [
        {"rank": "0"},
        {"rank": None},
        {"steps": 2**60},
        {"processes": [{"pid": 1}]},
        {"threads": {}},
        {"collectives": [[[[]]]]},
        {"stdout_end": "x" * (256 << 10)},
    ],
)
def test_malformed_evidence(api: TestClient, run: Run, asked: int, changed: dict[str, Any]) -> None:
    answer = give(api, asked, evidence_of(0).to_fields() | changed)
    assert answer.status_code in (400, 413), answer.text
    for body in ("[]", "3", "null", "{", '"text"'):
        assert give(api, asked, body).status_code == 400
    assert not read(api, run)["evidence"]


def test_texts_of_a_process_are_sanitized(api: TestClient, run: Run, asked: int) -> None:
    fields = evidence_of(0, stderr_end="a\x1b[0m\n" + "b" * 20_000).to_fields()
    name = "\x1b[31m\u202egnp" + "f" * 1000
    fields["threads"][0]["frames"] = [{"function": name, "file": "a\0.py", "line": 1}]
    assert give(api, asked, fields).status_code == 204
    found = read(api, run)
    [frame] = found["evidence"][0]["threads"][0]["frames"]
    assert frame["function"] == "?[31m?gnp" + "f" * 491
    assert frame["file"] == "a?.py"
    assert found["evidence"][0]["stderr_end"] == "b" * (16 << 10)


def test_only_an_active_run_can_be_diagnosed(api: TestClient, run: Run) -> None:
    path = f"/api/runs/{run.id}/diagnosis"
    assert api.simulate_get(path).status_code == 404
    assert api.simulate_post(path).status_code == 409
    make_ranks(run, exit_code=0)
    assert api.simulate_post(path).status_code == 409
    assert api.simulate_post("/api/runs/99/diagnosis").status_code == 404


def test_the_newest_diagnoses_are_kept(api: TestClient, run: Run, asked: int) -> None:
    path = f"/api/runs/{run.id}/diagnosis"
    assert api.simulate_post(path).json["id"] == asked
    for number in range(asked, asked + 7):
        for rank in (0, 1):
            give(api, number, evidence_of(rank), f"w-{rank}")
        assert api.simulate_post(path).json["id"] == number + 1
    kept = [diagnosis.id for diagnosis in diagnoses.asked_of(run.id)]
    assert kept == [*range(asked + 3, asked + 8)]
    Run.update(state="FINISHED").execute()
    lifecycle.delete(lifecycle.find(run.id))
    assert not Diagnosis.select().count() + RankEvidence.select().count()
