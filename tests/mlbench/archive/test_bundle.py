"""Bundles of several archives, and detection of changes in them."""

import zipfile
from pathlib import Path

import pytest

from mlbench.archive import ArchiveError, bundle
from mlbench.contract.records import RunSet, Slot, Trial
from tests.support.results import make_archive, make_result


def _trial(run_id: int, *, counts: bool) -> Trial:
    return Trial(1, run_id, 1, "FINISHED", "", not counts, deleted=False, counts=counts, remark="")


_PLACE = Slot(1, "a-w1-r1", 1, 1, False, (_trial(1, counts=False), _trial(2, counts=True)))
_SET = RunSet("a", "2018-08-03T09:21:29Z", False, None, {}, (_PLACE,), "1 of 1")


@pytest.fixture
def archives(tmp_path: Path) -> dict[int, Path]:
    return {run_id: make_archive(tmp_path, make_result(run_id)) for run_id in (1, 2)}


@pytest.fixture
def file(tmp_path: Path, archives: dict[int, Path]) -> Path:
    bundle.write(tmp_path / "file", archives, _SET)
    return tmp_path / "file"


def _problems(file: Path, tmp_path: Path) -> list[str]:
    return bundle.check(file, bundle.archives_in(file, tmp_path))


def test_a_bundle_keeps_its_archives(file: Path, archives: dict[int, Path], tmp_path: Path) -> None:
    found = bundle.archives_in(file, tmp_path)
    assert [one.read_bytes() for one in found] == [one.read_bytes() for one in archives.values()]
    assert bundle.read_set(file) == _SET
    assert bundle.check(file, found) == []
    # A single archive is read as a bundle of one.
    assert bundle.archives_in(archives[1], tmp_path) == [archives[1]]
    assert bundle.read_set(archives[1]) is None


def test_a_changed_bit_of_a_set_is_detected(file: Path, tmp_path: Path) -> None:
    whole = bytearray(file.read_bytes())
    at = whole.index(b'"official": false')
    whole[at + 12] ^= 1
    file.write_bytes(whole)
    with pytest.raises(ArchiveError, match="Bad CRC"):
        _problems(file, tmp_path)


def test_other_archives_are_checked_despite_an_invalid_one(
    file: Path, archives: dict[int, Path], tmp_path: Path
) -> None:
    listed = bundle.archives_in(file, tmp_path)
    listed[0].write_text("no archive")
    assert bundle.check(file, listed) == ["the archive of run 1 is missing, or another one"]


def test_a_rewritten_set_is_detected(file: Path, archives: dict[int, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(file) as old:
        content = old.read("set.json").replace(b"1 of 1", b"9 of 9")
        comment = old.comment
    with zipfile.ZipFile(file, "w") as new:
        new.writestr("set.json", content)
        for path in archives.values():
            new.write(path, path.name)
        new.comment = comment
    assert "has changed since it was written" in _problems(file, tmp_path)[0]


def test_an_omitted_run_is_detected(archives: dict[int, Path], tmp_path: Path) -> None:
    bundle.write(tmp_path / "less", {2: archives[2]}, _SET)
    assert _problems(tmp_path / "less", tmp_path) == ["run 1 of slot 1 has no archive"]


def test_a_compressed_archive_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.mlbench", b"0" * 1000)
    with pytest.raises(ArchiveError, match=r"a\.mlbench is compressed"):
        bundle.archives_in(tmp_path / "x", tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b" " * (17 << 20), r"set\.json: must have at most 16,777,216 bytes \(got 17,825,792\)"),
        (b"[" * 100_000, "is no archive, or a damaged one: (maximum recursion|Stack)"),
        (b'{"set": []}', "its set: "),
        (b"[1]", "its set: "),
    ],
)
def test_a_large_or_invalid_set_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    with zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("set.json", content)
    assert (tmp_path / "x").stat().st_size < 20_000
    with pytest.raises(ArchiveError, match=problem):
        bundle.read_set(tmp_path / "x")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_overlapping_archives_are_refused_before_they_fill_the_disk(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x", "w") as file:
        file.writestr("a.mlbench", b"0" * 10_000)
        file.filelist += file.filelist * 9
    with pytest.raises(ArchiveError, match="its archives have more bytes than the file"):
        bundle.archives_in(tmp_path / "x", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
