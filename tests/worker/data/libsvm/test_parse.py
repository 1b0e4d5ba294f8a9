"""A file's rows come out of parsing as they went in, all of them, in the fixed order."""

from pathlib import Path

import numpy as np
import pytest

from tests.worker.data.libsvm.files import Made, make
from worker.data.folder import DataError
from worker.data.libsvm import parse, sources
from worker.data.libsvm.cache import open_table
from worker.data.libsvm.rows import DenseRows, SparseRows


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_BLOCK_BYTES", 2000)


@pytest.fixture
def _several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "_SMALL_BYTES", 0)


def parsed(path: Path, width: int) -> Made:
    """Return what a file holds, in the order in which it is stored."""
    table = open_table(path)
    assert table.width == width
    match table.rows:
        case DenseRows(values):
            rows = values.double().numpy()
        case SparseRows(values, columns, starts):
            rows = np.zeros((len(table.rows), width))
            lengths = np.diff(starts.numpy())
            rows[np.arange(len(rows)).repeat(lengths), columns.numpy()] = values.numpy()
    norms2 = (rows**2).sum(axis=1)
    assert table.largest_norm2 == pytest.approx(norms2.max(), rel=1e-6)
    return Made(rows, table.labels.double().numpy())


@pytest.mark.usefixtures("_several_processes")
@pytest.mark.parametrize(("density", "kind"), [(1.0, DenseRows), (0.1, SparseRows)])
def test_all_rows_are_there_in_the_fixed_order(tmp_path: Path, density: float, kind: type) -> None:
    made = make(300, 20, density=density)
    path = tmp_path / "made"
    path.write_bytes(made.text())
    stored = parsed(path, width=20)
    order = np.argsort(np.random.RandomState(0).permutation(300))
    np.testing.assert_allclose(stored.rows, made.rows[order], rtol=1e-6)
    np.testing.assert_array_equal(stored.labels, made.labels[order])
    assert isinstance(open_table(path).rows, kind)
    # The file is sorted by label; any block of what is stored has both.
    assert (np.diff(made.labels) >= 0).all()
    assert (np.abs(stored.labels.reshape(10, 30).mean(axis=1)) < 0.7).all()


@pytest.mark.usefixtures("_several_processes")
def test_a_malformed_line_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "made"
    text = make(300, 20).text() + b"1 3:1 2:1\n"
    path.write_bytes(text)
    with pytest.raises(DataError, match=r"made, line 301: indices must rise within a line"):
        open_table(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["made", "made.lock"]


@pytest.mark.parametrize("text", [b"", b"# nothing\n\n", b"1\n-1\n"])
def test_a_file_without_features_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "made"
    path.write_bytes(text)
    with pytest.raises(DataError, match="made has no features"):
        open_table(path)
