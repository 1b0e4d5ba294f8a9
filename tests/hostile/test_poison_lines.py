"""Lines that need much memory or that the database rejects affect only their own stream."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from falcon.testing import TestClient
from peewee import Database, PostgresqlDatabase

from mlbench_master.database.models import Run, Stream, run_owner
from mlbench_master.reading.counting import SampleCounts, count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording import streams
from mlbench_master.recording.indexing import BATCH_BYTES
from tests.conftest import as_pod, wait_for
from tests.support.places import in_record, nothing_waits
from tests.support.recording import Recording
from tests.support.rows import line, make_ranks, make_run, record

AGENT = as_pod("w-1")
MIB = 1 << 20


def hostile_lines() -> list[bytes]:
    """Return lines that used to crash the controller or exhaust its memory."""
    now = time.time()
    many = {f"m{i}": i for i in range(40_000)}
    usual = {"time": now, "name": "a", "value": 1}
    texts = [
        json.dumps({"time": now, "rank": "r" * 300_000, "metrics": many}),
        json.dumps(usual | {"rank": "r" * 3_000}),
        json.dumps(usual | {"rank": 99_999, "name": "\U0001d11e" * 200}),
        json.dumps(usual | {"rank": 10**4_000}),
        json.dumps(usual | {"name": "n" * 300_000}),
        json.dumps(usual | {"value": "v" * 900_000}),
        json.dumps(usual | {"step": "s" * 900_000}),
        json.dumps({"time": now, "goal": {"metric": "g" * 900_000, "value": 1}}),
        json.dumps({"time": now, "settings": {"s": "s" * 900_000}}),
    ]
    return [text.encode() + b"\n" for text in texts]


@contextmanager
def peak_growth() -> Iterator[list[int]]:
    """Yield a list whose entry becomes the growth of this process's memory in bytes."""
    me, finished, growth = psutil.Process(), threading.Event(), [0]
    before = me.memory_info().rss

    def watch() -> None:
        while not finished.wait(0.01):
            growth[0] = max(growth[0], me.memory_info().rss - before)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield growth
    finally:
        finished.set()
        watching.join()


def test_hostile_lines_do_not_exhaust_memory_or_block_their_run(
    api: TestClient, run: Run, recording: Recording, prometheus: PrometheusClient
) -> None:
    other = make_run()
    make_ranks(run)
    poison = b"".join(hostile_lines()) + line(time.time(), last=1)
    for start in range(0, len(poison), MIB // 2):
        answer = api.simulate_put(
            f"/api/runs/{run.id}/ranks/1/metrics",
            params={"attempt": 1, "offset": start},
            body=poison[start : start + MIB // 2],
            headers=AGENT,
        )
        assert answer.json["offset"] == min(len(poison), start + MIB // 2)
    record(run, line(time.time(), good=1))
    record(other, line(time.time(), good=1))
    with peak_growth() as growth:
        recording.run_all()
    assert growth[0] < 400 * MIB
    assert count(prometheus, other) == SampleCounts(1, 1, 0)
    counted = count(prometheus, run)
    assert not counted.lost
    assert counted.in_prometheus == 3, "the two good lines and the one with a long UTF-8 name"
    only_here = in_record(run.id, only=True)
    assert {place.metric for place in only_here} == {"malformed"}
    texts = [place.value for place in only_here.elements()]
    assert len(texts) == counted.record_only >= 7
    assert all(len(text) < 5_000 for text in texts)
    assert_can_be_stopped_and_deleted(api, run)


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        b"x\n" * (BATCH_BYTES // 2),
        b'{"time":1e9,"metrics":{' + b",".join(b'"%d":1' % i for i in range(90_000)) + b"}}\n",
        b'{"time":1,"goal":{"metric":"a","value":1}}\n' * 24_000,
        b'{"time":1,"settings":{}}\n' * 40_000,
    ],
    ids=["no samples", "as many series", "goals", "settings"],
)
def test_the_largest_batches_take_bounded_memory_and_space(
    run: Run, recording: Recording, data: bytes
) -> None:
    record(run, data)
    with peak_growth() as growth:
        recording.run_all()
    assert growth[0] < 250 * MIB
    assert in_record(run.id, only=True).total() <= 10_001


@pytest.mark.slow
@pytest.mark.both_databases
def test_a_line_rejected_by_the_database_is_malformed(
    database: Database, run: Run, recording: Recording, prometheus: PrometheusClient
) -> None:
    """A line that repeatedly fails is stored as malformed, and does not delay other streams."""
    other = make_run()
    now = time.time()
    lines = [line(now + i / 1000, good=i) for i in range(1_000)]
    with a_database_that_refuses(database, "poison"), recording.running(database):
        record(run, b"".join([*lines[:500], line(now, poison=1), *lines[500:]]))
        wait_for(lambda: recording.indexer._retries, what="the first attempt has failed")
        record(other, line(now, good=1))
        wait_for(lambda: not streams.waiting(run_owner(other.id)), 2, "the other is indexed")
        assert streams.waiting(run_owner(run.id))
        wait_for(nothing_waits)
    assert count(prometheus, other) == SampleCounts(1, 1, 0)
    assert count(prometheus, run) == SampleCounts(1_001, 1_000, 1)
    [malformed] = in_record(run.id, only=True)
    assert (malformed.metric, malformed.rank) == ("malformed", "0")
    assert malformed.value.startswith("not indexed: ")
    assert "poison" in malformed.value


@contextmanager
def a_database_that_refuses(database: Database, metric: str) -> Iterator[None]:
    """Make the database reject blocks of a metric."""
    if isinstance(database, PostgresqlDatabase):
        begin = f"ALTER TABLE block ADD CONSTRAINT refuse CHECK (metric != '{metric}')"
        end = "ALTER TABLE block DROP CONSTRAINT refuse"
    else:
        begin = (
            f"CREATE TRIGGER refuse BEFORE INSERT ON block WHEN NEW.metric = '{metric}' "
            "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
        end = "DROP TRIGGER refuse"
    database.execute_sql(begin)
    try:
        yield
    finally:
        database.execute_sql(end)


def assert_can_be_stopped_and_deleted(api: TestClient, run: Run) -> None:
    assert api.simulate_post(f"/api/runs/{run.id}/stop/").json["stop_requested"]
    Run.update(state="STOPPED").where(Run.id == run.id).execute()
    assert api.simulate_delete(f"/api/runs/{run.id}/").status_code == 204
    assert not Stream.select().where(Stream.owner == run_owner(run.id)).exists()
