"""A large backlog of lines that are not indexed: every reader gets a response soon.

Limits are in CPU time, because the machine may be busy.
"""

import time
from itertools import chain

import pytest
from falcon.testing import Result, TestClient

from mlbench_master.database.models import Run
from mlbench_master.reading import record as module
from tests.support.recording import Recording
from tests.support.rows import line, make_ranks, record

MIB = 1 << 20
SOON_SECONDS = 2.0


def read(api: TestClient, run: Run, *metrics: str) -> tuple[Result, float]:
    began = time.process_time()
    params = {"metric_type": "run", "metric_filter": list(metrics)}
    answer = api.simulate_get(f"/api/metrics/{run.id}/", params=params, params_csv=False)
    return answer, time.process_time() - began


def test_a_large_backlog_does_not_delay_readers(
    api: TestClient, run: Run, recording: Recording
) -> None:
    Run.update(started_at=time.time() - 60).where(Run.id == run.id).execute()
    make_ranks(run)
    now = time.time() - 30
    usual = line(now, train_loss=0.5, train_seconds=1.5, samples=64)
    number = 2 * MIB // len(usual)
    for i in range(3):
        record(run, usual * number + line(now + i, rare=i, **{"in “two” words": i}))

    expected = {"rare @ 0": list("012"), "in “two” words @ 0": list("012")}
    for names in (("rare", "in “two” words @ 0"), ("rare", "in “two” words @ 0", "train_loss")):
        answer, seconds = read(api, run, *names)
        assert answer.status_code == 200
        assert seconds < SOON_SECONDS
        series = {
            name: [point["value"] for point in points] for name, points in answer.json.items()
        }
        losses = series.pop("train_loss @ 0", [])
        assert series == expected
    assert losses == ["0.5"] * (3 * number)
    for path in ("", "events/", "result/", "manifest/", "metrics/"):
        assert api.simulate_get(f"/api/runs/{run.id}/{path}").status_code == 200
    assert api.simulate_get("/metrics").status_code == 200
    recording.index_all()
    assert {name: len(points) for name, points in read(api, run)[0].json.items()} == {
        **dict.fromkeys(("train_loss @ 0", "train_seconds @ 0", "samples @ 0"), 3 * number),
        **dict.fromkeys(expected, 3),
    }


def test_a_too_large_backlog_is_left_out_until_it_is_indexed(
    api: TestClient, run: Run, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run.update(started_at=time.time() - 60).where(Run.id == run.id).execute()
    make_ranks(run)
    now = time.time() - 30
    record(run, line(now, a=1))
    recording.index_all()
    stream = record(run, b"".join(line(now + 1 + i / 1000, a=2) for i in range(100)))
    waiting = stream.size - stream.indexed
    monkeypatch.setattr(module, "_MAX_TAIL_BYTES", waiting - 1)
    record(run, line(now, b=3), rank=1)
    assert [point["value"] for point in read(api, run)[0].json["a @ 0"]] == ["1"]
    of_rank, _ = read(api, run, "b @ 1")
    assert [point["value"] for point in of_rank.json["b @ 1"]] == ["3"], (
        "the backlog of this rank is small"
    )
    assert "MLBench-Left-Out" not in of_rank.headers
    paths = ("events/", "manifest/", "metrics/"), ("result/", "breakdown/", "goodput/", "mllog/")
    for path in chain(*paths):
        answer = api.simulate_get(f"/api/runs/{run.id}/{path}")
        assert (path, answer.status_code) == (path, 200)
        assert (path, "MLBench-Left-Out" in answer.headers) == (path, path in paths[1])
    for path in (f"metrics/{run.id}?metric_type=run", "metrics?metric_type=run", "compare?runs="):
        name, _, query = path.partition("?")
        query = query if query.endswith("run") else f"{query}{run.id}"
        answer = api.simulate_get(f"/api/{name}", query_string=query)
        assert int(answer.headers["MLBench-Left-Out"]) >= waiting
    recording.index_all()
    answer, _ = read(api, run)
    assert [point["value"] for point in answer.json["a @ 0"]] == ["1"] + ["2"] * 100
    assert "MLBench-Left-Out" not in answer.headers
