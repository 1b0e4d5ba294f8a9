"""``/api/runs``: create, list, read and delete runs."""

import gzip
import json
import time
from base64 import b64encode
from typing import Any

import pytest
from falcon.testing import TestClient

from mlbench.contract import records
from mlbench_master.database.connection import store
from mlbench_master.database.models import Run
from mlbench_master.runs.requests import kubernetes_name
from mlbench_master.settings import InstallationLimits
from tests.conftest import USER_TOKEN
from tests.support.rows import make_ranks, make_run

ORDER = {"name": "a", "benchmark": "steps"}
_HINT = 'Write workers=VALUE, or "workers=" for a word.'
_NO_VALUE = f"query: workers= lacks a value (got 'workers='). {_HINT}"
# The headers by which the original MLBench client is recognized.
ORIGINAL = {
    "Accept": "*/*",
    "User-Agent": "python-requests/2.32",
    "Authorization": f"Basic {b64encode(f'user:{USER_TOKEN}'.encode()).decode()}",
}


def post(api: TestClient, **fields: Any) -> Any:
    # Not json=...: its encoder rejects lone surrogates, which clients can send.
    return api.simulate_post("/api/runs/", body=json.dumps(ORDER | fields))


@pytest.mark.both_databases
def test_a_run_is_created_and_read(api: TestClient) -> None:
    before = time.time()
    answer = post(api, num_workers=3, num_cpus=1, max_restarts=2, args={"steps": 5})
    assert answer.status_code == 200
    run = answer.json
    assert run["created_at"].endswith("Z")
    fields: dict[str, Any] = {"name": "a", "display_name": "a", "state": "INITIALIZED"}
    fields |= {"benchmark": "steps", "args": {"steps": "5"}, "backend": "gloo", "attempt": 0}
    fields |= {"num_workers": 3, "world_size": 3, "num_cpus": 1.0, "max_restarts": 2, "ranks": []}
    fields |= {"job_metadata": {"command": "steps", "master_name": None, "pods": []}, "reason": ""}
    fields |= dict.fromkeys(["started_at", "finished_at", "delivery", "target"])
    assert records.Run.from_fields(run).to_fields() == run == run | fields
    assert before <= Run.get_by_id(run["id"]).created_at <= time.time()
    assert api.simulate_get(f"/api/runs/{run['id']}").json == run
    assert api.simulate_get("/api/runs").json == [run]


def test_a_request_without_a_benchmark_gets_a_note(api: TestClient) -> None:
    run = api.simulate_post("/api/runs/", json={"name": "notebook"}).json
    note = "no benchmark was named, so digits was taken, the default"
    assert (run["benchmark"], run["reason"]) == ("digits", note)
    [event] = api.simulate_get(f"/api/runs/{run['id']}/events").json
    assert event["text"] == f"The run was submitted: {note}"


@pytest.mark.both_databases
def test_an_active_run(api: TestClient) -> None:
    stated = {"device": "cpu", "rate": 0.1, "compile": False, "n": 2**63 - 1, "folder": None}
    target = {"metric": "a", "value": 1.0, "lower_is_better": True}
    reached: dict[str, Any] = {"target_reached_at": 1.25, "target_train_seconds": 0.5}
    run = make_run(started_at=0.5, settings=stated, target=target, **reached)
    make_ranks(run)
    store(run, attempt=2)
    make_ranks(run, ("w-1", "w-2"), exit_code=1)
    answer = api.simulate_get(f"/api/runs/{run.id}/").json
    assert answer["state"] == "STARTED"
    assert answer["started_at"] == "1970-01-01T00:00:00.500000Z"
    assert (answer["target"], answer["settings"]) == (target, stated)
    assert answer["target_reached_at"] == "1970-01-01T00:00:01.250000Z"
    assert answer["target_train_seconds"] == 0.5
    assert answer["ranks"] == [
        {"rank": 0, "pod": "w-1", "exit_code": 1, "stopped": "", "processes": [0]},
        {"rank": 1, "pod": "w-2", "exit_code": 1, "stopped": "", "processes": [1]},
    ]
    job = {"command": "steps", "master_name": "w-1", "pods": ["w-1", "w-2"]}
    assert (answer["job_metadata"], answer["name"], answer["display_name"]) == (job, "made", "made")


@pytest.mark.both_databases
def test_runs_are_listed_from_the_oldest(api: TestClient) -> None:
    ids = [make_run(state="FINISHED").id for _ in range(3)]
    assert [run["id"] for run in api.simulate_get("/api/runs/").json] == ids
    for first, expected in ((0, ids), (ids[1], ids[1:]), (ids[2] + 1, []), (10**17, [])):
        answer = api.simulate_get("/api/runs/", params={"from_id": first})
        assert [run["id"] for run in answer.json] == expected
    for wrong in ("", "-1", "one", "1.5", "9" * 19):
        answer = api.simulate_get("/api/runs", params={"from_id": wrong})
        assert answer.status_code == 400
        assert answer.json["message"].startswith("from_id: ")


