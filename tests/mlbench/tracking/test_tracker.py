"""The tracker: measured times and recorded values."""

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mlbench import Tracker
from mlbench.contract import names
from mlbench.contract.names import Phase
from mlbench.tracking.recorder import Value
from tests.support.metrics_file import lines, metrics


class Clock:
    """A clock that moves only when it is advanced."""

    def __init__(self) -> None:
        self.now = 1000.0

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("mlbench.tracking.tracker.perf_counter", lambda: clock.now)
    return clock


def spend(clock: Clock, tracker: Tracker, phase: Phase, seconds: float) -> None:
    with tracker.phase(phase):
        clock.advance(seconds)


def recorded(path: Path) -> list[tuple[int | None, Any]]:
    """Return the step and the metrics of each line."""
    return [(line.get("step"), line["metrics"]) for line in lines(path)]


@pytest.fixture
def tracker(path: Path) -> Tracker:
    return Tracker({names.ENV_METRICS_FILE: str(path)})


# --- Phases and the clock. ---


def test_a_phase_sums_only_its_own_time(clock: Clock, tracker: Tracker) -> None:
    for _ in range(3):
        spend(clock, tracker, "forward", 2.0)
        clock.advance(5.0)
        spend(clock, tracker, "backward", 0.5)
    tracker.move_time(1.0, "backward", "communication")
    assert tracker.phase_seconds() == {"forward": 6.0, "backward": 0.5, "communication": 1.0}


def test_time_reported_by_a_library_is_counted_once(clock: Clock, tracker: Tracker) -> None:
    tracker.count("data", 2.0)
    tracker.count("communication", 3.0)
    with tracker.phase("backward"):
        clock.advance(5.0)
        tracker.count("communication", 4.0)
    phases: tuple[Phase, ...] = ("data", "communication", "evaluation")
    for phase in phases:
        with tracker.phase(phase):
            clock.advance(1.0)
            tracker.count("communication", 1.0)
            tracker.count("data", 1.0)
    expected = {"data": 2.0, "backward": 1.0, "communication": 9.0, "evaluation": 1.0}
    assert tracker.phase_seconds() == expected


def test_an_unknown_phase_is_refused_with_the_list_of_phases(tracker: Tracker) -> None:
    with pytest.raises(ValueError, match=r"^phase: must be one of data, forward, "):
        tracker.phase("load")  # type: ignore[arg-type]


def test_an_epoch_before_the_first_step_resets_the_clock(clock: Clock, tracker: Tracker) -> None:
    clock.advance(60.0)
    assert tracker.train_seconds == 60.0
    spend(clock, tracker, "evaluation", 7.0)
    tracker.epoch(0)
    assert tracker.train_seconds == 0.0
    clock.advance(3.0)
    with tracker.phase("evaluation"):
        clock.advance(7.0)
        assert tracker.train_seconds == 3.0, "the clock must be stopped during the evaluation"
    tracker.step(samples=1)
    tracker.epoch(0)
    assert tracker.train_seconds == 3.0


# --- Steps and epochs. ---


def test_a_step_is_counted_and_metrics_are_recorded(tracker: Tracker, path: Path) -> None:
    tracker.step(samples=32, train_loss=0.5, learning_rate=0.1)
    tracker.step(samples=16)
    tracker.log({"val_Prec@1": 97.0}, note="warm", step=5)
    tracker.log(a=1)
    assert (tracker.steps, tracker.samples) == (2, 48)
    assert recorded(path) == [
        (1, {"train_loss": 0.5, "learning_rate": 0.1}),
        (5, {"val_Prec@1": 97.0, "note": "warm"}),
        (None, {"a": 1.0}),
    ]


@pytest.mark.parametrize("samples", [-1, 2.5, torch.ones(2), None, math.nan], ids=repr)
def test_invalid_samples_change_nothing(
    clock: Clock, tracker: Tracker, path: Path, samples: Any
) -> None:
    tracker.step(samples=torch.tensor(4))
    before = tracker.state_dict()
    with pytest.raises((TypeError, ValueError), match=r"^samples: must be .* \(got .*\)\."):
        tracker.step(samples=samples, loss=1.0)
    assert tracker.state_dict() == before
    assert type(tracker.samples) is int
    assert path.read_text() == ""


def test_steps_record_the_totals_once_a_second(clock: Clock, tracker: Tracker, path: Path) -> None:
    for _ in range(3):
        spend(clock, tracker, "forward", 0.75)
        tracker.step(samples=32, train_loss=0.5)
    loss: Any = {"train_loss": 0.5}
    totals = {"samples": 64.0, "train_seconds": 1.5, "forward_seconds": 1.5}
    assert recorded(path) == [(1, loss), (2, loss | totals), (3, loss)]


