"""One or two files become training and validation data with rows for matrix products."""

import hashlib
import lzma
from pathlib import Path

import pytest
import torch

from mlbench_worker.data.libsvm.dataset import load_dataset
from mlbench_worker.data.libsvm.row_blocks import DenseRows, Rows, SparseRows
from tests.support.libsvm_files import make, make_regression


def test_any_two_labels_become_minus_and_plus_one(tmp_path: Path) -> None:
    made = make(100, 5)
    (tmp_path / "two").write_bytes(made.text(("1", "2")))
    (tmp_path / "two.t").write_bytes(made.text(("1", "2")))
    data = load_dataset("two", tmp_path, classes=True)
    for part in (data.train, data.validation):
        assert torch.unique(part.targets).tolist() == [-1, 1]
        assert part.targets.sum() == made.labels.sum()


def test_other_labels_can_only_be_targets(tmp_path: Path) -> None:
    made = make_regression(100, 5)
    (tmp_path / "numbers").write_bytes(made.text())
    data = load_dataset("numbers", tmp_path, classes=False)
    targets = torch.cat([data.train.targets, data.validation.targets])
    torch.testing.assert_close(
        targets.sort().values, torch.from_numpy(made.labels).float().sort().values
    )


def test_the_checksum_covers_the_text_of_each_file(tmp_path: Path) -> None:
    train, validation = make(100, 5).text(), make(50, 5, seed=1).text()
    (tmp_path / "plain").write_bytes(train)
    (tmp_path / "two").write_bytes(train)
    (tmp_path / "two.t.xz").write_bytes(lzma.compress(validation))
    sums = [hashlib.sha256(text).hexdigest() for text in (train, validation)]
    for _ in range(2):  # parsed at first, then read from the parsed form
        assert load_dataset("plain", tmp_path, classes=True).sha256 == sums[0]
        assert load_dataset("two", tmp_path, classes=True).sha256 == ",".join(sums)


@pytest.mark.parametrize("density", [1.0, 0.2])
def test_a_fifth_of_a_single_file_is_for_validation(tmp_path: Path, density: float) -> None:
    (tmp_path / "one").write_bytes(make(103, 5, density=density).text())
    data = load_dataset("one", tmp_path, classes=True)
    for part, count in ((data.train, 83), (data.validation, 20)):
        assert len(part) == len(part.rows) == count


@pytest.mark.parametrize("density", [1.0, 0.2])
def test_features_of_both_files_are_counted(tmp_path: Path, density: float) -> None:
    (tmp_path / "wide").write_bytes(make(100, 9, density=density).text())
    (tmp_path / "wide.t").write_bytes(make(50, 12, density=density).text())
    data = load_dataset("wide", tmp_path, classes=True).to(torch.device("cpu"))
    assert data.features == 12
    gradient = torch.full((12,), torch.nan)
    data.train.rows.weighted_sum_(gradient, torch.ones(100))
    assert gradient[:9].all()
    assert gradient[9:].tolist() == [0, 0, 0]
    for part in (data.train, data.validation):
        assert part.rows.scores(torch.ones(12)).isfinite().all()


_FEATURES = 7


def both(matrix: torch.Tensor) -> list[Rows]:
    """Return the matrix as dense rows (without its last column) and as sparse rows."""
    entries = matrix.nonzero()
    starts = torch.zeros(len(matrix) + 1, dtype=torch.int64)
    starts[1:] = (matrix != 0).sum(dim=1).cumsum(0)
    sparse = SparseRows(matrix[matrix != 0], entries[:, 1].int(), starts)
    return [DenseRows(matrix[:, :-1].contiguous()), sparse]


@pytest.mark.parametrize("part", [slice(0, 6), slice(2, 5), slice(2, 3), slice(4, 99)])
def test_products(part: slice) -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(6, _FEATURES, generator=generator)
    matrix[torch.rand(matrix.shape, generator=generator) < 0.5] = 0
    matrix[2] = 0  # a row without entries
    matrix[:, -1] = 0  # a feature that these rows do not have
    weights = torch.arange(1.0, _FEATURES + 1)
    for whole in both(matrix):
        rows = whole[part].to(torch.device("cpu"))
        expected = matrix[part]
        coefficients = torch.arange(1.0, len(expected) + 1)
        out = torch.full((_FEATURES,), torch.nan)
        rows.weighted_sum_(out, coefficients)
        assert len(rows) == len(expected)
        torch.testing.assert_close(rows.scores(weights), expected @ weights)
        torch.testing.assert_close(rows[1:].scores(weights), expected[1:] @ weights)
        torch.testing.assert_close(out, expected.T @ coefficients)
