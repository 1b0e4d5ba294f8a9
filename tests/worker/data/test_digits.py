"""The digits are real, complete, and always split in the same way."""

from dataclasses import replace

import torch

from mlbench.tasks import TRAIN_DIGITS
from mlbench_worker.data.digits import CLASSES, load_digits


def test_the_split_is_complete_stratified_and_fixed() -> None:
    digits = load_digits()
    assert (len(digits.train), len(digits.validation)) == (TRAIN_DIGITS, 364)
    for part in (digits.train, digits.validation):
        assert part.images.shape == (len(part), 1, 8, 8)
        assert part.images.dtype == torch.float32
        assert (part.images.min().item(), part.images.max().item()) == (0.0, 1.0)
        counts = part.labels.bincount(minlength=CLASSES)
        # Each digit is there 174 to 183 times.
        assert ((counts / len(part) - 0.1).abs() < 0.005).all()
    assert torch.equal(load_digits().validation.images, digits.validation.images)


def test_the_checksum_is_that_of_all_arrays() -> None:
    digits = load_digits()
    assert digits.sha256 == load_digits().sha256
    assert replace(digits, train=digits.validation).sha256 != digits.sha256
    labels = digits.validation.labels.clone()
    labels[7] += 1
    changed = replace(digits, validation=replace(digits.validation, labels=labels))
    assert changed.sha256 != digits.sha256
