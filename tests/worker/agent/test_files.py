"""The agent's files: whatever has their place, reading does not wait and removing does not fail."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from worker.agent.files import open_regular, own_folder, read_json, remove, write_json


def make_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, make_link])
def test_what_is_no_regular_file_is_not_read(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "odd"
    make(path)
    assert open_regular(path) is None
    with pytest.raises(ValueError, match="no file that can be read"):
        read_json(path)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\udcff"])
def test_what_is_no_json_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "spoilt"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"\w"):
        read_json(path)


def test_what_is_missing_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none")


def test_a_file_is_written_over_whatever_has_the_place_of_it(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    os.mkfifo(path)
    write_json(path, {"code": 0})
    assert read_json(path) == {"code": 0}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_json(path, {})
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, make_link])
def test_a_folder_of_ones_own_takes_its_place(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "own"
    make(path)
    own_folder(path)
    assert not path.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


_REMOVE = (
    "import sys, pathlib; from worker.agent.files import remove; remove(pathlib.Path(sys.argv[1]))"
)


def test_folders_that_nobody_may_write_in_are_removed(tmp_path: Path) -> None:
    sealed = tmp_path / "cache" / "sealed"
    (sealed / "inner").mkdir(parents=True)
    (sealed / "inner" / "file").touch()
    (sealed / "inner").chmod(0o555)
    sealed.chmod(0o500)
    # Root may do anything, unless it gives that up.
    as_others = ("setpriv", "--bounding-set", "-dac_override") if os.getuid() == 0 else ()
    done = subprocess.run(
        [*as_others, sys.executable, "-c", _REMOVE, tmp_path / "cache"],
        capture_output=True,
        check=False,
    )
    assert (done.stderr, (tmp_path / "cache").exists()) == (b"", False)


def test_only_the_link_is_removed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "link").symlink_to(kept)
    remove(tmp_path / "link")
    assert list(tmp_path.iterdir()) == [kept]


def test_what_cannot_be_removed_is_told_and_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    remove(tmp_path / "none")
    assert "cannot remove" in caplog.text
    deep = folder = tmp_path / "deep"
    folder.mkdir()
    at = os.open(folder, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    remove(deep)
    subprocess.run(["rm", "-rf", deep], check=True)
