"""The agent's stream files lose no byte, survive other files in their place, and report damage."""

import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mlbench_worker.agent import stream_files


def make_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, make_link])
def test_only_regular_files_are_read(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "odd"
    make(path)
    assert stream_files.open_regular(path) is None
    with pytest.raises(ValueError, match="no file that can be read"):
        stream_files.read_json(path)


def test_a_file_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    os.mkfifo(path)
    stream_files.write_json(path, {"code": 0})
    assert stream_files.read_json(path) == {"code": 0}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        stream_files.write_json(path, {})
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, make_link])
def test_a_private_folder_replaces_other_files(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "own"
    make(path)
    stream_files.own_folder(path)
    assert not path.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


_REMOVE = (
    "import sys, pathlib; from mlbench_worker.agent.stream_files import remove;"
    "remove(pathlib.Path(sys.argv[1]))"
)


def test_read_only_folders_are_removed(tmp_path: Path) -> None:
    sealed = tmp_path / "cache" / "sealed"
    (sealed / "inner").mkdir(parents=True)
    (sealed / "inner" / "file").touch()
    (sealed / "inner").chmod(0o555)
    sealed.chmod(0o500)
    # Root ignores permissions unless it drops that capability.
    as_others = ("setpriv", "--bounding-set", "-dac_override") if os.getuid() == 0 else ()
    done = subprocess.run(
        [*as_others, sys.executable, "-c", _REMOVE, tmp_path / "cache"],
        capture_output=True,
        check=False,
    )
    assert (done.stderr, (tmp_path / "cache").exists()) == (b"", False)


def test_a_link_is_removed_without_its_target(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "link").symlink_to(kept)
    stream_files.remove(tmp_path / "link")
    assert list(tmp_path.iterdir()) == [kept]


def test_failures_to_remove_a_folder_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream_files.remove(tmp_path / "none")
    assert "cannot remove" in caplog.text
    # The tree is too deep for the lowered recursion limit here, but not for pytest's cleanup.
    (tmp_path / "deep").joinpath(*["d"] * 200).mkdir(parents=True)
    most = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        stream_files.remove(tmp_path / "deep")
    finally:
        sys.setrecursionlimit(most)
    assert not (tmp_path / "deep").exists() or f"cannot remove {tmp_path / 'deep'}" in caplog.text


_FACTS = b'{"time": 1.5, "machine": {"hostname": "h"}}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.fixture
def metrics(path: Path) -> stream_files.MetricsFile:
    """A metrics file with the agent's own line, which has been read."""
    made = stream_files.MetricsFile(path, stream_files.create_stream(path))
    made.append(_FACTS)
    assert made.read(0, 1000) == _FACTS
    return made


@pytest.fixture
def log(path: Path) -> stream_files.LogFile:
    """A log file of which 9 bytes have been read."""
    made = stream_files.LogFile(path, stream_files.create_stream(path))
    path.write_bytes(b"one\ntwo\nt")
    assert made.read(0, 9) == b"one\ntwo\nt"
    return made


@pytest.mark.parametrize("unlink", [False, True])
def test_appended_bytes_are_read_by_offset(
    metrics: stream_files.MetricsFile, path: Path, unlink: bool
) -> None:
    with path.open("ab") as file:
        if unlink:
            path.unlink()
        file.write(b"12345")
    begin = len(_FACTS)
    assert metrics.read(begin, 2) == b"12"
    assert metrics.read(begin + 2, 100) == b"345"
    assert metrics.read(begin, 100) == b"12345", "bytes cannot be read again"
    assert (metrics.size(), metrics.damage) == (begin + 5, "")


def test_an_overwritten_first_line_is_noticed(path: Path) -> None:
    made = stream_files.MetricsFile(path, stream_files.create_stream(path))
    made.append(_FACTS)
    path.write_bytes(_FACTS.replace(b"1.5", b"2.5"))
    assert made.read(0, 100) == b""
    assert made.damage.startswith("was overwritten by the command: open it for ")
    assert made.size() == 0, "the stream continues after damage"


@pytest.mark.parametrize(
    ("kept", "damage"), [(0, "was cut short from {:,} to 0 bytes"), (990, "was overwritten")]
)
def test_the_kind_of_damage_is_reported(
    metrics: stream_files.MetricsFile, path: Path, kept: int, damage: str
) -> None:
    with path.open("ab") as file:
        file.write(b"x" * 1000)
    size = len(_FACTS) + 1000
    assert len(metrics.read(0, size)) == size
    os.truncate(path, kept)
    with path.open("ab") as file:
        file.write(b"y" * (size - kept) if kept else b"")
    assert metrics.size() == 0
    assert f"{damage.format(size)} by the command" in metrics.damage


@pytest.mark.parametrize("held", [9, 4])
def test_a_truncated_log_continues_at_the_masters_offset(
    log: stream_files.LogFile, path: Path, held: int
) -> None:
    """If the master has less than was read before, the bytes in between are lost."""
    path.write_bytes(b"new")
    assert log.size() == 9 + 3
    assert log.read(held, 100) == b"new"
    with path.open("ab") as file:
        file.write(b"er")
    assert log.read(held + 3, 100) == b"er"
    assert log.size() == held + 5


@pytest.mark.parametrize("kind", [stream_files.LogFile, stream_files.MetricsFile])
def test_a_missing_file_is_empty(kind: type[stream_files.StreamFile], path: Path) -> None:
    missing = kind(path, stream_files.open_regular(path))
    assert (missing.read(0, 100), missing.size()) == (b"", 0)
    missing.close()


def test_a_sparse_file_is_not_read_to_its_end(
    metrics: stream_files.MetricsFile, path: Path
) -> None:
    with path.open("ab") as file:
        file.write(b"12345")
    os.truncate(path, 1 << 40)
    begin = len(_FACTS)
    assert metrics.read(begin, 5) == b"12345"
    assert metrics.read(begin + (1 << 20), 100) == b""
    assert metrics.damage == "was made longer without being written"


def test_a_failed_append_leaves_no_partial_line(
    metrics: stream_files.MetricsFile, path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(_FACTS) + 10, before[1]))
    try:
        with pytest.raises(OSError, match="no space for 20 bytes"):
            metrics.append(b"x" * 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == _FACTS
    assert (metrics.size(), metrics.damage) == (len(_FACTS), "")


@pytest.mark.parametrize("length", [1, 3, 7, 100])
def test_a_secret_is_masked_at_any_read_offset(path: Path, length: int) -> None:
    log = stream_files.LogFile(path, stream_files.create_stream(path))
    log.hide(["secret"])
    path.write_bytes(b"at http://me:secret@here, and secret; secre")
    read = b"".join(log.read(offset, length) for offset in range(0, 43, length))
    assert read == b"at http://me:******@here, and ******; secre"
    log.close()
