"""Data sets are found under their names, plain or compressed, and read in blocks of lines."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from worker.data.folder import DataError
from worker.data.libsvm import sources
from worker.data.libsvm.sources import find_sources, open_source

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
    found = find_sources(name, tmp_path)
    assert found.train == tmp_path / train
    assert found.validation == (tmp_path / validation if validation else None)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file epsilon_normalized .*Get it from https://"):
        find_sources("epsilon", tmp_path)


@pytest.mark.parametrize(("ending", "compress"), [("", bytes), *_COMPRESS])
def test_blocks_are_whole_lines(
    tmp_path: Path,
    ending: str,
    compress: Callable[[bytes], bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "_BLOCK_BYTES", 100)
    text = b"".join(b"1 1:%d\n" % i for i in range(99)) + b"1 1:99"  # the last without its end
    path = tmp_path / f"f{ending}"
    path.write_bytes(compress(text))
    with open_source(path) as source:
        blocks = list(source.blocks())
        assert source.share_read == 1
    assert len(blocks) > 5
    assert b"".join(block.text for block in blocks) == text
    assert all(block.text.endswith(b"\n") for block in blocks[:-1])
    for block in blocks:
        assert block.text.startswith(b"1 1:%d" % (block.first - 1)), "the number of its first line"


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
    with (
        open_source(path) as source,
        pytest.raises(DataError, match="it cannot be read to its end"),
    ):
        list(source.blocks())
