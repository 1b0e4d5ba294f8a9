"""Event files and MLPerf's lines, followed while a process writes them: what fails, fails alone."""

import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mlbench import names
from mlbench.tensorboard import Scalar, first_record, masked_checksum, to_record
from mlbench_worker.agent.sources import files
from mlbench_worker.agent.sources.files import Follower
from mlbench_worker.agent.sources.loopback import Line
from tests.conftest import wait_for
from tests.mlbench.test_tensorboard import SESSION, record

_HUGE = "1" + "0" * 400


class Recording:
    """Keeps the lines that are written, unless its disk is full."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.refusals_left = 0

    def append(self, lines: Sequence[Line]) -> None:
        if self.refusals_left:
            self.refusals_left -= 1
            raise OSError("no space")
        self.lines += lines

    def values(self, metric: str) -> list[Any]:
        found = (line.get("metrics") for line in self.lines)
        return [one[metric] for one in found if isinstance(one, dict) and metric in one]


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The number of a process of a run, which does nothing."""
    monkeypatch.setattr(files, "_SECONDS", 0.05)
    environ = {**os.environ, names.ENV_RUN_ID: "1", names.ENV_METRICS_FILE: "/nonexistent/metrics"}
    process = subprocess.Popen(["sleep", "60"], env=environ)
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def stdout(tmp_path: Path) -> Path:
    path = tmp_path / "stdout"
    path.touch()
    return path


def mllog(key: str, at: str, value: float) -> str:
    return f':::MLLOG {{"key": "{key}", "time_ms": {at}, "value": {value}, "metadata": {{}}}}\n'


def event_file(folder: Path, pid: int, number: int = 0, began: float | None = None) -> Path:
    began = time.time() if began is None else began
    return folder / f"events.out.tfevents.{int(began)}.{socket.gethostname()}.{pid}.{number}"


def records(*values: float, tag: str = "loss") -> bytes:
    scalars = (Scalar(tag, time.time(), step, value) for step, value in enumerate(values))
    return first_record(time.time()) + b"".join(to_record(scalar) for scalar in scalars)


def settings(recording: Recording) -> list[Any]:
    return [line["settings"] for line in recording.lines if "settings" in line]


def written(recording: Recording, tag: str, count: int) -> Callable[[], bool]:
    return lambda: len(recording.values(tag)) == count


def test_what_was_refused_is_tried_again(tmp_path: Path, stdout: Path, rank: int) -> None:
    recording = Recording()
    recording.refusals_left = 5
    follower = Follower(stdout, tmp_path, recording.append)
    stdout.write_text(mllog("eval_accuracy", "1000", 0.9))
    event_file(tmp_path, rank).write_bytes(records(1, 2, 3))
    wait_for(written(recording, "loss", 3), what="the values are written")
    follower.close()
    assert recording.values("loss") == [1, 2, 3]
    assert recording.values("eval_accuracy") == [0.9]
    assert follower.failure == ""


