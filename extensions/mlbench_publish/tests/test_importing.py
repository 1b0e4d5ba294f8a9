"""Imported runs: read and compared like local runs, but read-only."""

import copy
import io
import json
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from falcon.testing import Result

from mlbench import archive
from mlbench.archive import ROWS, RUN, opened
from mlbench.evaluation import sandbox
from mlbench_master.database.models import Diagnosis, Profile, Rank, RankEvidence, Run
from mlbench_master.errors import BadFieldError
from mlbench_master.reading.series import SeriesReader
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.runs import lifecycle
from mlbench_publish import importing
from tests.master.archives.conftest import POD, Master
from tests.support import reading
from tests.support.evidence import LOAD, evidence_of, over
from tests.support.rows import make_run, reload
from tests.web.made import make_profile


@pytest.fixture
def exported(master: Master) -> bytes:
    """The archive of a run that the master and Prometheus have deleted since."""
    run = master.make_ended()
    master.sealer.turn()
    content = master.api.simulate_get(f"/api/runs/{run.id}/archive").content
    lifecycle.delete(reload(run))
    master.sealer.turn()
    master.server.lose_everything()
    return content


def send(master: Master, content: bytes) -> Result:
    return master.api.simulate_post("/api/archives/", body=content)


def told(master: Master, path: str, **params: Any) -> Any:
    """Return the JSON of a successful GET request."""
    answer = master.api.simulate_get(path, params=params)
    assert answer.status_code == 200, answer.json
    return json.loads(answer.text)


def test_the_api_returns_the_same_for_an_imported_run(master: Master, tmp_path: Path) -> None:
    home = master.make_ended()
    asked = Diagnosis.create(run=home, attempt=1, reason="stalled", asked_at=home.created_at)
    evidence = evidence_of(1, over(21), at=(LOAD,)).to_fields()
    RankEvidence.create(diagnosis=asked, rank=1, evidence=evidence)
    make_profile(home)
    Profile.update(attempt=1).execute()
    master.sealer.turn()
    paths = ("manifest", "events", "result", "profiles", "files")
    before = {path: told(master, f"/api/runs/{home.id}/{path}") for path in paths}
    diagnosis = told(master, f"/api/runs/{home.id}/diagnosis")
    [name] = [profile["file"] for profile in before["profiles"] if profile["file"]]
    profile = master.api.simulate_get(f"/api/runs/{home.id}/files/{name}", params={"rank": 0})
    assert profile.status_code == 200, profile.text
    series = reading.get_run(master.api, home).json
    files = reading.opened(reading.get_run(master.api, home, format="zip"))
    content = master.api.simulate_get(f"/api/runs/{home.id}/archive").content
    lifecycle.delete(reload(home))
    master.sealer.turn()
    master.server.lose_everything()

    answer = send(master, content)
    assert (answer.status_code, answer.json.get("added")) == (200, True), answer.json
    run_id = answer.json["run"]["id"]
    assert run_id != home.id
    origin = answer.json["run"]["origin"]
    assert (origin["run_id"], bool(origin["installation"])) == (home.id, True)
    for path in paths:
        now = told(master, f"/api/runs/{run_id}/{path}")
        if path in ("manifest", "result"):
            assert now.pop("run_id") == run_id
            before[path].pop("run_id")
        assert now == before[path]
    its = told(master, f"/api/runs/{run_id}/diagnosis")
    assert (its["verdict"], its["evidence"]) == (diagnosis["verdict"], [evidence])
    kept = master.api.simulate_get(f"/api/runs/{run_id}/files/{name}", params={"rank": 0})
    assert kept.content == profile.content
    run = Run.get_by_id(run_id)
    assert reading.get_run(master.api, run).json == series
    assert reading.opened(reading.get_run(master.api, run, format="zip")) == files
    compared = told(master, "/api/compare", runs=str(run_id))
    assert compared["results"][0]["time_to_target"] == before["result"]["time_to_target"]
    again = master.api.simulate_get(f"/api/runs/{run_id}/archive").content
    assert again == content


