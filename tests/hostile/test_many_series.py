"""A run with very many series: it is given no more than a limit, and says so."""

import dataclasses
import json
import time

import pytest
from falcon.testing import Result, TestClient
from peewee import Database

from mlbench_master.database.models import PostedBody, Run, SeriesName, UnstorableSample, run_owner
from mlbench_master.reading.counting import SampleCounts, count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording.delivery import SampleDelivery
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.streams import rewind
from mlbench_master.settings import InstallationLimits, Settings
from tests.conftest import call_as_user
from tests.support.rows import deliver_all, line, make_pod, make_run, record

MAX_SERIES = 20


@pytest.fixture
def limited(writer: RemoteWriter, database: Database) -> SampleDelivery:
    """A delivery with a small limit."""
    return SampleDelivery(writer, most_series=MAX_SERIES)


def reason(api: TestClient, run: Run) -> str:
    text: str = api.simulate_get(f"/api/runs/{run.id}/").json["reason"]
    return text


def test_a_run_has_no_more_series_than_the_limit_and_says_so(
    api: TestClient, run: Run, limited: SampleDelivery, prometheus: PrometheusClient
) -> None:
    now = time.time()
    record(run, line(now, **{f"x{i}": i for i in range(15)}))
    deliver_all(limited)
    assert reason(api, run) == ""
    record(run, line(now + 1, **{f"x{i}": i for i in range(10, 1_000)}))
    record(run, line(now + 2, x3=1, text="this one, too, is one too many"))
    other = make_run()
    record(other, line(now, good=1))
    for _ in range(2):
        deliver_all(limited)
        words = f"run {run.id} has more than 20 series: a sample of 'x20 @ 0' and 980 more are "
        advice = "put what varies into a step or a value, or raise MLBENCH_LIMIT_SERIES"
        assert reason(api, run) == f"{words}refused; {advice}"
        counted = count(prometheus, run.id)
        assert counted == SampleCounts(recorded=27, in_prometheus=26, in_database=1)
        [kept] = UnstorableSample.select().where(UnstorableSample.owner == run_owner(run.id))
        assert (kept.metric, kept.rank) == ("malformed", "0")
        assert kept.value.startswith(
            "981 samples of 981 series beyond the limit of 20 are refused: x20 @ 0, x21 @ 0, "
        )
        assert len(kept.value) < 500
        assert (
            SeriesName.select().where(SeriesName.owner == run_owner(run.id)).count() == MAX_SERIES
        )
        # Delivered anew, as after Prometheus lost its disk, it is the same.
        with limited.settled(run_owner(run.id)):
            assert rewind(run_owner(run.id))
    deliver_all(limited)
    assert count(prometheus, other.id) == SampleCounts(1, 1, 0)
    Run.update(state="FINISHED", finished_at=now).where(Run.id == run.id).execute()
    events = api.simulate_get(f"/api/runs/{run.id}/events/").json
    assert events[-1]["text"].startswith(f"The run finished: run {run.id} has more than 20 series")


def test_posted_samples_beyond_the_limit_are_refused_and_nothing_is_stored(
    settings: Settings, run: Run, prometheus: PrometheusClient
) -> None:
    small = dataclasses.replace(settings, limits=InstallationLimits(series=MAX_SERIES))
    api = call_as_user(small, prometheus)
    for owner in ({"run_id": run.id}, {"pod_name": make_pod()}):
        samples = [
            {**owner, "name": f"x{i}", "date": "2026-01-01", "value": 1}
            for i in range(MAX_SERIES + 1)
        ]
        held = PostedBody.select().count()
        refused = post(api, samples)
        assert refused.status_code == 400
        assert refused.json["message"].startswith("name: ")
        assert "more than 20 series with these: 'x20' is refused" in refused.json["message"]
        assert PostedBody.select().count() == held
        assert post(api, samples[:-1]).status_code == 201
        assert post(api, samples[-1]).status_code == 400
        assert PostedBody.select().count() == held + 1
        assert post(api, samples[0] | {"value": 2}).status_code == 201


def post(api: TestClient, body: object) -> Result:
    return api.simulate_post("/api/metrics/", body=json.dumps(body))
