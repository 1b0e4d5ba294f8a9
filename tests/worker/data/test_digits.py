"""The digits are real and complete, and are always split in the same way."""

import torch

from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.benchmarks.tasks import TRAIN_DIGITS
from mlbench_worker.data.digits import CLASSES, load_digits


def test_the_split_is_complete_stratified_and_fixed() -> None:
    digits = load_digits()
    assert (len(digits.train), len(digits.validation)) == (TRAIN_DIGITS, 364)
    for part in (digits.train, digits.validation):
        assert part.images.shape == (len(part), 1, 8, 8)
        assert part.images.dtype == torch.float32
        assert (part.images.min().item(), part.images.max().item()) == (0.0, 1.0)
        counts = part.labels.bincount(minlength=CLASSES)
        # Each digit occurs 174 to 183 times.
        assert ((counts / len(part) - 0.1).abs() < 0.005).all()
    assert digits.sha256 == BENCHMARKS["digits"].facts["data_sha256"][0]
