"""The steady clock of a run, which ignores changes of the system clock."""

import time

import pytest

from mlbench_master.database.models import Run
from mlbench_master.runs import run_clock


@pytest.fixture
def run() -> Run:
    begun = run_clock.begin()
    return Run(started_at=time.time() - 5, steady_clock={**begun, "seconds": begun["seconds"] - 5})


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
def test_a_changed_system_clock_is_noticed_and_has_no_effect(
    run: Run, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    assert run_clock.was_set_by(run) == 0
    right = run_clock.now(run)
    monkeypatch.setattr("mlbench_master.runs.run_clock.time.time", lambda: right + jump)
    assert run_clock.now(run) == pytest.approx(right, abs=0.5)
    assert run_clock.was_set_by(run) == pytest.approx(jump, abs=0.5)


def test_after_a_reboot_the_system_clock_is_used(run: Run) -> None:
    run.steady_clock |= {"boot": "another"}
    assert run_clock.now(run) == pytest.approx(time.time(), abs=0.5)
    assert (run_clock.was_set_by(run), run_clock.was_set_by(Run())) == (0, 0)


@pytest.mark.parametrize(
    ("dated", "placed"), [(98.5, 98.5), (150, 150), (201, 201), (97, 200), (203, 200)]
)
def test_an_impossible_timestamp_counts_as_the_end(dated: float, placed: float) -> None:
    assert run_clock.place(dated, 100, 200) == placed
