"""A clock that stays steady when the system clock is set."""

import time

import pytest

from mlbench.contract.clock import SteadyClock


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
def test_setting_the_clock_changes_nothing(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    began, right = time.time(), time.time
    clock = SteadyClock()
    monkeypatch.setattr("mlbench.contract.clock.time.time", lambda: right() + jump)
    assert began <= clock.now() <= right()