@pytest.mark.both_databases
def test_limit_returns_the_newest_matching_runs(api: TestClient) -> None:
    def ids(**wanted: object) -> list[int]:
        return [run["id"] for run in api.simulate_get("/api/runs/", params=wanted).json]

    own: dict[str, Any] = {"name": "a-run", "benchmark": "", "command": "python 100%_real.py"}
    first, second, third = (
        make_run(**own, display_name=f"Number {number}", state=state).id
        for number, state in enumerate(("FINISHED", "FAILED", "FINISHED"), 1)
    )
    swept = {"exchange": "topk", "bandwidth": "20"}
    disturbed = {"disturbed": True, "contention_share": 0.5}
    other = make_run(benchmark="digits", swept=swept, figures=disturbed, state="FINISHED").id
    assert ids(limit=2) == [third, other]
    assert ids(limit=2, before=third) == [first, second]
    assert ids(limit=1, before=first) == []
    assert ids(state="FINISHED", limit=2, before=other) == [first, third]
    for words, expected in (
        ("NUMBER", [first, second, third]),
        ("number failed", [second]),
        ("100%_real", [first, second, third]),
        ("100%%real", []),
        ("bandwidth topk", [other]),
        ("disturbed", [other]),
        (str(other), [other]),
        ("no-such-word number", []),
    ):
        assert ids(query=words) == expected, words
    counts = api.simulate_get("/api/runs/counts/", params={"query": "number"}).json
    states = {"FINISHED": 2, "FAILED": 1}
    assert counts == {"runs": 4, "states": states, "query": '"number"'}
    wrong = {"limit": "0", "before": "x", "state": "DONE", "query": "a " * 51, "pod": "\0"}
    for name, value in [*wrong.items(), ("query", "a\0")]:
        answer = api.simulate_get("/api/runs/", params={name: value})
        assert answer.status_code == 400
        assert answer.json["message"].startswith(f"{name}: ")


@pytest.mark.both_databases
def test_runs_are_filtered_and_sorted_with_requested_columns(api: TestClient) -> None:
    for exchange, workers in (("topk", 4), ("topk", 2), ("ddp", 3)):
        make_run(workers, state="FINISHED", args={"exchange": exchange})
    wanted = {"query": "exchange=topk workers>1", "order": "workers", "columns": "workers,exchange"}
    answer = api.simulate_get("/api/runs/", params=wanted)
    shown = [run["values"] for run in answer.json]
    assert shown == [{"workers": workers, "exchange": "topk"} for workers in (2, 4)]
    first = api.simulate_get("/api/runs/", params={"order": "-workers", "limit": "1"}).json
    assert [run["num_workers"] for run in first] == [4]
    counts = api.simulate_get("/api/runs/counts/", params={"query": "exchange=topk"}).json
    assert counts == {"runs": 3, "states": {"FINISHED": 2}, "query": "exchange=topk"}
    for name, wrong, message in (
        ("query", "workers=", _NO_VALUE),
        ("order", "-worker", "order: unknown field worker. Did you mean workers?"),
        ("columns", "id,worker", "columns: unknown field worker. Did you mean workers?"),
        ("columns", "\0", "columns: must not contain NUL (got '\\x00')"),
    ):
        answer = api.simulate_get("/api/runs/", params={name: wrong})
        assert (answer.status_code, answer.json["message"]) == (400, message)


@pytest.mark.both_databases
def test_a_failed_run_of_a_set_names_its_replacement(api: TestClient) -> None:
    slots = ((1, "FAILED"), (2, "FINISHED"), (1, "FINISHED"), (2, "FAILED"))
    ids = [make_run(set_name="a", slot=slot, state=state).id for slot, state in slots]
    first, _, third, _ = ids
    replaced = {run["id"]: run["replaced_by"] for run in api.simulate_get("/api/runs/").json}
    assert {run_id: other for run_id, other in replaced.items() if other} == {first: third}
    failed = api.simulate_get("/api/runs/", params={"state": "FAILED", "limit": 2}).json
    assert failed[0]["replaced_by"] == api.simulate_get(f"/api/runs/{first}/").json["replaced_by"]


