"""Whether Prometheus still has all that it was given: what is left is never taken for the whole."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from master.models import find_run
from master.reading.points import Pieces
from master.reading.promql import PrometheusError
from master.reading.stored import Stored
from master.recording.samples import SeriesKey
from mlbench.names import ACTIVE_STATES

# What was whole this lately is taken to be so still.
_FRESH_SECONDS = 10.0
_MOST_REMEMBERED = 1_000


class LostSamplesError(PrometheusError):
    """Prometheus has lost or forgotten samples that it was given.

    ``may_pass`` says that they are about to be delivered again, as those of an active run are.
    """

    def __init__(self, owner: str, found: int, samples: int) -> None:
        kind, _, name = owner.partition("/")
        super().__init__(
            f"Prometheus has {found} of the {samples} samples of {kind} {name}: "
            "it lost or forgot the rest (retention, a lost disk)"
        )
        run = find_run(owner)
        self.may_pass = run is not None and run.state in ACTIVE_STATES


def check(stored: Stored, found: Mapping[SeriesKey, int]) -> None:
    """Make sure that Prometheus has as many samples of these series as were delivered.

    Raises:
        LostSamplesError: it has fewer.
        PrometheusError: they were deleted, or are delivered again, since ``stored`` was looked at.
    """
    # Of series from before they were counted, 0.
    wanted = {key: stored.delivered[key].samples for key in found}
    if all(found[key] >= samples for key, samples in wanted.items()):
        return
    stored.check()
    left = sum(min(found[key], samples) for key, samples in wanted.items())
    raise LostSamplesError(stored.owner, left, sum(wanted.values()))


def to_the_end(stored: Stored, key: SeriesKey, pieces: Pieces) -> Pieces:
    """Yield the whole of a series.

    Raises:
        LostSamplesError: this is not all that Prometheus was given; after what there is.
    """
    found = 0
    for piece in pieces:
        found += len(piece)
        yield piece
    check(stored, {key: found})


@dataclass(frozen=True)
class Memory:
    """Remembers for a short time what was found to be whole. Threads may share it."""

    _seen: dict[object, float] = field(default_factory=dict)

    def holds(self, what: object) -> bool:
        """Return whether this was found to be whole lately."""
        return time.monotonic() - self._seen.get(what, float("-inf")) < _FRESH_SECONDS

    def note(self, what: object) -> None:
        """Note that this was found to be whole just now."""
        if len(self._seen) >= _MOST_REMEMBERED:
            self._seen.clear()
        self._seen[what] = time.monotonic()
