"""Blocks hold samples exactly, and are joined while they are small."""

import math
import random
import time

import numpy as np
import pytest

from mlbench_master.database.connection import exclusive
from mlbench_master.database.models import Block, Run, run_owner
from mlbench_master.reading.record import LiveRecord
from mlbench_master.reading.selection import AFTER_ALL_US, BEFORE_ALL_US
from mlbench_master.recording import blocks
from mlbench_master.recording.blocks import decode, encode, from_samples, join
from mlbench_master.recording.samples import Sample
from tests.support.killing import killed_at
from tests.support.recording import Recording
from tests.support.rows import line, record

SAMPLES = [
    Sample("a", "3", 1_763_683_200_123_457, 0.1),
    Sample("a", "", -62_135_596_800_000_000, -math.inf, cumulative=True),
    Sample("a", "0", 253_402_300_799_999_999, 1e300, metadata={"ü": [None, 1.5, "\0\n"]}),
    Sample("a", "3", 1, "text with \n, \u2028 and 𝄞", cumulative=False),
    Sample("a", "0", 1, math.nan),
    Sample("a", "0", 1, -0.0, metadata=0),
    Sample("a", "0", 1, ""),
]


def to_samples(columns: blocks.Samples) -> list[str]:
    """Return samples of the metric a as texts, by which zeros differ and NaN does not."""
    found = []
    for i in range(len(columns)):
        note = columns.notes.get(i, blocks.Note())
        value = float(columns.values[i]) if note.text is None else note.text
        rank = columns.rank_names[columns.ranks[i]]
        time_us = int(columns.times_us[i])
        found.append(Sample("a", rank, time_us, value, note.cumulative, note.metadata))
    return [repr(sample) for sample in found]


def test_samples_are_read_as_they_were_written() -> None:
    for count in range(1, len(SAMPLES) + 1):
        some = SAMPLES[-count:]
        read = decode(encode(from_samples(some)), count)
        assert to_samples(read) == [repr(sample) for sample in some]


def test_any_samples_can_be_joined_and_taken() -> None:
    dice = random.Random(1)  # noqa: S311 - dice, not secrets
    for _ in range(50):
        parts = [dice.choices(SAMPLES, k=dice.randrange(1, 9)) for _ in range(dice.randrange(1, 5))]
        together = [repr(sample) for part in parts for sample in part]
        joined = join([from_samples(part) for part in parts])
        assert to_samples(joined) == together
        positions = dice.sample(range(len(together)), dice.randrange(len(together) + 1))
        taken = joined.take(np.array(positions, np.int64))
        assert to_samples(taken) == [together[i] for i in positions]
    assert len(join([])) == 0


def add(run: Run, count: int, start: int = 0, *, is_posted: bool = False) -> None:
    """Add numbers, each a millisecond after the one before, as a block; every third is a text."""
    now_us = time.time_ns() // 1000 - 10**6
    samples = [
        Sample("a", str(i % 2), now_us + 1000 * i, f"text {i}" if i % 3 == 2 else float(i))
        for i in range(start, start + count)
    ]
    with exclusive(run_owner(run.id)):
        blocks.add(run_owner(run.id), samples, is_posted=is_posted)


def values(record: LiveRecord) -> dict[str, list[object]]:
    """Return the values of the metric a by rank, in order of time."""
    return {
        rank: [
            series.notes[i].text if i in series.notes else value
            for i, value in enumerate(series.values.tolist())
        ]
        for rank, series in record.read("a", BEFORE_ALL_US, AFTER_ALL_US).items()
    }


def expected(count: int) -> dict[str, list[object]]:
    found: list[object] = [f"text {i}" if i % 3 == 2 else float(i) for i in range(count)]
    return {rank: found[int(rank) :: 2] for rank in "01" if count > int(rank)}


@pytest.mark.both_databases
def test_exported_blocks_are_joined(run: Run, recording: Recording, joined_soon: None) -> None:
    owner = run_owner(run.id)
    for i in range(20):
        add(run, 5, 5 * i, is_posted=i == 1)
        assert values(LiveRecord(owner)) == expected(5 * i + 5)
        assert Block.select().where(Block.exported.is_null()).count() == 1
        recording.export_all()
        assert values(LiveRecord(owner)) == expected(5 * i + 5)
    rows = [*Block.select().order_by(Block.id)]
    # Posted ones are not joined with others, nor those that have become large.
    assert [row.samples for row in rows] == [5, 5, 35, 30, 15, 5, 5]
    assert [row.is_posted for row in rows] == [False, True, *[False] * 5]
    for row in rows:
        samples = decode(bytes(row.data), row.samples)
        assert (row.first_us, row.last_us) == (samples.times_us.min(), samples.times_us.max())
        assert row.only_here == blocks.texts_among(samples.notes)
        assert row.exported == row.samples - len(row.only_here)


@pytest.mark.both_databases
@pytest.mark.parametrize("step", ["export.join_small", "blocks.encode", "blocks.decode"])
def test_blocks_are_joined_once_though_the_controller_is_killed(
    run: Run, recording: Recording, joined_soon: None, step: str
) -> None:
    for start in (0, 5):
        add(run, 5, start)
        recording.export_all()
    add(run, 5, 10)
    with killed_at(f"mlbench_master.recording.{step}"):
        recording.export_all()
    assert values(LiveRecord(run_owner(run.id))) == expected(15)
    for start in (15, 20):
        add(run, 5, start)
        recording.export_all()
    [row] = Block.select()
    assert (row.samples, row.exported, row.only_here) == (25, 17, [*range(2, 25, 3)])
    assert values(LiveRecord(run_owner(run.id))) == expected(25)


@pytest.mark.both_databases
def test_others_blocks_are_not_joined(run: Run, recording: Recording, joined_soon: None) -> None:
    now = time.time()
    for i in range(3):
        record(run, line(now + i, a=i, b=i))
        record(run, line(now + i, a=-i), rank=1)
        recording.run_all()
    with exclusive("pod/w-0"):
        blocks.add("pod/w-0", [Sample("a", "", 1, 1.0)], is_posted=True)
    recording.export_all()
    rows = [(row.owner, row.metric, row.samples) for row in Block.select().order_by(Block.id)]
    owner = run_owner(run.id)
    assert sorted(rows) == [("pod/w-0", "a", 1), (owner, "a", 6), (owner, "b", 3)]
