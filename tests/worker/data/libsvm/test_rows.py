"""Dense and sparse rows multiply as the matrix that they stand for."""

import pytest
import torch

from worker.data.libsvm.rows import DenseRows, Rows, SparseRows

_FEATURES = 7


@pytest.fixture
def matrix() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(6, _FEATURES, generator=generator)
    matrix[torch.rand(matrix.shape, generator=generator) < 0.5] = 0
    matrix[2] = 0  # a row without entries
    matrix[:, -1] = 0  # a feature that these rows have not
    return matrix


def both(matrix: torch.Tensor) -> list[Rows]:
    """Return the matrix as dense rows, without its last column, and as sparse ones."""
    entries = matrix.nonzero()
    starts = torch.zeros(len(matrix) + 1, dtype=torch.int64)
    starts[1:] = (matrix != 0).sum(dim=1).cumsum(0)
    sparse = SparseRows(matrix[matrix != 0], entries[:, 1].int(), starts)
    return [DenseRows(matrix[:, :-1].contiguous()), sparse]


@pytest.mark.parametrize("part", [slice(0, 6), slice(2, 5), slice(2, 3), slice(4, 99)])
def test_products(matrix: torch.Tensor, part: slice) -> None:
    weights = torch.arange(1.0, _FEATURES + 1)
    for whole in both(matrix):
        rows = whole[part].to(torch.device("cpu"))
        expected = matrix[part]
        coefficients = torch.arange(1.0, len(expected) + 1)
        out = torch.full((_FEATURES,), torch.nan)
        rows.weighted_sum_(out, coefficients)
        assert len(rows) == len(expected)
        torch.testing.assert_close(rows.scores(weights), expected @ weights)
        torch.testing.assert_close(out, expected.T @ coefficients)


def test_parts_of_parts(matrix: torch.Tensor) -> None:
    weights = torch.arange(1.0, _FEATURES + 1)
    for rows in both(matrix):
        torch.testing.assert_close(rows[1:5][1:3].scores(weights), matrix[2:4] @ weights)
