"""Reading event files and MLPerf's lines while a process writes them."""

import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from mlbench.contract import names
from mlbench_sources import event_files, file_receiver
from mlbench_sources.event_files import EventFiles
from mlbench_sources.file_receiver import Follower
from mlbench_sources.presence import Presence
from mlbench_sources.tensorboard import Scalar, first_record, masked_checksum, to_record
from mlbench_sources.tests.test_tensorboard import SESSION, record
from mlbench_worker.agent import process_lookup
from mlbench_worker.agent.sources import Line, SourceContext
from tests.conftest import wait_for
from tests.support.assignments import ASSIGNMENT

_HUGE = "1" + "0" * 400


def environ_of(run: int) -> dict[str, str]:
    """Return the environment of a process of the run."""
    return {**os.environ, names.ENV_METRICS_FILE: f"/nonexistent/{run}/metrics"}


class Followed:
    """A run whose files are read; it collects the lines, or refuses them like a full disk."""

    def __init__(self, folder: Path, pid: int, root: int | None = None) -> None:
        self.folder, self.pid = folder, pid
        self.lines: list[Line] = []
        self.refusals_left = 0
        self.stdout = folder / "stdout"
        self.stdout.touch()
        context = SourceContext(
            assignment=ASSIGNMENT,
            folder=folder,
            stdout=self.stdout,
            output=folder / "output",
            environ={},
            identity=environ_of(1),
            append=self._append,
            say=print,
            sockets=None,
            root=root,
            exit_code=lambda: None,
        )
        self._follower = Follower(context)

    def _append(self, lines: Sequence[Line]) -> None:
        if self.refusals_left:
            self.refusals_left -= 1
            raise OSError("no space")
        self.lines += lines

    def event_file(
        self, number: int = 0, folder: Path | None = None, ago: float = 0.0, pid: int | None = None
    ) -> Path:
        """Return a path for an event file, by default one of the run's process."""
        name = f"{int(time.time() - ago)}.{socket.gethostname()}.{pid or self.pid}.{number}"
        return (folder or self.folder) / f"events.out.tfevents.{name}"

    def values(self, metric: str) -> list[Any]:
        found = (line.get("metrics") for line in self.lines)
        return [one[metric] for one in found if isinstance(one, dict) and metric in one]

    def wait_for(self, count: int, metric: str = "loss") -> None:
        wait_for(lambda: len(self.values(metric)) == count, what="the values are written")

    @property
    def not_read(self) -> int:
        return self._follower.events.not_read

    def end(self) -> str:
        """Read the rest, and return the reason if values were lost."""
        self._follower.close()
        return self._follower.failure


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """PID of an idle process of a run."""
    monkeypatch.setattr(file_receiver, "_SECONDS", 0.05)
    process = subprocess.Popen(["sleep", "60"], env=environ_of(1))
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def followed(tmp_path: Path, rank: int) -> Followed:
    return Followed(tmp_path, rank)


def mllog(key: str, at: str, value: float) -> str:
    return f':::MLLOG {{"key": "{key}", "time_ms": {at}, "value": {value}, "metadata": {{}}}}\n'


def records(*values: float, tag: str = "loss") -> bytes:
    scalars = (Scalar(tag, time.time(), step, value) for step, value in enumerate(values))
    return first_record(time.time()) + b"".join(to_record(scalar) for scalar in scalars)


def test_refused_lines_are_written_again(followed: Followed) -> None:
    followed.refusals_left = 5
    followed.stdout.write_text(mllog("eval_accuracy", "1000", 0.9))
    followed.event_file().write_bytes(records(1, 2, 3))
    followed.wait_for(3)
    assert followed.end() == ""
    assert followed.values("loss") == [1, 2, 3]
    assert followed.values("eval_accuracy") == [0.9]


def test_lines_refused_until_the_end_are_a_failure(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_receiver, "_PATIENCE_SECONDS", 0.3)
    followed.refusals_left = 1 << 30
    followed.event_file().write_bytes(records(1))
    time.sleep(0.2)
    assert followed.end() == "values that its processes wrote to files are lost: no space"


def epoch_start(number: str) -> str:
    metadata = f'"event_type": "INTERVAL_START", "metadata": {{"epoch_num": {number}}}'
    return mllog("epoch_start", "1", 1).replace('"metadata": {}', metadata)


