"""``/api/runs/{id}/files``: output files of ranks, which browsers must not execute."""

import hashlib

import pytest
from falcon.testing import TestClient

from mlbench.contract.output import OutputFile
from mlbench_master.database.models import Run
from mlbench_master.recording import streams
from tests.support.rows import key, ship_files

pytestmark = pytest.mark.both_databases
_LIST = b'{"folder": "/", "files": [{%s, "sha256": null}], "more": 0}'
CSV, HTML = b"step,loss\n1,0.31\n", b"<script>alert(1)</script>"


@pytest.fixture
def path(run: Run) -> str:
    model = OutputFile("model.pt", 5 << 20, "ab" * 32, "it has more than 1 MiB")
    ship_files(run, {"plots/loss.csv": CSV, "page.html": HTML, "model.pt": model})
    ship_files(run, {"plots/loss.csv": b"", "löss.PNG": b"\x89PNG"}, rank=1)
    return f"/api/runs/{run.id}/files/"


def test_the_list_has_uploaded_and_remaining_files(api: TestClient, path: str) -> None:
    listed = api.simulate_get(path).json
    assert listed[0] == {
        **{"rank": 0, "attempt": 1, "name": "plots/loss.csv", "size": len(CSV)},
        **{"sha256": hashlib.sha256(CSV).hexdigest(), "path": None, "left": ""},
    }
    assert listed[2] == {
        **{"rank": 0, "attempt": 1, "name": "model.pt", "size": 5 << 20, "sha256": "ab" * 32},
        **{"path": "/there/model.pt", "left": "it has more than 1 MiB"},
    }
    assert {file["rank"] for file in listed[3:]} == {1}
    assert [file["name"] for file in listed[3:]] == ["plots/loss.csv", "löss.PNG"]


@pytest.mark.parametrize(
    ("name", "rank", "content", "kind", "stored_as"),
    [
        ("plots/loss.csv", 0, CSV, "text/csv; charset=utf-8", 'filename="loss.csv"'),
        ("plots/loss.csv", 1, b"", "text/csv; charset=utf-8", 'filename="loss.csv"'),
        ("page.html", 0, HTML, "application/octet-stream", 'filename="page.html"'),
        ("löss.PNG", 1, b"\x89PNG", "image/png", "filename*=UTF-8''l%C3%B6ss.PNG"),
    ],
)
def test_a_file_is_sent_as_a_download(
    api: TestClient, path: str, name: str, rank: int, content: bytes, kind: str, stored_as: str
) -> None:
    answer = api.simulate_get(path + name, params={"rank": rank})
    assert (answer.content, answer.headers["Content-Type"]) == (content, kind)
    assert answer.headers["Content-Disposition"].startswith("attachment; ")
    assert stored_as in answer.headers["Content-Disposition"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]


def test_file_names_are_escaped_in_the_header(api: TestClient, run: Run) -> None:
    ship_files(run, {'a;b="x"%41\'ü.txt': CSV})
    answer = api.simulate_get(f"/api/runs/{run.id}/files/a;b=%22x%22%2541'%C3%BC.txt")
    assert answer.headers["Content-Disposition"] == (
        'attachment; filename="a;b=_x__41\'_.txt"; '
        "filename*=UTF-8''a%3Bb%3D%22x%22%2541%27%C3%BC.txt"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.pt", "file: it is at /there/model.pt on the rank's machine: it has more than"),
        ("../loss.csv", "file: rank 0 left none of this name; there is a list"),
        ("plots", "file: rank 0 left none of this name; there is a list"),
    ],
)
def test_other_files_are_not_found(api: TestClient, path: str, name: str, message: str) -> None:
    answer = api.simulate_get(path + name)
    assert answer.status_code == 404
    assert answer.json["message"].startswith(message)


def test_a_file_of_a_lost_rank_has_the_reason(api: TestClient, run: Run, path: str) -> None:
    stream = key(run, 2, "files")
    line = b'{"folder": "/there", "files": [{"name": "a", "size": 9, "sha256": "%s"}], "more": 0}\n'
    streams.append(stream, 0, line % (b"0" * 64))
    streams.close(run.id, 1, 2, {})
    [lost] = [file for file in api.simulate_get(path).json if file["rank"] == 2]
    why = "it did not come from its rank, which was lost"
    assert (lost["path"], lost["left"]) == ("/there/a", why)


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON",
        b"[" * 100_000,
        _LIST % b'"name": "../a", "size": 1, "left": "x"',
        _LIST % b'"name": "a", "size": -1, "left": "x"',
        _LIST % b'"name": "a", "size": 1',  # uploaded, but without a digest
    ],
)
def test_a_malformed_list_is_empty(api: TestClient, run: Run, line: bytes) -> None:
    streams.append(key(run, 0, "files"), 0, line + b"\n")
    answer = api.simulate_get(f"/api/runs/{run.id}/files/")
    assert (answer.status_code, answer.json) == (200, [])