def test_a_long_training_records_fewer_totals(clock: Clock, tracker: Tracker, path: Path) -> None:
    tracker.epoch(0)
    clock.advance(36_000.0)
    for _ in range(100):
        clock.advance(1.5)
        tracker.step(samples=1, train_loss=0.5)
    # After ten hours, totals are recorded every 72 seconds.
    assert [line["step"] for line in lines(path) if "samples" in line["metrics"]] == [1, 50, 99]


def test_totals_share_no_millisecond_with_the_line_before(tracker: Tracker, path: Path) -> None:
    tracker.goal("acc", 1.0)
    for epoch in range(5):
        tracker.step(samples=1)
        tracker.log(acc=0.5)
        tracker.epoch(epoch)
    tracker.log(acc=0.5)
    tracker.close()
    times = [line["time"] for line in lines(path) if "train_seconds" in line.get("metrics", {})]
    accuracies, totals = times[0::2], times[1::2]
    assert all(b - a >= 0.001 for a, b in zip(accuracies, totals, strict=True))


# --- Targets. ---


@pytest.mark.parametrize(
    ("wanted", "lower_is_better", "value", "reached"),
    [
        *((97.0, False, 96.9, False), (97.0, False, 97.0, True), (0.1, True, 0.1, True)),
        *((97.0, False, "98.5", True), (97.0, False, "diverged", False)),
    ],
)
def test_a_goal_is_reached_from_above_or_below(
    tracker: Tracker, path: Path, wanted: float, lower_is_better: bool, value: Value, reached: bool
) -> None:
    tracker.goal("acc", wanted, lower_is_better=lower_is_better)
    tracker.log(other=wanted)
    assert not tracker.goal_reached
    tracker.log(acc=value)
    assert tracker.goal_reached is reached
    assert "acc" in lines(path)[-1]["metrics"], "every value must be recorded"


@pytest.mark.parametrize(("metric", "wanted"), [("acc", float("nan")), ("acc", "much"), ("", 97.0)])
def test_an_invalid_goal_is_refused(tracker: Tracker, metric: str, wanted: float) -> None:
    with pytest.raises(ValueError, match=r"^(goal of 'acc': must|could not|metric name: )"):
        tracker.goal(metric, wanted)


def test_the_goal_metric_has_its_training_time(clock: Clock, tracker: Tracker, path: Path) -> None:
    tracker.goal("acc", 97.0)
    tracker.epoch(0)
    clock.advance(0.5)
    tracker.step(samples=1, train_loss=0.5)
    with tracker.phase("evaluation"):
        clock.advance(9.0)
        tracker.log(acc=98.0)
    clock.advance(1.0)
    tracker.step(samples=1, acc=98.0)
    assert tracker.goal_seconds == 0.5
    assert lines(path)[0]["goal"] == {"metric": "acc", "value": 97.0, "lower_is_better": False}
    assert metrics(path)[1:] == [
        {"train_loss": 0.5},
        {"train_seconds": 0.5, "acc": 98.0},
        {"samples": 2.0, "train_seconds": 1.5, "evaluation_seconds": 9.0, "acc": 98.0},
    ]


# --- Checkpoints. ---


def test_a_restored_training_continues_from_the_totals(clock: Clock, path: Path) -> None:
    former = Tracker({})
    former.goal("acc", 97.0)
    former.epoch(0)
    spend(clock, former, "forward", 3.0)
    former.step(samples=32, acc=98.0)
    spend(clock, former, "evaluation", 7.0)
    state = former.state_dict()
    clock.advance(100.0)  # lost, because it is after the checkpoint

    tracker = Tracker({names.ENV_METRICS_FILE: str(path)})
    tracker.load_state_dict(state)
    assert tracker.goal_reached
    clock.advance(20.0)  # setup before the first epoch
    tracker.epoch(1)
    spend(clock, tracker, "forward", 0.5)
    tracker.step(samples=16)
    spend(clock, tracker, "evaluation", 5.0)
    tracker.close()
    before = {"samples": 32.0, "train_seconds": 3.0, "forward_seconds": 3.0}
    after = {"samples": 48.0, "train_seconds": 3.5, "forward_seconds": 3.5}
    assert recorded(path) == [
        (None, {"restored_step": 1.0}),
        (1, {"epoch": 1.0, **before, "evaluation_seconds": 7.0}),
        (2, {**after, "evaluation_seconds": 12.0}),
    ]


def test_an_epoch_interrupted_by_a_restart_starts_once(clock: Clock, path: Path) -> None:
    former = Tracker({})
    former.epoch(3)
    former.step(samples=32)
    with Tracker({names.ENV_METRICS_FILE: str(path)}) as tracker:
        tracker.load_state_dict(former.state_dict())
        clock.advance(20.0)
        tracker.epoch(3)
        tracker.step(samples=32)
        tracker.epoch(4)
        tracker.checkpoint(size=1000)
    assert [line["epoch"] for line in metrics(path) if "epoch" in line] == [4.0]
    [saved] = [(step, line) for step, line in recorded(path) if names.CHECKPOINT_STEP in line]
    checkpoint = {"checkpoint_step": 2.0, "checkpoint_bytes": 1000.0}
    assert saved == (2, {**checkpoint, "samples": 64.0, "train_seconds": 0.0})


