"""What a source hands to the collector, sample by sample, and the promise it keeps."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from exporter.series import Series

WORKER: Final = "worker"
"""The container of a worker pod in which the agent and the training run."""


class SourceError(Exception):
    """A source cannot be read now; the message says why, and where it can, what to do."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a series, as read at one moment."""

    series: Series
    labels: tuple[str, ...]
    """The values of the series' labels, in their order."""
    value: float
    time: float | None = None
    """When it was measured, in Unix seconds; None for now."""


class Source(Protocol):
    """A place where usage is read, e.g. /proc on this machine, or a kubelet."""

    name: str
    """Tells this source from others: the value of the label ``source``."""

    def read(self) -> Iterable[Sample]:
        """Return what the source sees now, each series with each set of labels once.

        What is unknown is left out: a gap is right where a guess would be taken for a counter
        that fell.

        Raises:
            SourceError: it cannot be read, or not all of it; what it has yielded before counts.
        """
