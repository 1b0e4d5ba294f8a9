"""The number of series per run is limited, and the run reports refused samples."""

import dataclasses
import json
import time

import pytest
from falcon.testing import Result, TestClient
from peewee import Database

from mlbench_master.database.models import PostedBody, Run, SeriesName, run_owner
from mlbench_master.reading.counting import SampleCounts, count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.settings import InstallationLimits, Settings
from tests.conftest import call_as_user
from tests.support.places import in_record
from tests.support.recording import Recording
from tests.support.rows import line, make_pod, make_run, record

MAX_SERIES = 20


@pytest.fixture
def limited(writer: RemoteWriter, database: Database) -> Recording:
    """A recording with a limit of 20 series."""
    return Recording.to(writer, most_series=MAX_SERIES)


def reason(api: TestClient, run: Run) -> str:
    text: str = api.simulate_get(f"/api/runs/{run.id}/").json["reason"]
    return text


def test_series_beyond_the_limit_are_refused_and_reported(
    api: TestClient, run: Run, limited: Recording, prometheus: PrometheusClient
) -> None:
    now = time.time()
    record(run, line(now, **{f"x{i}": i for i in range(15)}))
    limited.run_all()
    assert reason(api, run) == ""
    record(run, line(now + 1, **{f"x{i}": i for i in range(10, 1_000)}))
    record(run, line(now + 2, x3=1, text="this one, too, is one too many"))
    other = make_run()
    record(other, line(now, good=1))
    for _ in range(2):
        limited.run_all()
        words = f"run {run.id} has more than 20 series: a sample of 'x20 @ 0' and 980 more are "
        advice = "put what varies into a step or a value, or raise MLBENCH_LIMIT_SERIES"
        assert reason(api, run) == f"{words}refused; {advice}"
        counted = count(prometheus, run)
        assert counted == SampleCounts(recorded=27, in_prometheus=26, record_only=1)
        [summary] = in_record(run.id, only=True)
        assert (summary.metric, summary.rank) == ("malformed", "0")
        assert summary.value.startswith(
            "981 samples of 981 series beyond the limit of 20 are refused: x20 @ 0, x21 @ 0, "
        )
        assert len(summary.value) < 500
        assert (
            SeriesName.select().where(SeriesName.owner == run_owner(run.id)).count() == MAX_SERIES
        )
        # Resending all samples must not change the result.
        limited.exporter.send_again(run_owner(run.id))
    assert count(prometheus, other) == SampleCounts(1, 1, 0)
    Run.update(state="FINISHED", finished_at=now).where(Run.id == run.id).execute()
    events = api.simulate_get(f"/api/runs/{run.id}/events/").json
    assert events[-1]["text"].startswith(f"The run ended: run {run.id} has more than 20 series")


def test_posted_samples_beyond_the_limit_are_not_stored(
    settings: Settings, run: Run, prometheus: PrometheusClient
) -> None:
    small = dataclasses.replace(settings, limits=InstallationLimits(series=MAX_SERIES))
    api = call_as_user(small, prometheus)
    for owner in ({"run_id": run.id}, {"pod_name": make_pod()}):
        samples = [
            {**owner, "name": f"x{i}", "date": "2026-01-01", "value": 1}
            for i in range(MAX_SERIES + 1)
        ]
        stored = PostedBody.select().count()
        refused = post(api, samples)
        assert refused.status_code == 400
        assert refused.json["message"].startswith("name: ")
        assert "more than 20 series with these: 'x20' is refused" in refused.json["message"]
        assert PostedBody.select().count() == stored
        assert post(api, samples[:-1]).status_code == 201
        assert post(api, samples[-1]).status_code == 400
        assert PostedBody.select().count() == stored + 1
        assert post(api, samples[0] | {"value": 2}).status_code == 201


def post(api: TestClient, body: object) -> Result:
    return api.simulate_post("/api/metrics/", body=json.dumps(body))
