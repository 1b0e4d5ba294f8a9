"""The limit of series: which of an owner's are admitted, first come, first served.

A series that was admitted once always is, so a batch that is delivered again is cut alike.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from peewee import chunked

from master.database import database, exclusive
from master.models import Run, SeriesName
from master.recording.samples import MALFORMED, Sample, SeriesKey, series_name
from mlbench.errors import MLBenchError

# Rows in one statement: databases have a limit on its parameters.
_ROWS = 500
# So many names are told of those that are refused, and so many known ones remembered.
_TOLD = 10
_REMEMBERED = 100_000


class TooManySeriesError(MLBenchError):
    """An owner would have more series than it may."""


def admit(owner: str, keys: Iterable[SeriesKey], most: int) -> Collection[SeriesKey]:
    """Admit what an owner has room for of these series; return the others."""
    new, _ = _new(owner, keys, most)
    if not new:
        return ()
    with exclusive(owner):
        new, room = _new(owner, new, most)
        _add(owner, new[:room])
    return frozenset(new[room:])


def split(
    samples: Sequence[Sample], refused: Collection[SeriesKey]
) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """Return the samples that are admitted, and those that are not."""
    if not refused:
        return samples, ()
    return (
        [sample for sample in samples if sample[:2] not in refused],
        [sample for sample in samples if sample[:2] in refused],
    )


def summarize(refused: Sequence[Sample], rank: str, now_us: int, most: int) -> Sample:
    """Return the one sample that is kept of those that are refused."""
    names = list(dict.fromkeys(series_name(*sample[:2]) for sample in refused))
    told = ", ".join(names[:_TOLD]) + (", …" if len(names) > _TOLD else "")
    text = (
        f"{len(refused):,} samples of {len(names):,} series beyond the limit of {most:,} "
        f"are refused: {told}"
    )
    return Sample(MALFORMED, rank, now_us, text)


def note_refused(run: Run, refused: Sequence[Sample], most: int) -> None:
    """Have a run say what was refused of it so far."""
    if not refused:
        return
    before = run.refused or {"first": series_name(*refused[0][:2]), "samples": 0}
    run.refused = before | {"samples": before["samples"] + len(refused), "most": most}
    run.save(only=[Run.refused])


def describe_refused(run: Run) -> str:
    """Return what was refused of a run in a sentence; an empty one for nothing."""
    if not run.refused:
        return ""
    first, samples, most = (run.refused[name] for name in ("first", "samples", "most"))
    more = f" and {samples - 1:,} more are" if samples > 1 else " is"
    return f"{_excess(f'run {run.id}', most)}: a sample of {first!r}{more} refused; {_ADVICE}"


_ADVICE = "put what varies into a step or a value"


def _excess(owner: str, most: int) -> str:
    return f"{owner} has more than {most:,} series"


@dataclass
class SeriesLimit:
    """Admits the series of posted samples. Threads may share it."""

    most: int
    _known: set[tuple[str, SeriesKey]] = field(default_factory=set)

    def check(self, owner: str, keys: Iterable[SeriesKey]) -> None:
        """Admit all of these series, which are mostly the ones of before.

        Raises:
            TooManySeriesError: an owner has no room for all of them, so none was admitted.
        """
        wanted = [key for key in keys if (owner, key) not in self._known]
        if not wanted:
            return
        with exclusive(owner):
            new, room = _new(owner, wanted, self.most)
            if len(new) > room:
                told = f"{series_name(*new[room])!r} is refused; {_ADVICE}"
                raise TooManySeriesError(
                    f"{_excess(owner.replace('/', ' '), self.most)} with these: {told}"
                )
            _add(owner, new)
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known.update((owner, key) for key in wanted)


def _new(owner: str, keys: Iterable[SeriesKey], most: int) -> tuple[list[SeriesKey], int]:
    """Return the series that an owner does not have yet, and how many more it may have.

    What says that there are too many is no part of them.
    """
    if not (wanted := [key for key in dict.fromkeys(keys) if key[0] != MALFORMED]):
        return [], 0
    rows = SeriesName.select(SeriesName.metric, SeriesName.rank).where(SeriesName.owner == owner)
    known = set(database.execute(rows.tuples()))
    return [key for key in wanted if key not in known], max(0, most - len(known))


def _add(owner: str, keys: Iterable[SeriesKey]) -> None:
    rows = ({"owner": owner, "metric": metric, "rank": rank} for metric, rank in keys)
    for some in chunked(rows, _ROWS):
        SeriesName.insert_many(some).execute()