def test_a_second_import_of_an_archive_adds_nothing(master: Master, exported: bytes) -> None:
    first, second = send(master, exported), send(master, exported)
    assert (first.json["added"], second.json["added"]) == (True, False)
    run_id = first.json["run"]["id"]
    assert first.json["run"] == second.json["run"]
    # An interrupted import is completed.
    before = told(master, f"/api/runs/{run_id}/result")
    Run.update(archive=None, archive_sha256=None).execute()
    assert send(master, exported).json == second.json
    assert told(master, f"/api/runs/{run_id}/result") == before
    # An archive of this installation's own run is not imported.
    own = master.make_ended()
    master.sealer.turn()
    answer = send(master, master.api.simulate_get(f"/api/runs/{own.id}/archive").content)
    assert answer.json["run"] == told(master, f"/api/runs/{own.id}")
    assert not answer.json["added"]
    assert Run.select().count() == 2


def test_an_imported_run_is_read_only_and_can_be_deleted(master: Master, exported: bytes) -> None:
    run_id = send(master, exported).json["run"]["id"]
    sample = {"run_id": run_id, "name": "a", "date": "2026-01-01T00:00:00Z", "value": 1}
    posted = master.api.simulate_post("/api/metrics/", json=sample)
    stopped = master.api.simulate_post(f"/api/runs/{run_id}/stop/")
    for answer in (posted, stopped):
        assert answer.status_code == 409
        assert answer.json["message"] == f"run {run_id} is imported, therefore read-only"
    assert told(master, "/api/runs", pod=POD) == []
    assert f'run_id="{run_id}"' not in master.api.simulate_get("/metrics").text
    assert len(list(master.folder.glob("*.mlbench"))) == 1
    assert master.api.simulate_delete(f"/api/runs/{run_id}").status_code == 204
    master.sealer.turn()
    assert not list(master.folder.glob("*.mlbench"))
    assert send(master, exported).json["added"]


def test_an_imported_run_is_distinguished_from_a_local_run(master: Master, exported: bytes) -> None:
    elsewhere = send(master, exported).json["run"]["id"]
    Run.update(origin={**Run.get_by_id(elsewhere).origin, "installation": "lab"}).execute()
    own = master.make_ended()
    compared = told(master, "/api/compare", runs=f"{elsewhere},{own.id}")
    [differing] = [one["text"] for one in compared["differences"] if one["name"] == "origin"]
    assert differing == f"origin is lab in run {elsewhere} and here in run {own.id}"
    assert len(compared["groups"]) == 2


# --- Refused archives ---


Rewritten = Callable[[Callable[[Any], object]], bytes]


@pytest.fixture
def rewritten(exported: bytes, tmp_path: Path) -> Rewritten:
    """A function that returns the archive with changed rows and correct digests."""
    (tmp_path / "a").write_bytes(exported)
    with opened(tmp_path / "a") as original:
        documents = {name: original.document(name) for name in (RUN, ROWS)}
        series = [(name, list(original.read(name))) for name in original.series]

    def rewrite(change: Callable[[Any], object]) -> bytes:
        changed = copy.deepcopy(documents)
        change(changed[ROWS])
        archive.write(tmp_path / "b", changed, series)
        return (tmp_path / "b").read_bytes()

    return rewrite


def change(table: str, column: str, value: object, rows: Any) -> None:
    rows[table][0][column] = value