def test_what_is_refused_to_the_end_is_a_failure(
    tmp_path: Path, stdout: Path, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_PATIENCE_SECONDS", 0.3)
    recording = Recording()
    recording.refusals_left = 1 << 30
    follower = Follower(stdout, tmp_path, recording.append)
    event_file(tmp_path, rank).write_bytes(records(1))
    time.sleep(0.2)
    follower.close()
    assert follower.failure == "values that its processes wrote to files are lost: no space"


@pytest.mark.parametrize(
    "wrong",
    [
        mllog("loss", _HUGE, 1),
        mllog("epoch_start", "1", 1).replace(
            '"metadata": {}',
            f'"event_type": "INTERVAL_START", "metadata": {{"epoch_num": {_HUGE}}}',
        ),
    ],
)
def test_a_line_with_a_number_that_nothing_can_hold_is_malformed_alone(
    tmp_path: Path, stdout: Path, rank: int, wrong: str
) -> None:
    recording = Recording()
    follower = Follower(stdout, tmp_path, recording.append)
    first = mllog("epoch_start", "1", 1).replace(
        '"metadata": {}', '"event_type": "INTERVAL_START", "metadata": {"epoch_num": 0.5}'
    )
    stdout.write_text(first + wrong + mllog("eval_accuracy", "1000", 0.9))
    event_file(tmp_path, rank).write_bytes(records(1))
    wait_for(written(recording, "loss", 1), what="the event file is read")
    follower.close()
    assert recording.values("eval_accuracy") == [0.9]
    [malformed] = [line for line in recording.lines if line["time"] is None]
    assert malformed["text"] == wrong[:200]
    assert follower.failure == ""


def test_a_damaged_event_file_is_a_failure_and_the_others_are_read(
    tmp_path: Path, stdout: Path, rank: int
) -> None:
    recording = Recording()
    follower = Follower(stdout, tmp_path, recording.append)
    length = struct.pack("<Q", 2**64 - 10)
    damaged = event_file(tmp_path, rank, 0)
    damaged.write_bytes(records(1) + length + struct.pack("<I", masked_checksum(length)))
    event_file(tmp_path, rank, 1).write_bytes(records(2, 3))
    stdout.write_text(mllog("eval_accuracy", "1000", 0.9))
    wait_for(written(recording, "loss", 3), what="both are read")
    follower.close()
    assert recording.values("eval_accuracy") == [0.9]
    assert follower.failure.startswith(f"the event file {damaged} is damaged at byte ")


@pytest.mark.parametrize("states_itself", [False, True])
def test_what_add_hparams_writes_is_settings_and_metrics_without_the_time(
    tmp_path: Path, stdout: Path, rank: int, states_itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.write_text("mine\n\n" if states_itself else "mine\n")
    monkeypatch.setattr(names, "own_names_file", lambda *_: str(own))
    event_file(tmp_path, rank, 0).write_bytes(records(1))
    folders = [tmp_path / f"179557732{number}.0553675" for number in range(2)]
    for number, (folder, size) in enumerate(zip(folders, (b"@@", b"P@"), strict=True)):
        folder.mkdir()
        session = record(SESSION.replace(b"@@", size))
        file = event_file(folder, rank, number + 1)
        file.write_bytes(session + records(number, tag="hparam/accuracy"))
    recording = Recording()
    follower = Follower(stdout, tmp_path, recording.append)
    wait_for(written(recording, "hparam/accuracy", 2), what="both are read")
    follower.close()
    stated = [{"batch_size": size, "lr": 0.1, "optimizer": "sgd"} for size in (32, 64)]
    assert settings(recording) == ([] if states_itself else stated)


def test_as_many_event_files_as_there_are_are_read(tmp_path: Path, stdout: Path, rank: int) -> None:
    recording = Recording()
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    follower = Follower(stdout, tmp_path, recording.append)
    paths = [event_file(tmp_path, rank, number) for number in range(600)]
    for number, path in enumerate(paths):
        path.write_bytes(records(number))
    wait_for(written(recording, "loss", 600), what="each is read")
    assert len(list(Path("/proc/self/fd").iterdir())) < open_before + 300
    for number, path in enumerate(paths):
        with path.open("ab") as file:
            file.write(to_record(Scalar("loss", time.time(), 1, 600 + number)))
    follower.close()
    assert sorted(recording.values("loss")) == list(range(1200))
    assert follower.failure == ""


def test_the_file_of_an_earlier_process_with_the_same_number_is_not_read(
    tmp_path: Path, stdout: Path, rank: int
) -> None:
    recording = Recording()
    event_file(tmp_path, rank, 0, time.time() - 60).write_bytes(records(1))
    follower = Follower(stdout, tmp_path, recording.append)
    event_file(tmp_path, rank, 1).write_bytes(records(2))
    wait_for(written(recording, "loss", 1), what="the run's own file is read")
    follower.close()
    assert recording.values("loss") == [2]
