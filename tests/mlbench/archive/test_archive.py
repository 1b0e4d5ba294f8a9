"""Archives: values survive exactly, and every changed bit is detected."""

import json
import math
import random
import re
import zipfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlbench import archive
from mlbench.archive import RUN, ArchiveError, More, Piece, SeriesName, opened, put_digest

_LOSS, _TEXT, _POD = SeriesName("loss", "0"), SeriesName("note"), SeriesName("cpu", pod="w-0")
_LONG = 150_000
"""More than two row groups."""
# A number without a short decimal, a subnormal number, negative zero, infinity and NaN.
_VALUES = (1 / 3, 5e-324, -0.0, math.inf, math.nan)
_MORE = {0: More("diverged", None, None), 2: More(None, True, {"a": [1, "ä"]})}


def _pieces(length: int) -> Iterator[Piece]:
    for start in range(0, length, 40_000):
        some = range(start, min(start + 40_000, length))
        yield Piece(array("q", some), array("d", (_VALUES[i % 5] / (i + 1) for i in some)))


def _write(path: Path, length: int = _LONG) -> str:
    kept = Piece(array("q", [-5, 7, 7]), array("d", [math.nan, 0.5, 1.5]), _MORE, kept=True)
    both = chain(_pieces(length), [kept])
    series = [(_LOSS, both), (_TEXT, iter([kept])), (_POD, _pieces(2))]
    return archive.write(path, {RUN: {"name": "ä"}}, series, [("logs/1/0.stdout", [b"a", b"b"])])


def _rows(pieces: Iterator[Piece]) -> list[tuple[int, bytes, object, bool]]:
    return [
        (time_us, array("d", [value]).tobytes(), piece.more.get(i), piece.kept)
        for piece in pieces
        for i, (time_us, value) in enumerate(zip(piece.times_us, piece.values, strict=True))
    ]


def test_values_survive_exactly(tmp_path: Path) -> None:
    digest = _write(tmp_path / "x")
    with opened(tmp_path / "x") as file:
        assert (file.digest, file.check()) == (digest, [])
        assert (file.document(RUN), file.text("logs/1/0.stdout")) == ({"name": "ä"}, b"ab")
        assert list(file.series) == [_LOSS, _TEXT, _POD]
        assert _rows(file.read(_LOSS, kept=False)) == _rows(_pieces(_LONG))
        kept = _rows(file.read(_TEXT))
        assert _rows(file.read(_LOSS, kept=True)) == kept
        assert [row[2] for row in kept] == [_MORE[0], None, _MORE[2]]
        assert _rows(file.read(_POD)) == _rows(_pieces(2))


def test_equal_runs_have_equal_archives(tmp_path: Path) -> None:
    assert _write(tmp_path / "x") == _write(tmp_path / "y")
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_every_changed_byte_is_detected(tmp_path: Path) -> None:
    _write(tmp_path / "x", length=100)
    whole = (tmp_path / "x").read_bytes()
    for position in random.Random(0).sample(range(len(whole)), 300):  # noqa: S311
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        (tmp_path / "y").write_bytes(damaged)
        with suppress(ArchiveError), opened(tmp_path / "y") as file:
            assert file.check(), position


def test_damage_is_reported_in_one_sentence(tmp_path: Path) -> None:
    _write(tmp_path / "x")
    whole = bytearray((tmp_path / "x").read_bytes())
    # In the first row group, which contains none of the other series.
    whole[whole.index(b"PAR1") + 100_000] ^= 1
    (tmp_path / "x").write_bytes(whole)
    with opened(tmp_path / "x") as file:
        problem = f"{tmp_path / 'x'} is damaged: samples.parquet does not match its digest"
        assert file.check() == [f"{problem} (series loss @ 0)"]
        with pytest.raises(ArchiveError, match=r"samples\.parquet is damaged"):
            list(file.read(_LOSS))
        assert _rows(file.read(_POD)) == _rows(_pieces(2))
    _write(tmp_path / "x", length=1)
    whole = bytearray((tmp_path / "x").read_bytes())
    whole[whole.rindex(b"PAR1")] ^= 1
    (tmp_path / "x").write_bytes(whole)
    with opened(tmp_path / "x", "it") as file:
        [problem] = file.check()
        assert re.fullmatch(r"it is damaged: samples\.parquet .* \(3 of 3 series, .*\)", problem)


def test_a_file_that_is_not_an_archive_or_newer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_text("PK no zip file")
    for path in (tmp_path / "x", tmp_path / "missing"):
        with pytest.raises(ArchiveError, match=r"no archive of a run|cannot be read"), opened(path):
            pass
    monkeypatch.setattr(archive.writing, "FORMAT", 2)
    _write(tmp_path / "x")
    monkeypatch.undo()
    newer = pytest.raises(ArchiveError, match=r"format 2, .* reads up to 1: install a newer")
    with newer, opened(tmp_path / "x"):
        pass


def _rewrite(path: Path, change: Callable[[zipfile.ZipFile], None]) -> None:
    """Change a file and update its digest."""
    with zipfile.ZipFile(path, "a") as file:
        change(file)
    with path.open("r+b") as content:
        put_digest(content)


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("more", zipfile.ZIP_STORED, "its members are not those that it lists"),
        (RUN, zipfile.ZIP_STORED, "its members are not those that it lists"),
        ("logs/1/0.stdout", zipfile.ZIP_BZIP2, "compressed in another way"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_unlisted_members_are_refused(tmp_path: Path, name: str, kind: int, problem: str) -> None:
    path = tmp_path / "x"
    texts = [] if kind == zipfile.ZIP_BZIP2 else [("logs/1/0.stdout", [b"a"])]
    archive.write(path, {RUN: {}}, [(_LOSS, _pieces(2))], texts)

    def add(file: zipfile.ZipFile) -> None:
        file.writestr(name, b"a" * 1000, kind)
        if not texts:
            index = json.loads(file.read("digests.json"))
            index["members"][name] = ""
            at = next(i for i, info in enumerate(file.filelist) if info.filename == "digests.json")
            del file.filelist[at], file.NameToInfo["digests.json"]
            file.writestr("digests.json", json.dumps(index))

    _rewrite(path, add)
    with pytest.raises(ArchiveError, match=problem), opened(path):
        pass


@pytest.mark.parametrize(
    ("rows", "problem"), [(1_000_000, "a group of 1,000,000 rows"), (7, "7 rows, and")]
)
def test_row_groups_of_another_size_are_refused(tmp_path: Path, rows: int, problem: str) -> None:
    """Otherwise, reading a small file could fill the memory."""
    path, samples = tmp_path / "x", tmp_path / "samples"
    columns = {name: pa.nulls(rows, pa.string()) for name in ("text", "metadata")}
    pq.write_table(pa.table(columns), samples, row_group_size=rows)
    with zipfile.ZipFile(path, "w") as file:
        file.write(samples, "samples.parquet")
        index = {"format": 1, "members": {}, "series": [["loss", "0", "", 1_000_000, 0, ""]]}
        file.writestr("digests.json", json.dumps(index))
        file.comment = b"0" * 64
    assert path.stat().st_size < 1 << 20
    with opened(path) as reader, pytest.raises(ArchiveError, match=problem):
        list(reader.read(_LOSS))
