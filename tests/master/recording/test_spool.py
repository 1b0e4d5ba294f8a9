"""The spool's bound: past it nothing is taken, and nothing that was taken is lost."""

import dataclasses
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from falcon.testing import TestClient
from peewee import Database

from master.app import create_app
from master.models import PostedBody, Run, Stream, run_owner
from master.reading.counting import count
from master.reading.promql import PrometheusClient
from master.recording.delivery import Delivery
from master.recording.remote_write import RemoteWriter, UnavailableError
from master.recording.samples import Sample
from master.recording.spool import Spool, SpoolFullError, waiting_bytes
from master.settings import Settings
from tests.conftest import AGENT_TOKEN, USER_TOKEN, PrometheusServer, wait_for
from tests.master.making import line, make_ranks, post, record
from tests.master.recording.places import nothing_waits

pytestmark = pytest.mark.both_databases

LIMIT = 2_000


def test_what_waits_is_what_was_not_delivered(run: Run, delivery: Delivery) -> None:
    assert waiting_bytes() == 0
    stream = record(run, line(time.time(), a=1))
    Stream.create(owner=run_owner(run.id), attempt=1, rank=0, name="stdout", size=1000)
    assert waiting_bytes() == stream.size
    post("pod/w-0", [Sample("a", "", 1, 1.0)])
    posted = Stream.get(owner="pod/w-0")
    assert waiting_bytes() == stream.size + posted.size
    Stream.update(delivered=5).where(Stream.id == posted.id).execute()
    assert waiting_bytes() == stream.size + posted.size - 5
    Stream.update(delivered=0).where(Stream.id == posted.id).execute()
    while delivery.deliver_waiting():
        pass
    assert waiting_bytes() == 0


def test_there_is_room_up_to_the_limit(run: Run) -> None:
    stream = record(run, line(time.time(), a=1))
    Spool(stream.size).check_room()
    with pytest.raises(SpoolFullError, match=f"{stream.size} bytes .* at most {stream.size - 1}"):
        Spool(stream.size - 1).check_room()


def test_room_is_found_again_soon(run: Run, delivery: Delivery) -> None:
    record(run, line(time.time(), a=1))
    spool = Spool(1)
    with pytest.raises(SpoolFullError):
        spool.check_room()
    delivery.deliver_waiting()
    wait_for(lambda: _has_room(spool), 5)
    record(run, line(time.time() + 1, a=1))
    wait_for(lambda: not _has_room(spool), 5)


def _has_room(spool: Spool) -> bool:
    try:
        spool.check_room()
    except SpoolFullError:
        return False
    return True


class Master:
    """The app with a small spool, in front of a Prometheus that can be killed."""

    def __init__(self, settings: Settings, server: PrometheusServer, run: Run) -> None:
        small = dataclasses.replace(settings, spool_bytes=LIMIT)
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
        assert str(LIMIT) in answer.json["message"]
    assert before == ([(s.name, s.size) for s in Stream.select()], PostedBody.select().count())
    # What a run says is no sample, and goes nowhere else.
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
