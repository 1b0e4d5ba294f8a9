"""The record is read as it was recorded, whatever step of the recording holds a sample."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mlbench_master.archives import contents
from mlbench_master.database.models import Block, Run, run_owner
from mlbench_master.reading.record import LiveRecord, MovedError
from mlbench_master.reading.selection import Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.recording.samples import Sample
from mlbench_master.runs import deletion, lifecycle
from tests.support.reading import StoredPoint, points_of, read, to_dict, values
from tests.support.recording import Recording
from tests.support.rows import line, post, record

pytestmark = pytest.mark.both_databases


def steps_of(recording: Recording) -> list[Callable[[], None]]:
    """Return the steps after which a reader finds the samples in another place."""
    return [lambda: None, recording.index_all, recording.export_all, recording.run_all]


def test_every_step_reads_the_same(run: Run, reader: SeriesReader, recording: Recording) -> None:
    now_ms = time.time_ns() // 1_000_000
    at = now_ms / 1000
    record(
        run,
        line(at, a=1, b=math.nan)
        + line(at, a=1)  # the same once more, in the same millisecond
        + line(at + 0.001, a=math.inf, note="text")
        + line(at - 1, a=1e-7)
        + line(at + 1, a=2)
        + b'{"time":%.3f,"ran' % (at + 0.002),
    )
    record(run, b'k":1,"metrics":{"a":9}}\n')
    record(run, line(at, **{"a": 7, "x @ 0": 3}), rank=1)
    expected = {
        "a @ 0": [
            StoredPoint((now_ms - 1000) * 1000, "1e-07"),
            StoredPoint(now_ms * 1000, "1"),
            StoredPoint(now_ms * 1000, "1"),
            StoredPoint((now_ms + 1) * 1000, "+Inf"),
            StoredPoint((now_ms + 1000) * 1000, "2"),
        ],
        "a @ 1": [StoredPoint(now_ms * 1000, "7"), StoredPoint((now_ms + 2) * 1000, "9")],
        "b @ 0": [StoredPoint(now_ms * 1000, "NaN")],
        "note @ 0": [StoredPoint((now_ms + 1) * 1000, "text")],
        "x @ 0 @ 1": [StoredPoint(now_ms * 1000, "3")],
    }
    alone = {(name,): {name: points} for name, points in expected.items()}
    alone["x @ 0",] = alone["x @ 0 @ 1",]
    for step in steps_of(recording):
        step()
        assert read(reader, run) == expected
        assert list(read(reader, run)) == sorted(expected)
        assert {names: read(reader, run, Selection(names=names)) for names in alone} == alone


def steps(start_ms: int, first: int, last: int) -> bytes:
    """Return lines with numbers, two in each millisecond, and texts."""
    return b"".join(
        line((start_ms + i * 5 + j / 2) / 1000, a=2 * i + j, note=str(2 * i + j) + "x")
        for i in range(first, last)
        for j in (0, 1)
    )


@pytest.mark.usefixtures("joined_soon")
def test_blocks_that_are_joined_during_a_read_do_not_change_its_values(
    run: Run, recording: Recording
) -> None:
    start_ms = time.time_ns() // 1_000_000 - 1_000
    owner = run_owner(run.id)

    def contents(opened: LiveRecord) -> list[tuple[str, list[int], list[float], int]]:
        return [
            (metric, series.times_us.tolist(), series.values.tolist(), len(series.notes))
            for metric in ("a", "step")
            for series in opened.read(metric, start_ms * 1000 - 1, 1 << 62).values()
        ]

    def written(first: int, last: int) -> bytes:
        return b"".join(line((start_ms + i) / 1000, step=i, a=i) for i in range(first, last))

    record(run, written(0, 3))
    recording.run_all()
    record(run, written(3, 5))
    recording.index_all()
    record(run, written(5, 6))
    opened = LiveRecord(owner)
    expected = contents(opened)
    assert [len(times) for _, times, _, _ in expected] == [6, 6]
    # The blocks of three samples and two become one, which is longer still.
    for more in range(6, 10):
        record(run, written(more, more + 1))
        recording.run_all()
        assert contents(opened) == expected
    blocks = Block.select().where(Block.owner == owner, Block.metric == "a")
    assert sorted(block.samples for block in blocks) == [10]
    assert [len(times) for _, times, _, _ in contents(LiveRecord(owner))] == [10, 10]


def test_an_export_meanwhile_adds_nothing_to_an_archive(
    run: Run, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = round(time.time(), 3)
    # Until they are exported, it is unknown that Prometheus cannot hold the last three.
    record(run, line(now, a=1) + line(now, a=2) + line(now - 1e6, a=3) + line(now + 1e6, a=4))
    recording.index_all()
    read_blocks = LiveRecord._blocks

    def read_and_export(self: LiveRecord, *args: Any) -> Iterator[Any]:
        yield from read_blocks(self, *args)
        recording.export_all()

    monkeypatch.setattr(LiveRecord, "_blocks", read_and_export)
    for _ in range(2):
        [(_, pieces)] = contents.series_of_record(LiveRecord(run_owner(run.id)))
        assert sorted(value for piece in pieces for value in piece.values) == [1, 2, 3, 4]


def test_concurrent_recording_does_not_change_a_response(
    run: Run, reader: SeriesReader, recording: Recording
) -> None:
    start_ms = time.time_ns() // 1_000_000 - 1_000
    record(run, steps(start_ms, 0, 20))
    post(run_owner(run.id), [Sample("a", "0", start_ms * 1000 - 7, 0.5, True, "first")])
    recording.run_all()
    record(run, steps(start_ms, 20, 40))
    expected = read(reader, run)
    assert [len(points) for points in expected.values()] == [81, 80]
    assert sorted(values(expected["a @ 0"])) == sorted(["0.5", *map(str, range(80))])
    series: dict[str, list[StoredPoint]] = {}
    for name, chunks in reader.run(run.id, Selection()):
        series[name] = points_of(chunks)
        recording.run_all()
        record(run, steps(start_ms, 40, 41))
    assert series == expected


def test_a_deleted_run_is_an_error(run: Run, reader: SeriesReader, recording: Recording) -> None:
    record(run, line(time.time(), a=1, b=2))
    recording.run_all()
    series = reader.run(run.id, Selection())
    next(series)
    Run.update(state="FINISHED").where(Run.id == run.id).execute()
    lifecycle.delete(run)
    while deletion.sweep():
        pass
    with pytest.raises(MovedError, match="sealed or deleted"):
        to_dict(series)