def test_an_archive_without_a_valid_run_is_refused(
    master: Master, rewritten: Rewritten, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The digests are correct, and checking them would take most of the time.
    monkeypatch.setattr(sandbox, "damage", lambda *_: [])
    cases: list[tuple[str, str, object]] = [
        ("run", "name", "../../etc/passwd"),
        ("run", "name", 7),
        ("run", "state", "STARTED"),
        ("run", "state", "WON"),
        ("run", "finished_at", None),
        ("run", "benchmark", "of-the-future"),
        ("run", "settings", ["a"]),
        ("run", "target", {"metric": "acc"}),
        ("run", "seed", 2**70),
        ("run", "created_at", "yesterday"),
        ("rank", "machine", {"packages": 3}),
        ("rank", "assignment", []),
        ("rank", "exit_code", "0"),
        ("rank", "interference", 5),
    ]
    for table, column, value in cases:
        content = rewritten(partial(change, table, column, value))
        answer = send(master, content)
        assert answer.status_code == 400, (column, value, answer.json)
        assert answer.json["message"].startswith("body: its ")
        assert Run.select().count() == Rank.select().count() == 0
    # An unknown column of a newer version is ignored.
    content = rewritten(partial(change, "run", "new_column", 1))
    assert send(master, content).json["added"]


def test_the_size_stated_in_an_archive_is_ignored(master: Master, rewritten: Rewritten) -> None:
    """A retention policy would delete other runs because of a large size."""
    content = rewritten(partial(change, "run", "archive_bytes", 10**15))
    run = Run.get_by_id(send(master, content).json["run"]["id"])
    assert run.archive_bytes is None
    master.sealer.turn()
    assert reload(run).archive_bytes == len(content)


def test_a_different_archive_of_an_imported_run_is_refused(
    master: Master, exported: bytes, rewritten: Rewritten, tmp_path: Path
) -> None:
    forged = rewritten(partial(change, "run", "energy_joules", 5.0))
    first = send(master, forged)
    assert first.json["added"]
    genuine = send(master, exported)
    assert genuine.status_code == 400
    run_id = first.json["run"]["id"]
    assert (
        f"body: this run is here already as run {run_id}, with another" in genuine.json["message"]
    )
    with opened(tmp_path / "a") as original, opened(tmp_path / "b") as other:
        assert original.digest in genuine.json["message"]
        assert other.digest in genuine.json["message"]


def test_damaged_and_huge_files_are_refused(master: Master, exported: bytes) -> None:
    damaged = send(master, exported[:-100])
    message = "body: it is no archive of a run, or a damaged one"
    assert (damaged.status_code, damaged.json["message"][: len(message)]) == (400, message)
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("digests.json", b" " * (65 << 20))
    grown = send(master, held.getvalue())
    assert grown.json["message"].startswith("body: digests.json has more than 67108864 bytes")
    too_large = master.api.simulate_post("/api/archives/", headers={"Content-Length": str(2 << 30)})
    assert (too_large.status_code, Run.select().count()) == (413, 0)


def test_the_total_uncompressed_size_is_limited(master: Master) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bomb:
        for number in range(18):
            bomb.writestr(f"logs/1/{number}.stdout", bytes(60 << 20))
    answer = send(master, held.getvalue())
    assert answer.status_code == 413
    assert "its members have more than 1073741824 bytes in all" in answer.json["message"]


def test_the_check_stops_when_the_client_disconnects(master: Master, exported: bytes) -> None:
    began = time.monotonic()
    reader = SeriesReader(master.prometheus, ArchiveStore("/nowhere"))
    with TemporaryFile() as file:
        file.write(exported)
        with pytest.raises(BadFieldError) as refused:
            importing.import_archive(reader, file, lambda: True)
    assert "it cannot be checked" in str(refused.value)
    assert time.monotonic() - began < 10


def test_the_export_of_a_run_without_an_archive_is_refused(master: Master) -> None:
    run = make_run(state="FAILED", archive_problem="Prometheus has 3 of 4 samples")
    answer = master.api.simulate_get(f"/api/runs/{run.id}/archive")
    assert answer.status_code == 409
    assert answer.json["message"].endswith("no archive: Prometheus has 3 of 4 samples")
