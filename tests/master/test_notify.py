"""The bell wakes all who rest, but not too often."""

import threading
import time

from peewee import Database

from master.bell import Bell, ring

LONG = 30.0


def test_a_ring_ends_all_rests_and_so_does_the_end(database: Database) -> None:
    ring()  # to nobody
    stop = threading.Event()
    bell = Bell(stop)
    sleepers = [bell.sleeper(), bell.sleeper()]
    begin = time.monotonic()
    ring()
    assert not any(sleeper.wait(LONG) for sleeper in sleepers)
    bell.stop()
    assert all(sleeper.wait(LONG) for sleeper in sleepers)
    assert time.monotonic() - begin < LONG


def test_a_ring_wakes_for_its_reason_alone(database: Database) -> None:
    bell = Bell(threading.Event())
    works, delivers = bell.sleeper(), bell.sleeper("samples")
    begin = time.monotonic()
    ring("samples")
    assert not delivers.wait(LONG)
    assert not works.wait(0.2)
    assert 0.2 <= time.monotonic() - begin < LONG


def test_many_rings_are_one(database: Database) -> None:
    bell = Bell(threading.Event())
    sleeper = bell.sleeper()
    for _ in range(1000):
        ring()
    looks, end = 0, time.monotonic() + 0.5
    while time.monotonic() < end:
        ring()
        sleeper.wait(LONG)
        looks += 1
    assert looks <= 6
