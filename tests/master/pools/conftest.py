"""What tests of the pools share."""

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """Set when the test is over: its threads ask no more then."""
    event = threading.Event()
    yield event
    event.set()
