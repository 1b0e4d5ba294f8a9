"""Which steps a tracker records one by one: the same on all ranks, so that they can be compared."""

# Each of the first steps is recorded. Later ones are ever fewer, so that a long training has some
# thousand values, as of other totals.
_ALL_OF_FIRST = 500
# Multiples of the golden ratio, modulo 1, are spread evenly, also those of each second or fifth
# step. So steps that are slow at regular intervals are sampled as often as others.
_GOLDEN = 0.6180339887498949


def is_sampled(step: int) -> bool:
    """Check whether a step, counted from 1, is recorded."""
    return step * _GOLDEN % 1.0 * step < _ALL_OF_FIRST


def steps_per_sample(step: int) -> float:
    """Return how many steps a recorded one stands for."""
    return max(1.0, step / _ALL_OF_FIRST)
