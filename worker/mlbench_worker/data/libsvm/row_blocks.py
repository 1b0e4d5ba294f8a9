"""Rows of features, dense or sparse, with their targets.

Rows have the two products that a linear model needs. They are a matrix ``X`` whose columns beyond
the last one are zero. Weights may therefore be longer than the rows are wide: a validation file
often has features that its training file lacks. Slices are views.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class DenseRows:
    """Rows that name every feature."""

    values: torch.Tensor
    """``[rows, width]``"""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> "DenseRows":
        return DenseRows(self.values[part])

    def scores(self, weights: torch.Tensor) -> torch.Tensor:
        """Return ``X w``, one score for each row."""
        return _product(self.values, weights[: self.values.shape[1]])

    def dense(self, width: int) -> torch.Tensor:
        """Return the matrix, padded with zeros to a width."""
        return functional.pad(self.values, (0, width - self.values.shape[1]))

    def weighted_sum_(self, out: torch.Tensor, coefficients: torch.Tensor) -> None:
        """Set ``out``, as long as the weights, to ``X^T c``: the sum of the rows times ``c``."""
        width = self.values.shape[1]
        if width < out.shape[0]:
            out[width:].zero_()
        _product(self.values.T, coefficients, out=out[:width])

    def to(self, device: torch.device) -> "DenseRows":
        return DenseRows(self.values.to(device))


def _product(
    matrix: torch.Tensor, vector: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Return a matrix times a vector. On a CPU numpy has less overhead than PyTorch."""
    if matrix.is_cuda:
        return torch.mv(matrix, vector, out=out)
    result = None if out is None else out.numpy()
    return torch.from_numpy(np.matmul(matrix.numpy(), vector.numpy(), out=result))


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Compressed sparse rows (CSR): row i has the entries from ``starts[i]`` to ``starts[i + 1]``.

    ``starts`` stays on the CPU, where slices are cut.
    """

    values: torch.Tensor
    """``[entries]``"""
    columns: torch.Tensor
    """``[entries]``, int32, from 0"""
    starts: torch.Tensor
    """``[rows + 1]``, int64; the first may exceed 0: entries before it are in other slices"""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, part: slice) -> "SparseRows":
        start, stop, _ = part.indices(len(self))
        return SparseRows(self.values, self.columns, self.starts[start : stop + 1])

    def scores(self, weights: torch.Tensor) -> torch.Tensor:
        """Return ``X w``: each row is a bag of weights, summed with its values as factors."""
        values, columns, starts = self._entries()
        return functional.embedding_bag(
            columns,
            weights.unsqueeze(1),
            starts[:-1].to(columns),
            mode="sum",
            per_sample_weights=values,
        ).squeeze(1)

    def dense(self, width: int) -> torch.Tensor:
        """Return the dense matrix, padded with zeros to a width."""
        values, columns, starts = self._entries()
        rows = torch.arange(len(self)).repeat_interleave(starts.diff())
        matrix = torch.zeros(len(self), width)
        matrix[rows, columns.long()] = values
        return matrix

    def weighted_sum_(self, out: torch.Tensor, coefficients: torch.Tensor) -> None:
        """Set ``out`` to ``X^T c``. On a GPU the order of additions, and so rounding, varies."""
        values, columns, starts = self._entries()
        lengths = starts.diff().to(values.device)
        factors = coefficients.repeat_interleave(lengths, output_size=len(values))
        out.zero_().index_add_(0, columns, factors.mul_(values))

    def to(self, device: torch.device) -> "SparseRows":
        return SparseRows(self.values.to(device), self.columns.to(device), self.starts)

    def _entries(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return values and columns of only these rows, and the start of each row in them."""
        first, last = int(self.starts[0]), int(self.starts[-1])
        return self.values[first:last], self.columns[first:last], self.starts - first


Rows = DenseRows | SparseRows


@dataclass(frozen=True, slots=True)
class SparseSamples:
    """Rows of features, and a target for each."""

    rows: Rows
    targets: torch.Tensor
    """``[rows]``: -1 and +1 for classes, or any numbers."""

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, part: slice) -> "SparseSamples":
        return SparseSamples(self.rows[part], self.targets[part])

    def to(self, device: torch.device) -> "SparseSamples":
        return SparseSamples(self.rows.to(device), self.targets.to(device))