@pytest.mark.parametrize("wrong", [mllog("loss", _HUGE, 1), epoch_start(_HUGE)])
def test_a_line_with_a_huge_number_is_malformed(followed: Followed, wrong: str) -> None:
    followed.stdout.write_text(epoch_start("0.5") + wrong + mllog("eval_accuracy", "1000", 0.9))
    followed.event_file().write_bytes(records(1))
    followed.wait_for(1)
    assert followed.end() == ""
    assert followed.values("eval_accuracy") == [0.9]
    [malformed] = [line for line in followed.lines if line["time"] is None]
    assert malformed["text"] == wrong[:200]


def test_other_event_files_are_read_after_a_damaged_one(followed: Followed) -> None:
    length = struct.pack("<Q", 2**64 - 10)
    damaged = followed.event_file()
    damaged.write_bytes(records(1) + length + struct.pack("<I", masked_checksum(length)))
    followed.event_file(1).write_bytes(records(2, 3))
    followed.stdout.write_text(mllog("eval_accuracy", "1000", 0.9))
    followed.wait_for(3)
    assert followed.end().startswith(f"the event file {damaged} is damaged at byte ")
    assert (followed.not_read, followed._follower.events.damaged) == (0, 1)
    assert followed.values("eval_accuracy") == [0.9]