def test_an_unchanged_list_is_not_sent_again(api: TestClient) -> None:
    for _ in range(3):
        make_run(state="FINISHED")
    whole = api.simulate_get("/api/runs/")
    headers = {"If-None-Match": whole.headers["ETag"]}
    again = api.simulate_get("/api/runs/", headers=headers)
    assert (again.status_code, again.content) == (304, b"")
    packed = api.simulate_get("/api/runs/", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == whole.content
    assert "Accept-Encoding" in packed.headers["Vary"]
    make_run(state="FINISHED")
    assert api.simulate_get("/api/runs/", headers=headers).status_code == 200


def test_a_long_list_takes_few_queries(api: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    def queries() -> int:
        caplog.clear()
        with caplog.at_level("DEBUG", logger="peewee"):
            listed = api.simulate_get("/api/runs/").json
        assert all(len(run["ranks"]) == 2 for run in listed)
        return len(caplog.records)

    make_ranks(make_run())
    of_one = queries()
    for _ in range(9):
        run = make_run(state="FAILED", attempt=2)
        make_ranks(run, ("w-1", "w-2"), attempt=1, exit_code=1)
        make_ranks(run)
    assert queries() == of_one


def test_an_invalid_field_is_named(api: TestClient) -> None:
    wrong: dict[str, Any] = {"name": "Big ", "num_workers": 5, "args": {"-": "1"}, "colour": "red"}
    for field, value in wrong.items():
        answer = post(api, **{field: value})
        assert (answer.status_code, answer.json["status"]) == (400, 400)
        assert answer.json["message"].startswith(field)
    assert "unknown field" in answer.json["message"]
    nameless = api.simulate_post("/api/runs", json={"benchmark": "steps"})
    assert nameless.json == {"status": 400, "message": "name: required field is missing"}
    assert not Run.select().exists()


@pytest.mark.both_databases
def test_a_name_is_free_text(api: TestClient) -> None:
    run = post(api, name="Größe: 7").json
    assert (run["name"], run["resource_name"]) == ("Größe: 7", kubernetes_name("Größe: 7"))
    assert api.simulate_get("/api/runs/").json == [run]


@pytest.mark.parametrize(
    ("changed", "is_known"),
    [
        ({}, True),
        ({"Accept": "application/json, text/javascript"}, False),
        ({"User-Agent": "curl/8.14"}, False),
        ({"Authorization": f"Bearer {USER_TOKEN}"}, False),
    ],
)
def test_the_short_list(api: TestClient, changed: dict[str, str], is_known: bool) -> None:
    make_run(display_name="Made", state="FAILED", reason="because " * 99)
    [run] = api.simulate_get("/api/runs/", headers=ORIGINAL | changed).json
    told = {"name": "Made", "state": "failed", "num_workers": 2}
    assert (told.items() <= run.items(), "reason" not in run) == (is_known, is_known)


@pytest.mark.both_databases
def test_the_defaults_of_the_original_client_are_accepted(api: TestClient) -> None:
    image = "mlbench/pytorch-cifar10-resnet20-all-reduce:latest"
    order = {"name": "x-2", "num_workers": 2, "max_bandwidth": 1000, "image_name": image}
    order |= {"backend": "MPI", "queue": True}
    several = order | {"num_cpus": 1000}
    # 1000 cores are accepted only from the original client.
    assert api.simulate_post("/api/runs/", json=several).status_code == 400
    run = api.simulate_post("/api/runs/", json=several, headers=ORIGINAL).json
    most = InstallationLimits().cpus
    assert (run["num_cpus"], run["backend"], run["benchmark"]) == (most, "gloo", "cifar10-resnet")
    assert run["reason"] == (
        f"each worker has {most:g} cores, the maximum here, not 1000; "
        "the backend is gloo, because PyTorch has no MPI here"
    )
    run = api.simulate_post("/api/runs/", json=order | {"num_cpus": 0}, headers=ORIGINAL).json
    assert run["num_cpus"] == 1


def test_the_original_client_gets_json_when_it_deletes(api: TestClient) -> None:
    run = make_run()
    answer = api.simulate_delete(f"/api/runs/{run.id}", headers=ORIGINAL)
    assert (answer.status_code, answer.json) == (202, {})
    Run.update(state="FINISHED").where(Run.id == run.id).execute()
    answer = api.simulate_delete(f"/api/runs/{run.id}", headers=ORIGINAL)
    assert (answer.status_code, answer.json) == (200, {})


@pytest.mark.both_databases
def test_delete(api: TestClient) -> None:
    run = make_run()
    assert api.simulate_delete(f"/api/runs/{run.id}").status_code == 202
    going = api.simulate_get(f"/api/runs/{run.id}").json
    assert (going["stop_requested"], going["delete_requested"]) == (True, True)
    Run.update(state="FINISHED").where(Run.id == run.id).execute()
    answer = api.simulate_delete(f"/api/runs/{run.id}/")
    assert (answer.status_code, answer.text) == (204, "")
    for _ in range(2):
        assert api.simulate_delete(f"/api/runs/{run.id}/").status_code == 404
    assert post(api).json["id"] > run.id
