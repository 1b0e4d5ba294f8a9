"""A run whose samples go through a Prometheus that may be faulty, and where each must be."""

import time
from collections import Counter
from collections.abc import Sequence

from mlbench.contract.series import format_value
from mlbench_master.database.models import Run, run_owner
from mlbench_master.reading.counting import SampleCounts, count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.record import LiveRecord
from mlbench_master.reading.selection import AFTER_ALL_US, BEFORE_ALL_US
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.samples import Sample
from tests.support.places import (
    Place,
    assert_everywhere_once,
    in_prometheus,
    in_record,
    nothing_waits,
)
from tests.support.recording import Recording
from tests.support.rows import line, make_run, post, record


class Case:
    """Records and posts samples for a run, indexes and exports them, and looks where they are."""

    def __init__(
        self, writes_to: str, reads_from: str | None = None, timeout_seconds: float = 10.0
    ) -> None:
        self.run: Run = make_run()
        self.url = reads_from or writes_to
        self.recorded: Counter[Place] = Counter()
        self.rounds = 0
        self._writer = RemoteWriter(writes_to, timeout_seconds)
        self._prometheus = PrometheusClient(self.url)
        self.recording = Recording.to(self._writer)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of rank 0's series, except the metric's name."""
        return {"__name__": "mlbench_run_metric", "run_id": str(self.run.id), "rank": "0"}

    def record(self, at_ms: float, /, rank: int = 0, **metrics: float | str) -> None:
        """Record metrics on a rank."""
        record(self.run, line(at_ms / 1000, **metrics), rank)
        for metric, value in metrics.items():
            self.recorded[Place(metric, str(rank), round(at_ms * 1000), format_value(value))] += 1

    def post(self, at_ms: float, **metrics: float | str) -> None:
        """Post metrics of rank 0 in one body."""
        self.post_all([Sample(m, "0", round(at_ms * 1000), v, True) for m, v in metrics.items()])

    def post_all(self, samples: Sequence[Sample]) -> None:
        post(run_owner(self.run.id), samples)
        for metric, rank, time_us, value, *_ in samples:
            self.recorded[Place(metric, rank, time_us, format_value(value))] += 1

    def run_all(self) -> None:
        self.recording.run_all()
        assert nothing_waits()

    def run_and_check(self) -> None:
        """Index and export everything, and make sure that each sample is where it should be."""
        self.run_all()
        self.assert_in_place()

    def assert_in_place(self) -> None:
        """Make sure that the record and Prometheus have each sample, and that it is counted."""
        assert nothing_waits()
        assert_everywhere_once(self.url, self.run.id, self.recorded)
        only_here = in_record(self.run.id, only=True).total()
        total = self.recorded.total()
        assert self.count() == SampleCounts(total, total - only_here, only_here)

    def count(self) -> SampleCounts:
        return count(self._prometheus, self.run)

    def sent(self, metric: str) -> list[str]:
        """Return the values that Prometheus has of a metric, in order of time."""
        found = in_prometheus(self.url, self.run.id)
        places = [place for place in found if place.metric == metric]
        return [place.value for place in sorted(places, key=lambda place: place.time_us)]

    def close(self) -> None:
        self._writer.close()
        self._prometheus.close()

    def record_some(self) -> None:
        """Record on both ranks, and post one sample and a list."""
        self.rounds += 1
        now_ms = time.time_ns() // 1_000_000
        for rank in (0, 1):
            for i in range(10):
                self.record(now_ms + i, rank, loss=i / 7, text=f"step {i}")
        self.post_all([Sample("one", "", now_ms * 1000 + 7, 0.1, False, {"of": ["one"]})])
        many = [Sample("many", str(i % 2), (now_ms + i) * 1000, float(i)) for i in range(10)]
        self.post_all([*many, Sample("note", "", now_ms * 1000, "a text", metadata="m")])

    def assert_complete(self) -> None:
        """Make sure that each sample is stored, with the fields that were posted with it."""
        self.assert_in_place()
        recorded = LiveRecord(run_owner(self.run.id))
        [one] = recorded.read("one", BEFORE_ALL_US, AFTER_ALL_US).values()
        given = [(note.cumulative, note.metadata) for note in one.notes.values()]
        assert given == [(False, {"of": ["one"]})] * self.rounds
        [notes] = recorded.read("note", BEFORE_ALL_US, AFTER_ALL_US).values()
        assert [note.metadata for note in notes.notes.values()] == ["m"] * self.rounds