@pytest.mark.parametrize("states_itself", [False, True])
def test_the_files_of_add_hparams_become_settings_and_metrics(
    tmp_path: Path, rank: int, states_itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.write_text("mine\n\n" if states_itself else "mine\n")
    monkeypatch.setattr(names, "own_names_file", lambda *_: str(own))
    followed = Followed(tmp_path, rank)
    followed.event_file().write_bytes(records(1))
    for number, size in enumerate((b"@@", b"P@")):
        folder = tmp_path / f"179557732{number}.0553675"
        folder.mkdir()
        session = record(SESSION.replace(b"@@", size))
        file = followed.event_file(number + 1, folder)
        file.write_bytes(session + records(number, tag="hparam/accuracy"))
    followed.wait_for(2, "hparam/accuracy")
    followed.end()
    settings = [line["settings"] for line in followed.lines if "settings" in line]
    stated = [{"batch_size": size, "lr": 0.1, "optimizer": "sgd"} for size in (32, 64)]
    assert settings == ([] if states_itself else stated)


def test_names_recorded_by_another_logger_are_skipped_in_its_folders(
    tmp_path: Path, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    folders = [tmp_path / name for name in ("version_0", "version_1", "others")]
    own.write_text("".join(f"{line}\n" for line in ("loss", *(f"\0{one}" for one in folders[:2]))))
    monkeypatch.setattr(names, "own_names_file", lambda *_: str(own))
    followed = Followed(tmp_path, rank)
    for number, folder in enumerate(folders):
        folder.mkdir()
        content = records(1) + records(2, tag="mine")
        followed.event_file(number, folder).write_bytes(content)
    followed.wait_for(1, "others/mine")
    followed.end()
    recorded = {name for line in followed.lines for name in cast("Any", line).get("metrics", ())}
    assert recorded == {"mine", "version_1/mine", "others/mine", "others/loss"}


def test_more_event_files_are_read_than_are_kept_open(followed: Followed) -> None:
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    paths = [followed.event_file(number) for number in range(600)]
    for number, path in enumerate(paths):
        path.write_bytes(records(number))
    followed.wait_for(600)
    assert len(list(Path("/proc/self/fd").iterdir())) < open_before + 300
    for number, path in enumerate(paths):
        with path.open("ab") as file:
            file.write(to_record(Scalar("loss", time.time(), 1, 600 + number)))
    assert followed.end() == ""
    assert sorted(followed.values("loss")) == list(range(1200))


def test_the_file_of_an_earlier_process_with_the_same_pid_is_not_read(followed: Followed) -> None:
    followed.event_file(ago=60).write_bytes(records(1))
    followed.event_file(1).write_bytes(records(2))
    followed.wait_for(1)
    followed.end()
    assert followed.values("loss") == [2]


@pytest.fixture
def slow_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for files takes as long as in a large folder."""
    list_event_files = event_files._event_files

    def search(folder: Path) -> Iterator[Path]:
        time.sleep(0.1)
        return list_event_files(folder)

    monkeypatch.setattr(event_files, "_event_files", search)


@pytest.mark.usefixtures("slow_search")
def test_files_of_short_processes_are_read_in_a_large_folder(followed: Followed) -> None:
    time.sleep(0.3)
    for number in range(3):
        process = subprocess.Popen(["sleep", "0.3"], env=environ_of(1))
        followed.event_file(number, pid=process.pid).write_bytes(records(number))
        process.wait()
    assert followed.end() == ""
    assert followed.values("loss") == [0, 1, 2]


def unnumbered(folder: Path, ago: float = 0.0) -> Path:
    """Return the path of an event file without a PID, as tensorboardX names it."""
    return folder / f"events.out.tfevents.{int(time.time() - ago)}.{socket.gethostname()}"


def write_slowly(path: Path, environ: dict[str, str], seconds: float) -> subprocess.Popen[bytes]:
    data = path.parent / "data"
    data.write_bytes(records(1, 2))
    script = f'exec 3> "$0"; cat "$1" >&3; sleep {seconds}'
    return subprocess.Popen(["bash", "-c", script, str(path), str(data)], env=environ)


@pytest.mark.usefixtures("slow_search")
def test_a_file_without_a_pid_belongs_to_the_process_that_has_it_open(followed: Followed) -> None:
    time.sleep(0.3)
    write_slowly(unnumbered(followed.folder), environ_of(1), 0.5).wait()
    assert followed.end() == ""
    assert followed.values("loss") == [1, 2]


def test_new_files_of_unknown_processes_are_read_at_the_end(followed: Followed) -> None:
    time.sleep(0.2)
    unnumbered(followed.folder).write_bytes(records(1))
    followed.event_file(pid=1 << 22).write_bytes(records(2))
    for folder, ago in (("old", 60), ("other", -1)):
        (followed.folder / folder).mkdir()
        unnumbered(followed.folder / folder, ago).write_bytes(records(3))
    assert followed.end() == ""
    assert sorted(followed.values("loss")) == [1, 2]
    assert followed.values("other/loss") == [3]
    assert followed.not_read == 0


@pytest.mark.parametrize("is_numbered", [False, True])
def test_files_of_processes_outside_the_run_are_not_read(
    followed: Followed, is_numbered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_files, "_MIN_REST_SECONDS", 0.1)
    process = subprocess.Popen(["sleep", "60"])
    path = followed.event_file(pid=process.pid) if is_numbered else unnumbered(followed.folder)
    other = write_slowly(path, dict(os.environ), 3.0)  # long enough for a busy machine
    other.wait()
    process.kill()
    process.wait()
    assert followed.end() == ""
    assert not followed.lines
    assert followed.not_read == 0


def test_a_later_run_in_the_same_folder_reads_only_its_files(tmp_path: Path, rank: int) -> None:
    earlier = Followed(tmp_path, rank)
    time.sleep(0.1)
    unnumbered(tmp_path).write_bytes(records(1))
    assert earlier.end() == ""
    time.sleep(0.05)
    later = Followed(tmp_path, rank)
    time.sleep(0.1)
    later.event_file(pid=1 << 22).write_bytes(records(2))
    assert later.end() == ""
    assert (earlier.values("loss"), later.values("loss")) == ([1], [2])


@pytest.mark.parametrize("place", [".", "inner", ".."])
def test_new_files_of_unknown_processes_are_not_read_during_another_run(
    tmp_path: Path, rank: int, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run" / "inner").mkdir(parents=True)
    followed = Followed(tmp_path / "run", rank)
    other = Presence((tmp_path / "run" / place).resolve())
    unnumbered(followed.folder).write_bytes(records(1))
    followed.event_file().write_bytes(records(2))
    followed.wait_for(1)
    other.close()
    assert followed.end() == ""
    assert followed.values("loss") == [2]
    assert followed.not_read == 1
    assert "mlbench: event files that are not recorded: 1. " in capsys.readouterr().out


def test_files_of_a_process_that_called_record_are_read(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    followed = Followed(tmp_path, process.pid, root=process.pid)
    followed.event_file().write_bytes(records(1))
    followed.wait_for(1)
    process.kill()
    process.wait()
    assert followed.end() == ""


def test_the_rank_of_a_process_is_read_again_after_exec(tmp_path: Path) -> None:
    variables = environ_of(1)
    # The shell stands in for a process between fork and exec.
    shell = ["bash", "-c", "read; RANK=3 WORLD_SIZE=4 exec sleep 60"]
    process = subprocess.Popen(shell, env=variables, stdin=subprocess.PIPE)
    events = EventFiles(tmp_path, variables)
    assert not list(events.read())
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.close()
    wait_for(lambda: process_lookup.environ_of(process.pid).get("RANK") == "3", what="exec")
    assert not list(events.read())
    name = f"{int(time.time())}.{socket.gethostname()}.{process.pid}.0"
    (tmp_path / f"events.out.tfevents.{name}").write_bytes(records(1))
    events.end()
    lines = list(events.read())
    process.kill()
    process.wait()
    events.close()
    assert [line["rank"] for line in lines if "metrics" in line] == [3]
