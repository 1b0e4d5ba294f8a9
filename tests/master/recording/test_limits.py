"""The limits on series, and on the bytes that wait for Prometheus."""

import dataclasses
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from falcon.testing import TestClient
from peewee import Database

from master.app import create_app
from master.models import PostedBody, Run, SeriesName, Stream, run_owner
from master.reading.counting import count
from master.reading.promql import PrometheusClient
from master.recording import limits
from master.recording.delivery import Delivery
from master.recording.limits import (
    SeriesLimit,
    Spool,
    SpoolFullError,
    TooManySeriesError,
    admit,
    summarize,
    waiting_bytes,
)
from master.recording.remote_write import RemoteWriter, UnavailableError
from master.recording.samples import MALFORMED, Sample
from master.settings import Settings
from tests.conftest import AGENT_TOKEN, USER_TOKEN, PrometheusServer, wait_for
from tests.master.making import line, make_ranks, post, record
from tests.master.recording.places import nothing_waits

pytestmark = pytest.mark.both_databases

SAMPLES = [Sample(name, rank, 1, 1.0) for rank in "01" for name in "abc"]
KEYS = [sample[:2] for sample in SAMPLES]


def test_the_first_series_are_admitted(run: Run) -> None:
    owner = run_owner(run.id)
    for _ in range(2):
        found = admit(owner, SAMPLES, (), most=4)
        assert (found.admitted, found.refused) == (SAMPLES[:4], SAMPLES[4:])
        again = [*reversed(SAMPLES[:4]), Sample(MALFORMED, "0", 1, "x")]
        assert admit(owner, again, (), most=1).admitted == again
    assert SeriesName.select().count() == 4
    assert not admit("pod/w-0", SAMPLES, (), most=6).refused
    assert not admit("pod/w-1", SAMPLES, KEYS, most=0).refused, "they were delivered before"


def test_all_series_of_a_request_or_none(run: Run) -> None:
    limit, owner = SeriesLimit(most=4), run_owner(run.id)
    for _ in range(2):
        with pytest.raises(TooManySeriesError, match=f"run {run.id} has more than 4 .*'b @ 1'"):
            limit.check(owner, KEYS)
        assert SeriesName.select().count() == 0
    limit.check(owner, KEYS[:4])
    limit.check(owner, KEYS[:4])
    with pytest.raises(TooManySeriesError):
        limit.check(owner, KEYS[3:5])
    SeriesLimit(most=1).check(owner, KEYS[:4])


def test_one_sample_stands_for_all_that_are_refused() -> None:
    refused = [Sample(f"x{i % 49 + 1}", "0", i, 1.0) for i in range(1_960)]
    names = ", ".join(f"x{i} @ 0" for i in range(1, 11))
    text = f"1,960 samples of 49 series beyond the limit of 1 are refused: {names}, …"
    assert summarize(refused, "3", 7, most=1) == Sample(MALFORMED, "3", 7, text)


def test_bytes_wait_until_they_are_delivered(run: Run, delivery: Delivery) -> None:
    stream = record(run, line(time.time(), a=1))
    Stream.create(owner=run_owner(run.id), attempt=1, rank=0, name="stdout", size=1000)
    assert waiting_bytes() == stream.size
    post("pod/w-0", [Sample("a", "", 1, 1.0)])
    posted = Stream.get(owner="pod/w-0")
    assert waiting_bytes() == stream.size + posted.size
    assert waiting_bytes("pod/w-0") == posted.size
    while delivery.deliver_waiting():
        pass
    assert waiting_bytes() == 0


def test_there_is_room_up_to_the_limit(
    run: Run, delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = record(run, line(time.time(), a=1))
    Spool(stream.size).check_room()
    full = Spool(stream.size - 1)
    with pytest.raises(SpoolFullError, match=f"{stream.size} bytes .* at most {stream.size - 1}"):
        full.check_room()
    delivery.deliver_waiting()
    monkeypatch.setattr(limits, "_FRESH_SECONDS", 0.0)
    full.check_room()


class Master:
    """The app with a small spool, in front of a Prometheus that can be killed."""

    LIMIT = 2_000

    def __init__(self, settings: Settings, server: PrometheusServer, run: Run) -> None:
        small = dataclasses.replace(settings, spool_bytes=self.LIMIT)
        self.prometheus = PrometheusClient(server.url)
        self._client = TestClient(create_app(small, self.prometheus))
        self._writer = RemoteWriter(server.url)
        self._run = run
        self.delivery = Delivery(self._writer)

    def post(self, *bodies: dict[str, Any]) -> Any:
        """Post samples of the run, as a list if there are several."""
        owned = [{"run_id": self._run.id, "date": time.time()} | body for body in bodies]
        return self._client.simulate_post(
            "/api/metrics/",
            body=json.dumps(owned[0] if len(owned) == 1 else owned),
            headers={"Authorization": f"Bearer {USER_TOKEN}"},
        )

    def ship(self, stream: str, offset: int, data: bytes) -> Any:
        """Send a piece of a stream of rank 0, as an agent does."""
        return self._client.simulate_put(
            f"/api/runs/{self._run.id}/ranks/0/{stream}?attempt=1&offset={offset}",
            body=data,
            headers={"Authorization": f"Bearer {AGENT_TOKEN}"},
        )

    def close(self) -> None:
        """Close the connections."""
        self.prometheus.close()
        self._writer.close()


@pytest.fixture
def master(
    settings: Settings, own_prometheus: PrometheusServer, run: Run, database: Database
) -> Iterator[Master]:
    make_ranks(run)
    master = Master(settings, own_prometheus, run)
    yield master
    master.close()


def test_past_the_limit_nothing_is_stored_until_prometheus_is_back(
    master: Master, own_prometheus: PrometheusServer, run: Run
) -> None:
    own_prometheus.kill()
    taken = 0

    def refused() -> bool:
        nonlocal taken
        answer = master.post({"name": "a", "value": taken})
        taken += answer.status_code == 201
        return bool(answer.status_code == 503)

    wait_for(refused, what="the spool is full")
    before = [(s.name, s.size) for s in Stream.select()], PostedBody.select().count()
    text = b"said\n"
    sample = line(time.time(), shipped=1)
    for answer in (
        master.post({"name": "a", "value": "one"}),
        master.post({"name": "a", "value": 1}, {"name": "b", "value": "two"}),
        master.ship("metrics", 0, sample),
    ):
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert answer.json["status"] == 503
        assert str(master.LIMIT) in answer.json["message"]
    assert before == ([(s.name, s.size) for s in Stream.select()], PostedBody.select().count())
    # Logs are taken all the same.
    for stream in ("stdout", "stderr"):
        assert master.ship(stream, 0, text).json == {"offset": len(text)}
    with pytest.raises(UnavailableError):
        master.delivery.deliver_waiting()

    own_prometheus.start()
    while master.delivery.deliver_waiting():
        pass
    wait_for(lambda: master.post({"name": "c", "value": 1}).status_code == 201, 5)
    assert master.post({"name": "c", "value": 2}, {"name": "c", "value": 3}).status_code == 201
    assert master.ship("metrics", 0, sample).json == {"offset": len(sample)}
    while master.delivery.deliver_waiting():
        pass
    assert nothing_waits()
    counted = count(master.prometheus, run.id)
    assert counted.agrees
    assert counted.recorded == taken + 4
