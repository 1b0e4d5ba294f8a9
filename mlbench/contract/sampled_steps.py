"""Selection of the steps that a tracker records individually: the same steps on all ranks."""

# All of the first steps are recorded. Later steps become rarer, so that a long training has a few
# thousand values.
_ALL_OF_FIRST = 500


def is_sampled(step: int) -> bool:
    """Check whether a step, counted from 1, is recorded."""
    # Multiples of the golden ratio, modulo 1, are spread evenly, also for every second or
    # fifth step. Steps that are slow at regular intervals are therefore not over-represented.
    return step * 0.6180339887498949 % 1.0 * step < _ALL_OF_FIRST


def steps_per_sample(step: int) -> float:
    """Return the number of steps that a recorded step represents."""
    return max(1.0, step / _ALL_OF_FIRST)
