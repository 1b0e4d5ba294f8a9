"""Very much waits for Prometheus: each reader is answered soon, with what is asked or with why not.

In time of the processor: a machine may do much else.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from falcon.testing import Result, TestClient

from mlbench_master.database.connection import database
from mlbench_master.database.models import Run
from tests.support.rows import line, make_ranks, record

MIB = 1 << 20
SOON_SECONDS = 2.0


def read(api: TestClient, run: Run, *metrics: str) -> tuple[Result, float]:
    began = time.process_time()
    params = {"metric_type": "run", "metric_filter": list(metrics)}
    answer = api.simulate_get(f"/api/metrics/{run.id}/", params=params, params_csv=False)
    return answer, time.process_time() - began


def assert_behind(answer: Result, run: Run) -> None:
    assert answer.status_code == 503, answer.text[:300]
    assert int(answer.headers["Retry-After"]) > 0
    said = answer.json["message"]
    assert f"bytes of samples of run {run.id} wait for Prometheus, which is behind" in said


def test_a_large_backlog_keeps_no_reader_waiting(api: TestClient, run: Run) -> None:
    Run.update(started_at=time.time() - 60).where(Run.id == run.id).execute()
    make_ranks(run)
    now = time.time() - 30
    usual = line(now, train_loss=0.5, train_seconds=1.5, samples=64)
    for i in range(3):
        record(
            run, usual * (4 * MIB // len(usual)) + line(now + i, rare=i, **{"in “two” words": i})
        )

    for metrics in ((), ("train_loss",), ("malformed",)):
        answer, seconds = read(api, run, *metrics)
        assert_behind(answer, run)
        assert seconds < SOON_SECONDS
    # What few lines name is found among them.
    answer, seconds = read(api, run, "rare", "in “two” words @ 0")
    assert answer.status_code == 200
    assert seconds < SOON_SECONDS
    values = {name: [point["value"] for point in points] for name, points in answer.json.items()}
    assert values == {"rare @ 0": list("012"), "in “two” words @ 0": list("012")}

    assert_behind(api.simulate_get(f"/api/runs/{run.id}/result/"), run)
    for path in (f"/api/runs/{run.id}/", f"/api/runs/{run.id}/events/", "/metrics"):
        assert api.simulate_get(path).status_code == 200


@pytest.mark.slow
def test_many_readers_of_a_backlog_take_no_longer_than_few(api: TestClient, run: Run) -> None:
    usual = line(time.time() - 30, train_loss=0.5)
    record(run, usual * (4 * MIB // len(usual)))

    def ask(_: int) -> tuple[Result, float]:
        try:
            return read(api, run, "train_loss")
        finally:
            database.close()

    _, alone = read(api, run, "train_loss")
    began = time.process_time()
    with ThreadPoolExecutor(12) as pool:
        answers = [answer for answer, _ in pool.map(ask, range(12))]
    together = time.process_time() - began
    assert [answer for answer in answers if answer.status_code == 200], "nobody is answered"
    for answer in answers:
        if answer.status_code != 200:
            assert_behind(answer, run)
            assert "others are reading" in answer.json["message"]
    assert together < 8 * max(alone, 0.5)
