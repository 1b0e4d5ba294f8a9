"""Time in which the master was reachable, counted by punctual heartbeats."""

import pytest
from peewee import Database

from mlbench_master.runs import reachability
from mlbench_master.runs.reachability import (
    EVERY_SECONDS,
    LATE_SECONDS,
    HeartbeatCounter,
    Reachability,
    read_reachability,
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A list with one entry: the current time."""
    now = [100.0]
    monkeypatch.setattr(reachability, "steady_seconds", lambda: now[0])
    return now


def test_each_heartbeat_counts_one_interval(database: Database, clock: list[float]) -> None:
    assert read_reachability() == Reachability(0, 0)
    counter = HeartbeatCounter()
    for _ in range(3):
        counter.hear(clock[0])
        clock[0] += EVERY_SECONDS
    assert read_reachability() == Reachability(seconds=3 * EVERY_SECONDS, since=EVERY_SECONDS)


def test_late_heartbeats_do_not_count(database: Database, clock: list[float]) -> None:
    """Heartbeats queue up while the database is locked, and then arrive together."""
    counter = HeartbeatCounter()
    counter.hear(clock[0])
    for sent_at in range(5):
        counter.hear(clock[0] - LATE_SECONDS - 0.1 - sent_at)
    assert read_reachability().seconds == EVERY_SECONDS


def test_reachability_restarts_after_a_pause(database: Database, clock: list[float]) -> None:
    counter = HeartbeatCounter()
    counter.hear(clock[0])
    clock[0] += EVERY_SECONDS
    counter.hear(clock[0])
    assert read_reachability() == Reachability(2 * EVERY_SECONDS, since=EVERY_SECONDS)
    clock[0] += 6
    counter.hear(clock[0])
    assert read_reachability() == Reachability(3 * EVERY_SECONDS, since=3 * EVERY_SECONDS)
    HeartbeatCounter().hear(clock[0])
    assert read_reachability() == Reachability(4 * EVERY_SECONDS, since=4 * EVERY_SECONDS)
