"""The recording that all library integrations share."""

import os
from pathlib import Path

import numpy as np
import pytest

from mlbench import Tracker
from mlbench.contract import names
from mlbench.contract.limits import MAX_SETTINGS
from mlbench_callbacks import lightning_callbacks
from mlbench_callbacks.recording import Recording, count_samples, script_has_a_tracker
from tests.support.metrics_file import lines, metrics


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv(names.ENV_METRICS_FILE, str(path))
    return path


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (np.zeros((8, 3)), 8),
        ([np.zeros((4, 2)), np.zeros(4)], 4),
        ({"ids": [{"x": np.zeros((6, 1))}], "labels": np.zeros(6)}, 6),
        (["a text", "another", "third"], 3),
        ({"scale": np.array(1.0), "x": np.zeros(5)}, 5),
        (np.array(1.0), 0),
        ("text", 0),
        (None, 0),
        ({}, 0),
    ],
)
def test_the_samples_of_a_batch_are_counted_in_any_structure(batch: object, samples: int) -> None:
    assert count_samples(batch) == samples


def test_values_that_cannot_be_stored_are_skipped(path: Path) -> None:
    recording = Recording()
    kinds = {"a": np.float32(0.5), "b": "warm", "c": [1], "d": None}
    spellings = {"": 1, "e\0": 1.0, "f": "\ud800", "g" * 201: 1.0}
    recording.log(kinds | spellings, step=3)
    recording.log({"c": [1], "h": np.zeros(2)}, step=4)
    [line] = lines(path)
    assert (line["step"], line["metrics"]) == (3, {"a": 0.5, "b": "warm"})


def test_the_folders_of_other_loggers_are_listed_once(path: Path, tmp_path: Path) -> None:
    recording = Recording()
    for folder in (str(tmp_path), str(tmp_path), None, Path("other")):
        recording.note_folder(folder)
    recording.log({"a": 1.0}, step=1)
    listed = Path(names.own_names_file(str(path), os.getpid())).read_text().splitlines()
    assert sorted(listed) == sorted([names.EPOCH, f"\0{tmp_path.resolve()}", "a"])


def test_settings_are_merged_and_only_rank_0_reports_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording()
    recording.state({"optimizer": {"name": "sgd", "betas": [0.9, 0.99]}})
    recording.state({"batch_size": 32})
    recording.state({f"option{number}": number for number in range(MAX_SETTINGS)})
    monkeypatch.setenv("RANK", "1")
    recording.state({"batch_size": 64})
    stated = [line["settings"] for line in lines(path)]
    optimizer = {"optimizer/name": "sgd", "optimizer/betas": "[0.9, 0.99]"}
    assert stated[:2] == [optimizer, optimizer | {"batch_size": 32}]
    assert [len(settings) for settings in stated] == [2, 3, MAX_SETTINGS]


def test_a_phase_ends_with_the_next_phase_or_the_training(path: Path) -> None:
    recording = Recording()
    for phase in ("data", "forward", "forward", None, "evaluation"):
        recording.enter(phase)
    recording.tracker.step(1)
    recording.end()
    totals = recording.tracker.phase_seconds()
    recording.end()
    assert totals.keys() == {"data", "forward", "evaluation"}
    assert recording.tracker.phase_seconds() == totals
    assert metrics(path)[0].keys() == {"samples", "train_seconds"} | {
        f"{phase}_seconds" for phase in totals
    }


def test_an_open_tracker_of_the_script_is_detected(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tracker, "active", set())  # other tests leave trackers open
    assert not script_has_a_tracker()
    with Tracker():
        assert script_has_a_tracker()
    assert not script_has_a_tracker()


def test_lightning_gets_no_callback_outside_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(names.ENV_METRICS_FILE, raising=False)
    assert lightning_callbacks() == []


def test_a_restarted_process_restores_the_totals_of_its_checkpoint(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_CHECKPOINTS, str(tmp_path))
    former, resumed, other = Recording(), Recording(), Recording()
    former.tracker.step(samples=8)
    former.save_totals("step 1")
    resumed.restore_totals("step 1")
    other.restore_totals("step 2")
    assert (resumed.tracker.steps, resumed.tracker.samples) == (1, 8)
    assert metrics(path) == [{names.RESTORED_STEP: 1}]
    assert other.tracker.steps == 0, "no totals were saved for step 2"
