"""Files are found and read in blocks of lines, and malformed lines are reported."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from mlbench_worker.data.libsvm.svmlight_text import find_files, parse_lines, read_blocks
from mlbench_worker.ranks.rank_process import DataError


def test_lines_become_rows() -> None:
    text = b"+1 1:0.5 3:-2e-1\n-1\n\n# a note\n2.5 qid:7 2:1 # why\n"
    rows, labels = parse_lines(Path("f"), 1, text)
    assert labels.tolist() == [1, -1, 2.5]
    assert rows.indptr.tolist() == [0, 2, 2, 3]
    assert rows.indices.tolist() == [0, 2, 1]
    assert rows.data.tolist() == pytest.approx([0.5, -0.2, 1])
    assert rows.shape == (3, 3)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("yes 1:1", "could not convert string to float: b'yes'"),
        ("nan 1:1", "a label or value is no finite number"),
        ("1 0:1", "Invalid index 0"),
        ("1 2:1 1:1", "Feature indices .* should be sorted and unique"),
        ("1 1:1e39", "a label or value is no finite number"),
        ("1 1:", ""),
    ],
)
def test_a_malformed_line_is_reported(line: str, wrong: str) -> None:
    text = f"1 1:1\n\n{line}\n1 0:0\n".encode()
    with pytest.raises(DataError, match=f"here/a9a, line 103: .*{wrong}"):
        parse_lines(Path("here/a9a"), 101, text)


_COMPRESS = [(".bz2", bz2.compress), (".gz", gzip.compress), (".xz", lzma.compress)]


@pytest.mark.parametrize(
    ("name", "train", "validation"),
    [
        ("epsilon", "epsilon_normalized", "epsilon_normalized.t"),
        ("rcv1", "rcv1_train.binary.bz2", "rcv1_test.binary.bz2"),
        ("a9a", "a9a", "a9a.t"),
        ("a9a", "a9a/a9a.xz", "a9a/a9a.t.gz"),
        ("skin", "skin", None),
    ],
)
def test_files_are_found(tmp_path: Path, name: str, train: str, validation: str | None) -> None:
    (tmp_path / name / "x").mkdir(parents=True) if "/" in train else None
    for file in filter(None, (train, validation)):
        (tmp_path / file).touch()
    expected = (tmp_path / train, tmp_path / validation if validation else None)
    assert find_files(name, tmp_path) == expected


def blocks_of(path: Path) -> list[tuple[int, bytes]]:
    with path.open("rb") as raw:
        return list(read_blocks(path, raw, bytearray().extend))


@pytest.mark.parametrize(("ending", "compress"), [("", bytes), *_COMPRESS])
def test_blocks_are_whole_lines(
    tmp_path: Path, ending: str, compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlbench_worker.data.libsvm.svmlight_text._BLOCK_BYTES", 100)
    text = b"".join(b"1 1:%d\n" % i for i in range(99)) + b"1 1:99"  # the last line has no newline
    path = tmp_path / f"f{ending}"
    path.write_bytes(compress(text))
    blocks = blocks_of(path)
    assert len(blocks) > 5
    assert b"".join(block for _, block in blocks) == text
    assert all(block.endswith(b"\n") for _, block in blocks[:-1])
    for first, block in blocks:
        assert block.startswith(b"1 1:%d" % (first - 1)), "wrong number of the first line"


@pytest.mark.parametrize(("ending", "compress"), _COMPRESS)
@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: b"x" + data[1:]])
def test_a_broken_archive_is_noticed(
    tmp_path: Path,
    ending: str,
    compress: Callable[[bytes], bytes],
    damage: Callable[[bytes], bytes],
) -> None:
    path = tmp_path / f"f{ending}"
    path.write_bytes(damage(compress(b"1 1:1\n" * 1000)))
    with pytest.raises(DataError, match="it cannot be read to its end"):
        blocks_of(path)
