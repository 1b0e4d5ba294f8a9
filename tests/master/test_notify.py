"""Notifications wake all waiting threads, at a limited rate."""

import threading
import time

from peewee import Database

from mlbench_master.notify import Waker, notify

LONG = 30.0


def test_a_notification_and_a_stop_wake_all_waiters(database: Database) -> None:
    notify()  # without a listener
    stop = threading.Event()
    waker = Waker(stop)
    waiters = [waker.waiter(), waker.waiter()]
    begin = time.monotonic()
    notify()
    assert not any(waiter.wait(LONG) for waiter in waiters)
    waker.stop()
    assert all(waiter.wait(LONG) for waiter in waiters)
    assert time.monotonic() - begin < LONG


def test_a_notification_wakes_only_waiters_of_its_reason(database: Database) -> None:
    waker = Waker(threading.Event())
    works, delivers = waker.waiter(), waker.waiter("samples")
    begin = time.monotonic()
    notify("samples")
    assert not delivers.wait(LONG)
    assert not works.wait(0.2)
    assert 0.2 <= time.monotonic() - begin < LONG


def test_frequent_notifications_are_merged(database: Database) -> None:
    waker = Waker(threading.Event())
    waiter = waker.waiter()
    for _ in range(1000):
        notify()
    looks, end = 0, time.monotonic() + 0.5
    while time.monotonic() < end:
        notify()
        waiter.wait(LONG)
        looks += 1
    assert looks <= 6
