"""Record delivered samples in the database: their series, and those that Prometheus lacks."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from peewee import chunked

from mlbench.contract.series import SeriesKey, format_value
from mlbench_master.database.connection import run_many
from mlbench_master.database.models import Detail, Stream, UnstorableSample
from mlbench_master.recording.plan import Plan
from mlbench_master.recording.samples import Sample
from mlbench_master.recording.streams import POSTED

# Rows in one statement: databases limit its parameters.
_ROWS = 500
_STORE_SERIES = """
    INSERT INTO series (owner, metric, rank, first_ms, last_ms, samples) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (owner, metric, rank) DO UPDATE SET
        last_ms = excluded.last_ms, samples = series.samples + excluded.samples
"""


def store_plan(stream: Stream, sent: Plan) -> None:
    """Record the delivered samples of a stream, or of several streams of its owner and kind."""
    _store_series(stream.owner, sent.send)
    _store_details(stream, sent.send)
    keep(stream.owner, sent.keep)


def _store_series(owner: str, sent: Mapping[SeriesKey, Sequence[Sample]]) -> None:
    rows = [
        (owner, *key, samples[0].time_us // 1000, samples[-1].time_us // 1000, len(samples))
        for key, samples in sent.items()
    ]
    if rows:
        run_many(_STORE_SERIES, rows)


def _store_details(stream: Stream, sent: Mapping[SeriesKey, Sequence[Sample]]) -> None:
    """Store what Prometheus cannot hold of posted samples, and of all with metadata."""
    is_posted = stream.name == POSTED
    detailed = [
        sample
        for samples in sent.values()
        for sample in samples
        if sample.metadata is not None
        or (is_posted and (sample.cumulative is not None or sample.time_us % 1000))
    ]
    for (metric, rank), samples in groupby(detailed, itemgetter(0, 1)):
        details = [(sample.time_us, sample.cumulative, sample.metadata) for sample in samples]
        Detail.create(
            owner=stream.owner,
            metric=metric,
            rank=rank,
            first_ms=details[0][0] // 1000,
            last_ms=details[-1][0] // 1000,
            samples=details,
        )


def keep(owner: str, samples: Iterable[Sample]) -> None:
    """Store samples that Prometheus cannot hold."""
    kept = UnstorableSample
    place = (kept.owner, kept.metric, kept.rank, kept.time_us)
    fields = (*place, kept.value, kept.cumulative, kept.metadata)
    rows = ((owner, *s[:3], format_value(s.value), s.cumulative, s.metadata) for s in samples)
    for some in chunked(rows, _ROWS):
        kept.insert_many(some, fields).execute()
