"""What is measured of each: the same four things, as far as it can do them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Something to measure: what, and its unit."""

    SINGLE = "one sample a request, 8 clients", "posts/s"
    BATCH = "1,000 samples a request, 1 client", "samples/s"
    READ = "read a run's 100,000 samples", "ms"
    READ_ZIP = "read a run's 100,000 samples, zip", "ms"

    @property
    def what(self) -> str:
        """Return what is measured."""
        return self.value[0]

    @property
    def unit(self) -> str:
        """Return the unit of what is measured."""
        return self.value[1]

    def times_as_fast(self, ours: float, theirs: float) -> float:
        """Return how many times as fast we are."""
        return theirs / ours if self.unit == "ms" else ours / theirs


@dataclass(frozen=True)
class Contender:
    """A running server, and what measures it."""

    name: str
    measure: Mapping[Kind, Callable[[], float]]
