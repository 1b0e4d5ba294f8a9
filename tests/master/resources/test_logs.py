"""``/api/runs/{id}/logs``: what ranks write."""

import pytest
from falcon.testing import TestClient

from master.models import Run
from master.recording import streams
from tests.master.making import key


@pytest.fixture
def written(run: Run) -> Run:
    streams.append(key(run, 0, "stdout"), 0, "eins\nzwölf\n".encode())
    streams.append(key(run, 1, "stderr"), 0, b"warning\n")
    return run


def test_the_whole_and_from_an_offset(api: TestClient, written: Run) -> None:
    path = f"/api/runs/{written.id}/logs/"
    page = {"rank": 0, "stream": "stdout", "attempt": 1, "complete": False}
    assert api.simulate_get(path).json == page | {"text": "eins\nzwölf\n", "offset": 12}
    found = api.simulate_get(path, params={"offset": 5})
    assert found.json == page | {"text": "zwölf\n", "offset": 12}
    found = api.simulate_get(path.rstrip("/"), params={"offset": 10**17})
    assert found.json == page | {"text": "", "offset": 12}


def test_another_rank_and_stream(api: TestClient, written: Run) -> None:
    found = api.simulate_get(
        f"/api/runs/{written.id}/logs", params={"rank": 1, "stream": "stderr", "tail": 5}
    )
    assert found.json["text"] == "warning\n"
    assert (found.json["rank"], found.json["stream"]) == (1, "stderr")


def test_tail(api: TestClient, written: Run) -> None:
    path = f"/api/runs/{written.id}/logs"
    for lines, text in (("0", ""), ("1", "zwölf\n"), ("999", "eins\nzwölf\n")):
        assert api.simulate_get(path, params={"tail": lines}).json["text"] == text


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"rank": "2"}, "rank"),
        ({"rank": "-1"}, "rank"),
        ({"rank": ""}, "rank"),
        ({"rank": "9" * 30}, "rank"),
        ({"stream": "metrics"}, "stream"),
        ({"stream": "STDOUT"}, "stream"),
        ({"offset": "-1"}, "offset"),
        ({"offset": "1e3"}, "offset"),
        ({"offset": "9" * 19}, "offset"),
        ({"tail": "all"}, "tail"),
        ({"tail": "-5"}, "tail"),
    ],
)
def test_a_wrong_parameter_is_named(
    api: TestClient, written: Run, params: dict[str, str], field: str
) -> None:
    answer = api.simulate_get(f"/api/runs/{written.id}/logs", params=params)
    assert answer.status_code == 400
    assert answer.json["message"].startswith(f"{field}: ")


@pytest.mark.parametrize("run_id", ["0", "999", "9" * 30])
def test_an_unknown_run(api: TestClient, run_id: str) -> None:
    answer = api.simulate_get(f"/api/runs/{run_id}/logs")
    assert answer.status_code == 404
    assert answer.json["message"] == f"run_id: there is no run {run_id}"
