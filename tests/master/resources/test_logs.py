"""``/api/runs/{id}/logs``: output of ranks."""

from typing import Any

import pytest
from falcon.testing import TestClient

from mlbench_master.database.connection import store
from mlbench_master.database.models import Run
from mlbench_master.reading import logs
from mlbench_master.recording import streams
from tests.support.rows import key, make_ranks, make_run


@pytest.fixture
def written(run: Run) -> Run:
    streams.append(key(run, 0, "stdout"), 0, "eins\nzwölf\n".encode())
    streams.append(key(run, 1, "stderr"), 0, b"warning\n")
    return run


def test_a_whole_log_and_from_an_offset(api: TestClient, written: Run) -> None:
    path = f"/api/runs/{written.id}/logs/"
    page = {"rank": 0, "stream": "stdout", "attempt": 1, "complete": False}
    page |= {"offset": 12, "size": 12}
    assert api.simulate_get(path).json == page | {"text": "eins\nzwölf\n", "start": 0}
    found = api.simulate_get(path, params={"offset": 5})
    assert found.json == page | {"text": "zwölf\n", "start": 5}
    found = api.simulate_get(path.rstrip("/"), params={"offset": 10**17})
    assert found.json == page | {"text": "", "start": 12}


def test_each_parameter_selects_a_part(api: TestClient, written: Run) -> None:
    def get(**params: object) -> Any:
        return api.simulate_get(f"/api/runs/{written.id}/logs", params=params).json

    other = get(rank=1, stream="stderr", tail=5)
    assert (other["text"], other["rank"], other["stream"]) == ("warning\n", 1, "stderr")
    for lines, text in (("0", ""), ("1", "zwölf\n"), ("999", "eins\nzwölf\n")):
        assert (get(tail=lines, offset=3)["text"], get(tail=lines)["offset"]) == (text, 12)
    for end, text in ((10**17, "eins\nzwölf\n"), (5, "eins\n"), (0, "")):
        assert get(before=end, offset=3, tail=1)["text"] == text
    assert get(search="ZWÖLF", tail=1, before=1) == {
        **{"rank": 0, "stream": "stdout", "attempt": 1},
        **{"matches": [{"offset": 5, "text": "zwölf"}]},
        **{"start": 0, "offset": 12, "size": 12, "complete": True},
    }
    assert get(search="eins", offset=5)["matches"] == []


def test_a_log_as_a_file(api: TestClient, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_PAGE_BYTES", 1000)
    data = "zwölf\r\n".encode() * 1000 + b"\xff"
    streams.append(key(run, 1, "stderr"), 0, data)
    params = {"rank": 1, "stream": "stderr", "format": "text"}
    answer = api.simulate_get(f"/api/runs/{run.id}/logs/", params=params)
    assert answer.content == data
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["Content-Length"] == str(len(data))
    name = f'attachment; filename="run-{run.id}-rank-1-stderr.txt"'
    assert answer.headers["Content-Disposition"] == name
    nothing = api.simulate_get(f"/api/runs/{run.id}/logs/", params={"format": "text"})
    assert (nothing.status_code, nothing.content) == (200, b"")


def test_the_ranks_of_a_worker_share_a_log(api: TestClient, written: Run) -> None:
    for rank, ranks in ((0, [0, 1]), (1, [2, 3])):
        [worker] = make_ranks(written, [f"w-{rank}"], rank=rank)
        store(worker, processes={"ranks": ranks, "restarts": {}})
    path = f"/api/runs/{written.id}/logs/"
    first, *others = [api.simulate_get(path, params={"rank": rank}).json for rank in range(4)]
    assert first["text"] == "eins\nzwölf\n"
    assert others[0] == first
    assert others[1] == others[2] != first
    assert api.simulate_get(path, params={"rank": 4}).status_code == 400


def test_an_earlier_attempt(api: TestClient, written: Run) -> None:
    path = f"/api/runs/{written.id}/logs/"
    assert api.simulate_get(path, params={"attempt": 1}).json == api.simulate_get(path).json
    Run.update(attempt=2).where(Run.id == written.id).execute()
    assert api.simulate_get(path, params={"attempt": 2}).json == api.simulate_get(path).json
    assert api.simulate_get(path).json["text"] == ""
    first = api.simulate_get(path, params={"attempt": 1}).json
    assert (first["attempt"], first["text"]) == (1, "eins\nzwölf\n")
    for wrong in (0, 3):
        answer = api.simulate_get(path, params={"attempt": wrong})
        message = f"attempt: run {written.id} has attempts 1 to 2 (got {wrong})"
        assert (answer.status_code, answer.json["message"]) == (400, message)
    waiting = make_run(state="INITIALIZED", attempt=0)
    answer = api.simulate_get(f"/api/runs/{waiting.id}/logs/", params={"attempt": 1})
    message = f"attempt: run {waiting.id} has not started any attempt (got 1)"
    assert answer.json["message"] == message
    assert api.simulate_get(f"/api/runs/{waiting.id}/logs/").json["attempt"] == 0


def test_an_invalid_parameter_is_named(api: TestClient, written: Run) -> None:
    wrong = {
        "rank": ["2", "-1", "", "9" * 30],
        "stream": ["metrics", "STDOUT"],
        "offset": ["-1", "1e3", "9" * 19],
        "tail": ["all", "-5"],
        "before": ["-1", "end"],
        "attempt": ["0", "2", "latest"],
        "search": ["", "x" * 501],
        "format": ["csv"],
    }
    for field, values in wrong.items():
        for value in values:
            answer = api.simulate_get(f"/api/runs/{written.id}/logs", params={field: value})
            assert answer.status_code == 400
            assert answer.json["message"].startswith(f"{field}: ")
