"""For how long the master has heard: by heartbeats that came in time, and nothing else."""

import pytest
from peewee import Database

from master import hearing
from master.hearing import LATE_SECONDS, Heard, HeartbeatCounter, heard


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as its only entry."""
    now = [100.0]
    monkeypatch.setattr(hearing, "clock", lambda: now[0])
    return now


def test_each_heartbeat_is_a_second(database: Database, clock: list[float]) -> None:
    assert heard() == Heard(0, 0)
    counter = HeartbeatCounter()
    for _ in range(3):
        counter.hear(clock[0])
        clock[0] += 1
    assert heard() == Heard(seconds=3, since=1)


def test_a_late_heartbeat_counts_for_nothing(database: Database, clock: list[float]) -> None:
    """Those that have piled up while the database was locked come all at once."""
    counter = HeartbeatCounter()
    counter.hear(clock[0])
    for sent_at in range(5):
        counter.hear(clock[0] - LATE_SECONDS - 0.1 - sent_at)
    assert heard().seconds == 1


def test_a_pause_and_another_process_begin_anew(database: Database, clock: list[float]) -> None:
    counter = HeartbeatCounter()
    counter.hear(clock[0])
    clock[0] += 2
    counter.hear(clock[0])
    assert heard() == Heard(2, since=1)
    clock[0] += 6
    counter.hear(clock[0])
    assert heard() == Heard(3, since=3)
    HeartbeatCounter().hear(clock[0])
    assert heard() == Heard(4, since=4)
