"""The limits on series, and on the bytes that wait to be indexed."""

import dataclasses
import time
from datetime import UTC, datetime

import pytest
from falcon.testing import Result

from mlbench_master.database.models import PostedBody, Run, SeriesName, Stream, run_owner
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording import limits
from mlbench_master.recording.limits import Spool, SpoolFullError, admit
from mlbench_master.recording.samples import MALFORMED, Sample
from mlbench_master.recording.streams import waiting_bytes
from mlbench_master.settings import Settings
from tests.conftest import call_as_user
from tests.master.resources.agents import ship
from tests.support.recording import Recording
from tests.support.rows import line, make_ranks, post, record

pytestmark = pytest.mark.both_databases

SAMPLES = [Sample(name, rank, 1, 1.0) for rank in "01" for name in "abc"]
KEYS = [sample[:2] for sample in SAMPLES]


def test_the_first_series_are_admitted(run: Run) -> None:
    owner = run_owner(run.id)
    for _ in range(2):
        assert admit(owner, KEYS, most=4) == {*KEYS[4:]}
        assert not admit(owner, [*reversed(KEYS[:4]), (MALFORMED, "0")], most=1)
    assert SeriesName.select().count() == 4
    assert not admit("pod/w-0", KEYS, most=6)


def test_waiting_bytes(run: Run, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = record(run, line(time.time(), a=1))
    Stream.create(owner=run_owner(run.id), attempt=1, rank=0, name="stdout", size=1000)
    assert waiting_bytes() == stream.size
    post("pod/w-0", [Sample("a", "", 1, 1.0)])
    posted = Stream.get(owner="pod/w-0")
    assert waiting_bytes() == stream.size + posted.size
    assert waiting_bytes("pod/w-0") == posted.size
    full = Spool(stream.size - 1)
    with pytest.raises(SpoolFullError, match=f"at most {stream.size - 1} may"):
        full.check_room()
    recording.index_all()
    assert waiting_bytes() == 0
    monkeypatch.setattr(limits, "_FRESH_SECONDS", 0.0)
    full.check_room()


def test_past_the_limit_no_samples_are_stored_but_logs_are(
    settings: Settings, run: Run, prometheus: PrometheusClient
) -> None:
    make_ranks(run)
    waiting = record(run, line(time.time(), a=1))
    small = dataclasses.replace(settings, spool_bytes=waiting.size - 1)
    client = call_as_user(small, prometheus)
    sample = {"run_id": run.id, "name": "a", "date": datetime.now(UTC).isoformat(), "value": 1}

    def post(body: object) -> Result:
        return client.simulate_post("/api/metrics/", json=body)

    shipped = ship(client, run.id, b"said\n", offset=waiting.size)
    for answer in (post(sample), post([sample, sample]), shipped):
        assert (answer.status_code, answer.json["status"]) == (503, 503)
        assert int(answer.headers["Retry-After"]) > 0
        assert f"at most {waiting.size - 1} may" in answer.json["message"]
    assert [(s.name, s.size) for s in Stream.select()] == [("metrics", waiting.size)]
    assert not PostedBody.select().exists()
    assert ship(client, run.id, b"said\n", "stdout").json["offset"] == 5
