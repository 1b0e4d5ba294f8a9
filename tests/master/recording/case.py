"""A run whose samples go to one Prometheus, through whatever stands before it."""

import time
from collections import Counter

from master.controller.settling import Settler
from master.models import Detail, KeptSample, Run, run_owner
from master.reading.counting import SampleCounts, count
from master.reading.promql import PrometheusClient
from master.recording.delivery import Delivery
from master.recording.remote_write import RemoteWriter
from master.recording.samples import Sample, spell
from tests.master.making import line, make_run, post, record
from tests.master.recording.places import (
    Place,
    assert_everywhere_once,
    kept,
    nothing_waits,
)


class Case:
    """A run whose samples go through a faulty Prometheus, and what was recorded of it."""

    def __init__(self, writes_to: str, reads_from: str, timeout_seconds: float = 10.0) -> None:
        self.run: Run = make_run()
        self.rounds = 0
        self.recorded: Counter[Place] = Counter()
        self._reads_from = reads_from
        self._writer = RemoteWriter(writes_to, timeout_seconds)
        self._prometheus = PrometheusClient(reads_from)
        self.delivery = Delivery(self._writer)
        self.settler = Settler(self._prometheus, self.delivery, look_seconds=0.0)

    def recount(self) -> None:
        """Count the runs, and have delivered again what Prometheus has lost of them."""
        self.settler.recount()
        self.settler.turn()

    def record_some(self) -> None:
        """Record on both ranks, and post one sample and a list."""
        self.rounds += 1
        now_ms = time.time_ns() // 1_000_000
        for rank in (0, 1):
            lines = b""
            for i in range(10):
                values: dict[str, float | str] = {"loss": i / 7, "text": f"step {i}"}
                lines += line((now_ms + i) / 1000, **values)
                for metric, value in values.items():
                    self._note(Sample(metric, str(rank), (now_ms + i) * 1000, value))
            record(self.run, lines, rank)
        self._post([Sample("one", "", now_ms * 1000 + 7, 0.1, False, {"of": ["one"]})])
        self._post(
            [
                *(Sample("many", str(i % 2), (now_ms + i) * 1000, float(i)) for i in range(10)),
                Sample("note", "", now_ms * 1000, "a text", metadata="m"),
            ]
        )

    def _post(self, samples: list[Sample]) -> None:
        post(run_owner(self.run.id), samples)
        for sample in samples:
            self._note(sample)

    def _note(self, sample: Sample) -> None:
        metric, rank, time_us, value = sample[:4]
        self.recorded[Place(metric, rank, time_us, spell(value))] += 1

    def deliver_all(self) -> None:
        """Deliver until nothing waits."""
        while self.delivery.deliver_waiting():
            pass

    def assert_complete(self) -> None:
        """Make sure that each sample is in one place, with its value, and counted so."""
        assert nothing_waits()
        assert_everywhere_once(self._reads_from, self.run.id, self.recorded)
        details = Detail.select().where(Detail.owner == run_owner(self.run.id))
        given = [one[1:] for detail in details for one in detail.samples]
        assert given == [[False, {"of": ["one"]}]] * self.rounds
        notes = KeptSample.select().where(KeptSample.owner == run_owner(self.run.id))
        assert [note.metadata for note in notes.where(KeptSample.metric == "note")] == (
            ["m"] * self.rounds
        )
        held = kept(self.run.id).total()
        assert self.count() == SampleCounts(
            self.recorded.total(), self.recorded.total() - held, held
        )

    def count(self) -> SampleCounts:
        """Count the run's samples."""
        return count(self._prometheus, self.run.id)

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()
        self._prometheus.close()