def test_a_loaded_state_replaces_all_times_except_its_loading_time(clock: Clock) -> None:
    former, tracker = Tracker({}), Tracker({})
    spend(clock, former, "restore", 2.0)
    state = former.state_dict()
    spend(clock, tracker, "evaluation", 5.0)
    spend(clock, tracker, "restore", 0.7)
    tracker.load_state_dict(state)
    assert tracker.phase_seconds() == {"restore": pytest.approx(2.7)}
    tracker.epoch(0)
    clock.advance(1.0)
    assert tracker.train_seconds == 2.0 + 1.0


def test_a_pause_records_totals_and_stops_the_clock_until_the_next_epoch(
    clock: Clock, tracker: Tracker, path: Path
) -> None:
    tracker.epoch(0)
    clock.advance(2.0)
    tracker.step(samples=8)
    tracker.pause()
    clock.advance(10.0)
    spend(clock, tracker, "evaluation", 5.0)
    tracker.log(test=1.0)
    assert tracker.train_seconds == 2.0
    tracker.epoch(1)
    clock.advance(1.0)
    assert tracker.train_seconds == 3.0
    assert metrics(path)[1:] == [
        {"samples": 8.0, "train_seconds": 2.0},
        {"test": 1.0},
        {"epoch": 1.0, "samples": 8.0, "train_seconds": 2.0, "evaluation_seconds": 5.0},
    ]


def test_samples_are_not_recorded_if_no_step_reported_any(tracker: Tracker, path: Path) -> None:
    tracker.step(samples=0)
    tracker.close()
    assert [line.keys() for line in metrics(path)] == [{"train_seconds"}]


# --- End of the training. ---


def test_closing_records_the_totals_and_ends_recording(path: Path, clock: Clock) -> None:
    with Tracker({names.ENV_METRICS_FILE: str(path)}) as tracker:
        spend(clock, tracker, "forward", 2.0)
        tracker.step(samples=8)
    tracker.step(samples=8, train_loss=0.5)
    tracker.goal("acc", 1.0)
    tracker.close()
    assert metrics(path) == [{"samples": 8.0, "train_seconds": 2.0, "forward_seconds": 2.0}]


@pytest.mark.parametrize(("metric", "seconds"), [("other", 2.0), ("acc", 2.5)])
def test_the_clock_stops_at_the_last_step_or_goal(
    path: Path, clock: Clock, tracker: Tracker, metric: str, seconds: float
) -> None:
    tracker.goal("acc", 1.0)
    tracker.epoch(0)
    clock.advance(2.0)
    tracker.step(samples=8)
    clock.advance(0.5)
    tracker.log({metric: 1.0})
    clock.advance(30.0)  # time to write files
    assert tracker.train_seconds == 32.5
    tracker.close()
    totals = [line["train_seconds"] for line in metrics(path) if "train_seconds" in line]
    assert tracker.train_seconds == totals[-1] == seconds
    assert tracker.goal_seconds == (2.5 if metric == "acc" else None)


def test_a_full_disk_ends_the_training() -> None:
    tracker = Tracker({names.ENV_METRICS_FILE: "/dev/full"})
    with pytest.raises(OSError, match="No space left"):
        tracker.step(samples=1, train_loss=0.5)
    with pytest.raises(OSError, match="No space left"):
        tracker.close()
    tracker.close()


def test_a_phase_of_another_thread_is_hidden(clock: Clock, tracker: Tracker, path: Path) -> None:
    def prefetch() -> None:
        spend(clock, tracker, "data", 3.0)
        tracker.count("communication", 2.0)

    tracker.epoch(0)
    with tracker.phase("forward"):
        in_thread(prefetch)
    tracker.step(samples=1)
    tracker.close()
    assert tracker.phase_seconds() == {"forward": 3.0}
    last = metrics(path)[-1]
    hidden = (last["hidden_data_seconds"], last["hidden_communication_seconds"])
    assert hidden == (3.0, 2.0)
    assert "data_seconds" not in last


def test_steps_may_be_recorded_by_another_thread(clock: Clock, tracker: Tracker) -> None:
    def train() -> None:
        tracker.epoch(0)
        spend(clock, tracker, "forward", 2.0)
        tracker.step(samples=1)

    in_thread(train)
    assert tracker.phase_seconds() == {"forward": 2.0}


def in_thread(function: Callable[[], None]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
