"""For how long the master has heard: by heartbeats that came in time, and nothing else."""

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
    """The time, as its only entry."""
    now = [100.0]
    monkeypatch.setattr(reachability, "steady_seconds", lambda: now[0])
    return now


def test_each_heartbeat_counts_for_the_time_between_two(
    database: Database, clock: list[float]
) -> None:
    assert read_reachability() == Reachability(0, 0)
    counter = HeartbeatCounter()
    for _ in range(3):
        counter.hear(clock[0])
        clock[0] += EVERY_SECONDS
    assert read_reachability() == Reachability(seconds=3 * EVERY_SECONDS, since=EVERY_SECONDS)


def test_a_late_heartbeat_counts_for_nothing(database: Database, clock: list[float]) -> None:
    """Those that have piled up while the database was locked come all at once."""
    counter = HeartbeatCounter()
    counter.hear(clock[0])
    for sent_at in range(5):
        counter.hear(clock[0] - LATE_SECONDS - 0.1 - sent_at)
    assert read_reachability().seconds == EVERY_SECONDS


def test_a_pause_and_another_process_begin_anew(database: Database, clock: list[float]) -> None:
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
