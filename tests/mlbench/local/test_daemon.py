"""Termination by a signal: the callback does not wait for the main thread."""

import signal
import threading
from collections.abc import Iterator

import pytest

from mlbench.local.daemon import on_termination

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", _NUMBERS)
def test_the_callback_may_acquire_a_lock_held_by_the_main_thread(number: signal.Signals) -> None:
    lock, called = threading.Lock(), threading.Event()

    def callback() -> None:
        with lock:
            called.set()

    on_termination(callback)
    with lock:
        signal.raise_signal(number)
        assert not called.is_set()
    assert called.wait(5)
