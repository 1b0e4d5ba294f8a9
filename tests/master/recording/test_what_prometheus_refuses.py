"""Samples that Prometheus drops, refuses or takes only once are in the record."""

import time
from collections.abc import Iterator

import pytest
from peewee import Database

from tests.conftest import PrometheusServer
from tests.master.recording.case import Recorder
from tests.support.places import (
    HOUR_MS,
    in_record,
    write_labelled,
)


@pytest.fixture
def now_ms() -> int:
    """A moment that has just passed."""
    return time.time_ns() // 1_000_000 - 1_000


@pytest.fixture
def ours(database: Database, shared_prometheus: PrometheusServer) -> Iterator[Recorder]:
    """A recorder for the Prometheus with our configuration."""
    recorder = Recorder(shared_prometheus.url)
    yield recorder
    recorder.close()


def test_samples_that_it_would_drop_or_refuse_are_in_the_record(
    ours: Recorder, now_ms: int
) -> None:
    for hours in (24 * 365 * 50, 25, 23.1, 22.9, 1):
        ours.record(now_ms - hours * HOUR_MS, old=hours)
    ours.post(-1, old=-1)
    ours.record(now_ms, twice=1, good=1)
    ours.record(now_ms + 0.5, twice=2)
    ours.post(now_ms, twice=3)
    for hours in (2, 30, 24 * 365 * 100):
        ours.record(now_ms + hours * HOUR_MS, ahead=hours, good=hours)
        ours.post(now_ms + hours * HOUR_MS, posted=hours)
    ours.run_and_check()
    assert ours.sent("old") == ["22.9", "1"]
    assert ours.sent("twice") == ours.sent("good") == ["1"]
    assert ours.sent("ahead") == ours.sent("posted") == []


def test_samples_that_only_prometheus_finds_too_old_are_in_the_record(
    database: Database, own_prometheus: PrometheusServer, now_ms: int
) -> None:
    """Its window ends at the newest sample that it has, which may be from a wrong clock."""
    ours = Recorder(own_prometheus.url)
    ahead = ({"__name__": "foreign"}, [(now_ms + 2 * HOUR_MS, 1.0)])
    if write_labelled(ours.url, ahead).status_code == 400:
        ours.close()
        pytest.skip("this Prometheus refuses samples from the future, as 3.5 does")
    old = ({"__name__": "old"}, [(now_ms - int(22.5 * HOUR_MS), 1.0)])
    refused = write_labelled(ours.url, old)
    assert refused.status_code in (400, 500)
    assert "too old" in refused.text
    for i in range(20):
        ours.record(now_ms + i, a=i, b=i)
    for i in range(3):
        ours.record(now_ms - 22.5 * HOUR_MS + i, c=-i, d=-i)
    ours.run_and_check()
    assert {place.metric for place in in_record(ours.run.id, only=True)} == {"c", "d"}
    assert [len(ours.sent(metric)) for metric in "abcd"] == [20, 20, 0, 0]
    ours.close()
