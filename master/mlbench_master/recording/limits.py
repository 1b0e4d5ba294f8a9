"""Limits on the samples that are taken: the series of an owner, and the bytes that may wait."""

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from sys import intern

from mlbench.contract.series import SeriesKey, series_name
from mlbench_master.database.connection import (
    check_room,
    exclusive,
    find_shortage,
    run_many,
    run_sql,
)
from mlbench_master.database.models import Run
from mlbench_master.errors import BadFieldError, ServiceUnavailableError
from mlbench_master.recording.samples import MALFORMED, Sample
from mlbench_master.recording.streams import waiting_bytes

# Raw SQL, because a thousand ranks begin with fifty series each.
_COUNT = "SELECT COUNT(*) FROM seriesname WHERE owner = ?"
_ADMITTED = "SELECT metric, rank FROM seriesname WHERE owner = ?"
_ADMIT = "INSERT INTO seriesname (owner, metric, rank) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
# Names in a message about refused series.
_NAMES_SHOWN = 10
# Interval at which waiting bytes are counted again.
_FRESH_SECONDS = 0.5
_ADVICE = "put what varies into a step or a value, or raise MLBENCH_LIMIT_SERIES"


class SpoolFullError(ServiceUnavailableError):
    """No more samples can be taken until the controller has indexed some."""


def admit(owner: str, keys: Sequence[SeriesKey], most: int) -> frozenset[SeriesKey]:
    """Admit series of an owner, and return the series beyond the limit.

    First come, first served. A series once admitted stays so: a batch that is indexed again is
    cut alike.

    Args:
        owner: whose series these are.
        keys: series that had no samples before, each once.
        most: how many series an owner may have.
    """
    wanted = [key for key in keys if key[0] != MALFORMED]
    if not wanted:
        return frozenset()
    with exclusive(owner):
        [before] = run_sql(_COUNT, owner).fetchone()
        if before + len(wanted) <= most:
            new, room = wanted, len(wanted)
        else:
            new, room = _new_series(owner, wanted, most)
        run_many(_ADMIT, [(owner, *key) for key in new[:room]])
    return frozenset(new[room:])


def admitted_series(owner: str) -> set[SeriesKey]:
    """Return the series that were admitted for an owner."""
    # Hundreds of series share a metric or a rank, whose text is held once.
    rows = run_sql(_ADMITTED, owner).fetchall()
    return {(intern(metric), intern(rank)) for metric, rank in rows}


def summarize(refused: Sequence[Sample], rank: str, now_us: int, most: int) -> Sample:
    """Return the one sample that is kept in place of all refused ones."""
    names = list(dict.fromkeys(series_name(*sample[:2]) for sample in refused))
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
    text = (
        f"{len(refused):,} samples of {len(names):,} series beyond the limit of {most:,} "
        f"are refused: {shown}"
    )
    return Sample(MALFORMED, rank, now_us, text)


def store_refused(run: Run, refused: Sequence[Sample], most: int) -> None:
    """Add refused samples to those that the run reports."""
    if not refused:
        return
    before = run.refused or {"first": series_name(*refused[0][:2]), "samples": 0}
    run.refused = before | {"samples": before["samples"] + len(refused), "most": most}
    run.save(only=[Run.refused])


def describe_refused(run: Run) -> str:
    """Describe a run's refused samples in a sentence; empty if there are none."""
    if not run.refused:
        return ""
    first, samples, most = (run.refused[name] for name in ("first", "samples", "most"))
    more = f" and {samples - 1:,} more are" if samples > 1 else " is"
    return (
        f"run {run.id} has more than {most:,} series: "
        f"a sample of {first!r}{more} refused; {_ADVICE}"
    )


@dataclass
class SeriesLimit:
    """Admits the series of posted samples. Threads may share it."""

    most: int
    _known: set[tuple[str, SeriesKey]] = field(default_factory=set)

    def has_admitted(self, owner: str, keys: Iterable[SeriesKey]) -> bool:
        """Check if all of these series were admitted recently."""
        return all((owner, key) in self._known for key in keys)

    def check(self, owner: str, keys: Iterable[SeriesKey]) -> None:
        """Admit all of these series.

        Raises:
            BadFieldError: the series exceed the limit; none is admitted (400).
        """
        wanted = [key for key in keys if (owner, key) not in self._known]
        if not wanted:
            return
        with exclusive(owner):
            new, room = _new_series(owner, wanted, self.most)
            if len(new) > room:
                raise BadFieldError(
                    "name",
                    f"{owner.replace('/', ' ')} has more than {self.most:,} series with these: "
                    f"{series_name(*new[room])!r} is refused; {_ADVICE}",
                )
            run_many(_ADMIT, [(owner, *key) for key in new])
        # At most this many admitted series are held in memory.
        if len(self._known) > 100_000:
            self._known.clear()
        self._known.update((owner, key) for key in wanted)


def _new_series(owner: str, keys: Iterable[SeriesKey], most: int) -> tuple[list[SeriesKey], int]:
    """Return the series that an owner does not have yet, and how many more it may have.

    Malformed lines do not count, because they report the excess.
    """
    if not (wanted := [key for key in dict.fromkeys(keys) if key[0] != MALFORMED]):
        return [], 0
    known = admitted_series(owner)
    return [key for key in wanted if key not in known], max(0, most - len(known))


def has_room(limit_bytes: int) -> bool:
    """Check that the disk has room, and no more than ``limit_bytes`` of samples wait."""
    return not find_shortage() and waiting_bytes() <= limit_bytes


@dataclass
class Spool:
    """Bounds the samples that wait to be indexed. Threads may share it."""

    limit_bytes: int
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: int = 0
    _counted_at: float = float("-inf")

    def check_room(self) -> None:
        """Raise an error if no more samples can be taken.

        Raises:
            SpoolFullError: more than ``limit_bytes`` wait already.
            NoRoomError: the disk is full.
        """
        with self._lock:
            if time.monotonic() - self._counted_at > _FRESH_SECONDS:
                check_room()
                self._waiting, self._counted_at = waiting_bytes(), time.monotonic()
        if self._waiting > self.limit_bytes:
            raise SpoolFullError(
                f"{self._waiting} bytes of samples wait for the controller, and at "
                f"most {self.limit_bytes} may: try again later, nothing was stored"
            )
