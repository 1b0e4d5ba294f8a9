"""Downloads of a run in other formats: MLPerf's log, and TensorBoard's event files."""

import csv
import io
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mlbench.client import ApiClient
from mlbench.client.transport import OnProgress
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench.contract.series import split_name
from mlbench_sources.tensorboard import Scalar, first_record, to_record

# TensorBoard recognizes its files by this name.
_EVENT_FILE = "events.out.tfevents.{began:.0f}.mlbench.{run}.0"


def write_mllog(client: ApiClient, run: Run, path: Path, on_progress: OnProgress) -> int:
    """Write the lines of MLPerf's log to a file."""
    with path.open("xb") as file:
        return client.download(run.id, file, format="mllog", on_progress=on_progress)


class _Row(NamedTuple):
    metric: str
    rank: str
    time: float
    value: float


def write_event_files(client: ApiClient, run: Run, folder: Path, on_progress: OnProgress) -> int:
    """Write the numbers of a run into a new folder, and return the size of all files in bytes.

    The step of a value is the last one that its rank recorded, or else the position of the value in
    its series. Strings are left out.

    Raises:
        OSError: the disk is full, or the folder exists.
    """
    folder.mkdir(parents=True)
    with tempfile.TemporaryFile() as table, ExitStack() as stack:
        client.download(run.id, table, format="csv", on_progress=on_progress)
        steps: dict[str, list[tuple[float, int]]] = {}
        for row in _rows(table):
            if row.metric == names.STEP and row.value.is_integer():
                steps.setdefault(row.rank, []).append((row.time, int(row.value)))
        files: dict[str, BinaryIO] = {}
        places: Counter[tuple[str, str]] = Counter()
        for row in _rows(table):
            if row.rank not in files:
                place = folder / (f"rank-{row.rank}" if row.rank else "posted")
                place.mkdir()
                file = place / _EVENT_FILE.format(began=row.time, run=run.id)
                files[row.rank] = stack.enter_context(file.open("xb"))
                files[row.rank].write(first_record(row.time))
            of_rank = steps.get(row.rank, [])
            position = bisect_right(of_rank, row.time, key=lambda recorded: recorded[0])
            step = of_rank[position - 1][1] if position else places[row.metric, row.rank]
            places[row.metric, row.rank] += 1
            files[row.rank].write(to_record(Scalar(row.metric, row.time, step, row.value)))
        return sum(file.tell() for file in files.values())


def _rows(table: BinaryIO) -> Iterator[_Row]:
    table.seek(0)
    text = io.TextIOWrapper(table, encoding="utf-8", newline="")
    try:
        for line in csv.DictReader(text):
            metric, rank = split_name(line["series"])
            try:
                value = float(line["value"])
            except ValueError:
                continue
            yield _Row(metric, rank, datetime.fromisoformat(line["date"]).timestamp(), value)
    finally:
        text.detach()
