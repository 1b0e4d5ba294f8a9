"""Several archives in one file."""

import zipfile
from pathlib import Path

import pytest

from mlbench import bundle
from mlbench.archive import ArchiveError
from tests.mlbench.report.making import make_archive, make_result


def test_archives_come_out_as_they_went_in(tmp_path: Path) -> None:
    archives = [make_archive(tmp_path, make_result(run_id)) for run_id in (1, 2)]
    with (tmp_path / "file").open("wb") as file:
        bundle.write(file, archives, {"set": "a"})
    found = bundle.archives_in(tmp_path / "file", tmp_path)
    assert [one.read_bytes() for one in found] == [one.read_bytes() for one in archives]
    assert bundle.about(tmp_path / "file") == {"set": "a"}
    # An archive is one by itself.
    assert bundle.archives_in(archives[0], tmp_path) == archives[:1]
    assert bundle.about(archives[0]) is None


def test_what_could_grow_to_any_size_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.mlbench", b"0" * 1000)
    with pytest.raises(ArchiveError, match=r"a\.mlbench is compressed"):
        bundle.archives_in(tmp_path / "x", tmp_path)
